"""What is written loosely, wrongly or twice is refused, with words that say what would be right."""

import json
from typing import Any

import pytest

from support.bounded import run_bounded

JOBS = "/api/v1/jobs"
JSON = {"Content-Type": "application/json"}
# As large as a body may be. While one is looked at nobody else is answered: what grows with the square would need
# ten minutes.
LARGEST = r"""
from schedulearn.api.http.limits import MAX_BODY
from schedulearn.api.body.spec import default_name
from schedulearn.api.body.wellformed import _check_keys
from schedulearn.core.domain.errors import InvalidSpec

fields = ",".join(f'"{i}":0' for i in range(90_000))
body = f'{{{fields},"89999":1}}'
assert len(body) < MAX_BODY
try: _check_keys(body.encode())
except InvalidSpec as error: print(error.field)
for text in ("x" * MAX_BODY, "'" + "x" * MAX_BODY, "a " * (MAX_BODY // 2), "\\" * MAX_BODY):
    assert len(default_name("python train.py " + text, None)) <= 80
"""


@pytest.mark.parametrize(
    ("path", "field", "allowed"),
    [
        (f"{JOBS}?limits=1", "limits", "limit"),
        (f"{JOBS}?xyz=1", "xyz", "state, user, name, search, sort, order, limit, offset"),
        ("/api/v1/nodes?limit=1", "limit", "none"),
        (f"{JOBS}?limit=1&limit=2", "limit", "once"),
        (f"{JOBS}?limit=1_0", "limit", "a whole number"),
        (f"{JOBS}?limit=%201", "limit", "a whole number"),
        (f"{JOBS}?limit=1.0", "limit", "a whole number"),
        (f"{JOBS}?limit=\u0663", "limit", "a whole number"),
        (f"{JOBS}/1_0", "job", "a whole number"),
        (f"{JOBS}/1/logs?follow=yes", "follow", "true or false"),
        ("/api/v1/timeline?since=1700000000", "since", "a time such as"),
        (f"{JOBS}/1/files?path={'x' * 5000}", "path", "at most 4096"),
    ],
)
def test_parameters(ann: Any, problem: Any, path: str, field: str, allowed: str) -> None:
    told = problem(ann.get(path), 422)
    assert told["field"] == field
    assert allowed in told["allowed"]


def test_several_states_add_up(ann: Any, job: int) -> None:
    assert ann.get(f"{JOBS}?state=queued&state=running").json()["total"] == 1


@pytest.mark.parametrize("body", ['{"command": "a", "command": "b"}', '{"command": "a", "env": {"K": "1", "K": "2"}}'])
def test_a_field_that_is_given_twice(ann: Any, problem: Any, body: str) -> None:
    told = problem(ann.post(JOBS, content=body, headers=JSON), 422)
    assert told["field"] in ("command", "K")
    assert told["allowed"] == "each field once"


def test_a_large_body_is_looked_at_in_no_time() -> None:
    assert run_bounded(LARGEST, cpu=60) == "89999\n"


def test_a_body_that_is_no_text_or_too_deep(ann: Any, problem: Any) -> None:
    problem(ann.post(JOBS, content=b'{"command": "\xff"}', headers=JSON), 400)
    for content in (b"[" * 100_000, b'{"command": ' + b"[" * 500_000):
        answer = ann.post(JOBS, content=content, headers=JSON)
        assert answer.status_code in (400, 422)


@pytest.mark.parametrize("memory", ["5I", "5IB", "1ib", "5 I"])
def test_a_unit_that_there_is_not(ann: Any, problem: Any, memory: str) -> None:
    """It was an error of the service itself."""
    told = problem(ann.post(JOBS, json={"command": "x", "resources": {"memory": memory}}), 422)
    assert told["field"] == "resources.memory"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"notify": [{"https": "//example.org"}]}, "notify.0"),
        ({"notify": [{"failed": ["https://example.org"]}]}, "notify.0"),
        ({"preemptible": "TRUE"}, "preemptible"),
        ({"workers": "1.0..2"}, "workers"),
        ({"workers": "\u0661"}, "workers"),
        ({"resources": {"cpus": "1_0"}}, "resources.cpus"),
        ({"resources": {"memory": 999_999.9}}, "resources.memory"),
        ({"time_limit": "\u0663s"}, "time_limit"),
        ({"deadline": "2030-W05-1"}, "deadline"),
        ({"deadline": "2030-02-30"}, "deadline"),
        ({"command": "\u2003\u200b"}, "command"),
        ({"target": {"loss": "1_0"}}, "target"),
        ({"target": {"loss": 1e300}}, "target"),
        ({"priority": True}, "priority"),
        ({"max_restarts": True}, "max_restarts"),
    ],
)
def test_what_the_description_does_not_allow(ann: Any, problem: Any, body: dict[str, Any], field: str) -> None:
    assert problem(ann.post(JOBS, json={"command": "x", **body}), 422)["field"] == field


@pytest.mark.parametrize(
    "body",
    [
        {"priority": 50.0, "max_restarts": 2.0, "steps": 10.0, "workers": 1.0},
        {"workers": {"min": 1, "want": None, "max": None}},
        {"resources": {"gpus": 0.0, "cpus": " 1 .. 2 "}},
        {"time_limit": "1H 30 m", "grace": " 5m "},
        {"target": {"loss": "1e-3"}},
    ],
)
def test_what_the_description_allows(ann: Any, body: dict[str, Any]) -> None:
    answer = ann.post(f"{JOBS}?dry_run=true", json={"command": "x", **body})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("drain", ["yes", 1, "true"])
def test_a_flag_is_true_or_false(root: Any, problem: Any, drain: object) -> None:
    assert problem(root.patch("/api/v1/nodes/local", json={"drain": drain}), 422)["field"] == "drain"


def test_labels_have_no_control_characters(root: Any, problem: Any) -> None:
    problem(root.patch("/api/v1/nodes/local", json={"labels": {"a": "x\x9b2J"}}), 422)


def test_defaults_are_as_the_description_says(ann: Any) -> None:
    """Whoever writes down every default of the description gets the same job."""
    schema = ann.get("/api/v1/schema/job").json()
    written = {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
    answers = [ann.post(f"{JOBS}?dry_run=true", json=body) for body in ({"command": "x"}, {**written, "command": "x"})]
    assert [answer.status_code for answer in answers] == [200, 200], answers[1].text
    assert json.loads(answers[0].text) == json.loads(answers[1].text)
