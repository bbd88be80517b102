"""The form of a job without a browser: what it sends is what its command line and its YAML would send."""

import shlex
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.api.body.spec import JobIn, spec_out
from schedulearn.cli import submit
from schedulearn.dashboard.pages.submit import Keys
from schedulearn.dashboard.views import form
from schedulearn.wire.drafts import spec_of

SUBMIT: Any = typer.main.get_command(submit.app)
NOW = 1_800_000_000.0
FULL = {
    "command": "python train.py --lr 0.1", "name": "mnist <b>", "launcher": "torchrun", "env": "LR=0.1\nA=b c\n\n",
    "workers": "1..4", "cpus": "0.5..4", "memory": "4GB", "gpus": "1", "gpu_type": "A100", "shm": "1GB",
    "priority": "60", "time_limit": "6h", "deadline": "2d", "depends_on": "16, 17", "max_restarts": "2",
    "grace": "1m", "preemptible": "false", "notify": "ann@lab bob@example.org", "metric": "acc", "goal": "max",
    "target": "acc=0.9:stop", "steps": "100", "pattern": r"acc (\d\.\d+)",
    "batch": "32..512", "image": "pytorch/pytorch",
    "setup": "pip install x\napt-get y", "mount": "/data\n/scratch:/out:rw",
}  # fmt: skip


def by_command_line(line: str) -> dict[str, Any]:
    """The spec that `schedulearn submit …` makes of it."""
    context = SUBMIT.make_context("submit", shlex.split(line.replace("\\\n", ""))[2:])
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in context.params.items()}
    return spec_of(given, context.meta["schedulearn.command"])


def test_every_field_of_the_spec_is_in_the_form() -> None:
    schema = JobIn.model_json_schema()
    inner = {"resources": "ResourcesIn", "metric": "MetricIn"}
    paths = {
        f"{name}.{part}" if part else name
        for name in schema["properties"]
        for part in (schema["$defs"][inner[name]]["properties"] if name in inner else [""])
    }
    without = {"workdir", "snapshot"}  # files come from a copy
    assert {field.path for field in form.FIELDS.values()} == paths - without
    assert set(FULL) == set(form.FIELDS), "this test fills in all of them"


def test_the_command_line_and_the_yaml_send_the_same() -> None:
    spec, faults = form.job_spec(FULL)
    assert faults == {}
    assert by_command_line(form.command_line(FULL)) == {**spec, "workdir": None}
    assert submit.parse_spec(form.yaml_text(spec), "the page") == {**spec, "workdir": None}
    assert JobIn(**spec).to_domain(NOW).target is not None, "the service takes it"


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.sampled_from(" '\"\\$\n-"), max_size=20)


@given(TEXT, TEXT, TEXT)
def test_whatever_is_typed_means_the_same_everywhere(command: str, name: str, setup: str) -> None:
    texts = {"command": command, "name": name.replace("\n", " "), "setup": setup}
    spec, _ = form.job_spec(texts)
    assert by_command_line(form.command_line(texts)) == {**spec, "workdir": None}
    assert submit.parse_spec(form.yaml_text(spec), "the page") == {**spec, "workdir": None}


@pytest.mark.parametrize(
    ("field", "text"), [("env", "1A=x"), ("env", "no name"), ("target", "good"), ("target", "loss=much")]
)
def test_what_cannot_be_read_is_told_at_its_field(field: str, text: str) -> None:
    spec, faults = form.job_spec({"command": "x", field: text})
    assert list(faults) == [field]
    assert "allowed: " in faults[field]
    assert spec == {"command": "x"}


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("resources.cpus", "cpus"), ("workers.min", "workers"), ("env.LR", "env"), ("depends_on.0", "depends_on"),
        ("mounts.1", "mount"), ("metric.name", "metric"), ("target", "target"), ("command", "command"), ("", ""),
        ("snapshot", ""), ("names", ""),
    ],
)  # fmt: skip
def test_the_services_words_stand_at_the_field(place: str, field: str) -> None:
    found = form.faults_of([{"field": place, "problem": "it is odd", "allowed": "even"}])
    assert list(found) == [field]
    assert "it is odd (allowed: even)" in found[field]
    assert field or not place or found[field].startswith(place)


# --- copies


def taken(**fields: Any) -> dict[str, Any]:
    """A spec as the service gives it."""
    return spec_out(JobIn(**fields).to_domain(NOW), private=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "python train.py"},
        {"command": ["python", "-c", "print('a b')"], "env": {"PATH": "/bin", "A": "two\nlines", "B": ""}},
        {"command": "x", "workers": {"min": 1, "want": 2, "max": 4}, "resources": {"cpus": "0.5..4", "memory": "4GB"}},
        {"command": "x", "workdir": "/home/ann", "snapshot": "a" * 64, "grace": 90, "time_limit": "1h30m"},
        {"command": "x", "metric": {"name": "acc", "goal": "max"}, "target": {"acc": 0.123456789, "then": "stop"}},
        {"command": "x", "preemptible": True, "depends_on": [3, 4], "setup": ["a", "b"], "image": "i", "priority": 0},
    ],
)
def test_a_copy_that_nobody_changes_is_the_same_job(fields: dict[str, Any]) -> None:
    before = taken(**fields)
    origin = form.copy_of(before)
    spec, faults = form.job_spec(origin.texts, origin)
    assert faults == {}
    assert taken(**form.whole(spec, origin)) == before


def test_what_is_changed_or_emptied_in_a_copy_is() -> None:
    origin = form.copy_of(taken(command=["echo", "a b"], env={"A": "1"}, priority=70, resources={"cpus": 2, "gpus": 1}))
    assert origin.texts["command"] == "echo 'a b'"
    spec, _ = form.job_spec({**origin.texts, "env": "", "cpus": "4", "priority": ""}, origin)
    after = JobIn(**spec)
    assert (after.command, after.env, after.priority) == (("echo", "a b"), {}, None)
    needs = after.resources
    assert (needs.cpus_min, needs.cpus_max, needs.gpus) == (4.0, 4.0, 1)


def test_what_the_client_adds_goes_along_unseen() -> None:
    origin = form.copy_of(taken(command="x", env={"PATH": "/bin", "A": "1"}))
    spec, _ = form.job_spec({**origin.texts, "env": "A=2"}, origin)
    assert "PATH" not in origin.texts["env"] + form.command_line(origin.texts, origin) + form.yaml_text(spec)
    assert form.whole(spec, origin)["env"] == {"PATH": "/bin", "A": "2"}


def test_a_part_of_a_copy_is_read_together_with_the_rest() -> None:
    origin = form.copy_of(taken(command="x", metric={"name": "acc", "goal": "max"}, env={"A": "1 2\n3 4"}))
    spec, faults = form.job_spec({**origin.texts, "target": "0.9"}, origin)
    assert faults == {}
    assert spec["target"] == {"acc": 0.9}
    assert by_command_line(form.command_line(origin.texts, origin))["env"] == {"A": "1 2\n3 4"}


def test_a_copy_says_where_its_files_came_from() -> None:
    origin = form.copy_of(taken(command="x", workdir="/home/ann/my project", snapshot="a" * 64))
    spec, _ = form.job_spec(origin.texts, origin)
    assert (spec["workdir"], spec["snapshot"]) == ("/home/ann/my project", "a" * 64)
    assert "--workdir '/home/ann/my project'" in form.command_line(origin.texts, origin)
    assert "snapshot" not in form.yaml_text(spec)


def test_the_same_form_has_the_same_key() -> None:
    keys, sent = Keys(), {"command": "true", "env": {"A": "1"}}
    first = keys.of(sent)
    assert keys.of({"command": "true", "env": {"A": "1"}}) == first
    sent["env"]["A"] = "2"  # type: ignore[index]
    assert keys.of(sent) != first
