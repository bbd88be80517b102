"""From options, files and stdin to the job that the service is asked to queue."""

import json
import re

import pytest

from schedulearn.core.domain.errors import StoreAway
from schedulearn.service.notify.subscriptions import MAIL
from support.application import Application
from support.builders import BROKEN, OK

COMMAND = ("--", "python", "train.py")

OPTIONS = [
    (["--name", "mnist"], {"name": "mnist"}),
    (["--workers", "2"], {"workers": 2}),
    (["--workers", "1..4"], {"workers": "1..4"}),
    (["--cpus", "0.5"], {"resources": {"cpus": 0.5}}),
    (["--cpus", "0.5..4"], {"resources": {"cpus": "0.5..4"}}),
    (["--gpus", "1", "--gpu-type", "A100"], {"resources": {"gpus": 1, "gpu_type": "A100"}}),
    (["--memory", "4GB", "--shm", "1GB"], {"resources": {"memory": "4GB", "shm": "1GB"}}),
    (["--priority", "80"], {"priority": 80}),
    (["--deadline", "6h"], {"deadline": "6h"}),
    (["--deadline", "2026-03-01T12:00:00+00:00"], {"deadline": "2026-03-01T12:00:00+00:00"}),
    (["--time-limit", "8h"], {"time_limit": "8h"}),
    (["--time-limit", "90"], {"time_limit": 90}),
    (["--max-restarts", "0"], {"max_restarts": 0}),
    (["--grace", "10s"], {"grace": "10s"}),
    (["--env", "LR=0.1", "--env", "X=a=b", "--env", "E="], {"env": {"LR": "0.1", "X": "a=b", "E": ""}}),
    (["--env", "FROM_HERE"], {"env": {"FROM_HERE": "seen"}}),
    (["--depends-on", "19", "--depends-on", "20"], {"depends_on": [19, 20]}),
    (["--steps", "1000"], {"steps": 1000}),
    (["--metric", "acc", "--goal", "max", "--pattern", "acc=(.*)"],
     {"metric": {"name": "acc", "goal": "max", "pattern": "acc=(.*)"}}),
    (["--target", "0.05"], {"target": {"loss": 0.05}}),
    (["--target", "loss=1e-3:stop"], {"target": {"loss": 0.001, "then": "stop"}}),
    (["--target", "-2:yield"], {"target": {"loss": -2.0, "then": "yield"}}),
    (["--metric", "acc", "--target", "0.9"], {"metric": {"name": "acc"}, "target": {"acc": 0.9}}),
    (["--image", "python:3.12"], {"image": "python:3.12"}),
    (["--setup", "pip install x", "--mount", "/data"], {"setup": ["pip install x"], "mounts": ["/data"]}),
    (["--launcher", "torchrun", "--preemptible", "true"], {"launcher": "torchrun", "preemptible": "true"}),
    (["--notify", "a@b"], {"notify": ["a@b"]}),
]  # fmt: skip


@pytest.fixture(scope="module")
def open_house(api, busy_once, tmp_path_factory):
    """There are other jobs, a folder that may be mounted, and a way to send mail; jobs end as soon as they start."""
    application = Application(api, tmp_path_factory.mktemp("open") / "data", busy_once)
    application.store.set_setting("allow_mounts", ["/data"])
    application.store.set_setting(MAIL, True)
    application.ending = OK
    yield application
    application.close()


@pytest.mark.parametrize(("options", "fields"), OPTIONS, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_options_become_fields(cli, open_house, at_home, monkeypatch, options, fields):
    monkeypatch.setenv("FROM_HERE", "seen")
    for verb in (["submit"], ["run", "--no-follow"]):
        open_house.serve()
        assert cli(*verb, "--no-workdir", *options, *COMMAND).code == 0
        assert open_house.submitted() == {"command": ["python", "train.py"], "env": {}, **fields}


def test_one_word_is_a_line_for_the_shell(cli, service):
    cli("submit", "--no-workdir", "--", "python a.py && python b.py")
    assert service.submitted()["command"] == "python a.py && python b.py"


def test_options_after_the_command_belong_to_it(cli, service):
    cli("run", "--no-follow", "--no-workdir", "--name", "x", "python", "train.py", "--name", "y", "--", "z")
    assert service.submitted() == {"command": ["python", "train.py", "--name", "y", "--", "z"], "env": {}, "name": "x"}


def test_the_present_folder_is_sent(cli, service, tmp_path):
    (tmp_path / "project" / "train.py").write_text("print(1)")
    assert cli("submit", *COMMAND).code == 0
    assert service.submitted()["workdir"] == str(tmp_path / "project")
    (put,) = [r for r in service.requests if r.method == "PUT"]
    assert put.path == "/snapshots/" + service.submitted()["snapshot"]


YAML = """
name: from-file
command: python train.py --epochs 20
workdir: null
env: {LR: "0.1", SEED: "1"}
workers: 1..4
resources: {cpus: 0.5..4, memory: 4GB}
priority: 30
deadline: 2026-03-01 12:00:00+00:00
"""
AS_JSON = {
    "name": "from-file",
    "command": "python train.py --epochs 20",
    "env": {"LR": "0.1", "SEED": "1"},
    "workers": "1..4",
    "resources": {"cpus": "0.5..4", "memory": "4GB"},
    "priority": 30,
}


def _without_deadline(body):
    return {k: v for k, v in body.items() if k != "deadline"}


@pytest.mark.parametrize("form", ["yaml", "json", "stdin yaml", "stdin json"])
def test_the_job_comes_from_a_file_or_stdin(cli, service, tmp_path, form):
    text = YAML if "yaml" in form else json.dumps({**AS_JSON, "workdir": None})
    if "stdin" in form:
        result = cli("submit", "-", stdin=text)
    else:
        file = tmp_path / f"job.{form}"
        file.write_text(text)
        result = cli("submit", file)
    assert result.code == 0
    assert _without_deadline(service.submitted()) == AS_JSON


def test_a_date_in_yaml_is_sent_as_text(cli, service):
    from datetime import datetime

    cli("submit", "-", stdin=YAML)
    assert datetime.fromisoformat(service.submitted()["deadline"]) == datetime.fromisoformat("2026-03-01T12:00:00Z")


def test_options_win_over_the_file(cli, service, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(YAML)
    result = cli("submit", file, "--priority", 80, "--env", "LR=1", "--memory", "8GB", "--", "python", "other.py")
    assert result.code == 0
    assert _without_deadline(service.submitted()) == {
        **AS_JSON,
        "command": ["python", "other.py"],
        "priority": 80,
        "env": {"LR": "1", "SEED": "1"},
        "resources": {"cpus": "0.5..4", "memory": "8GB"},
    }


@pytest.mark.parametrize(
    ("args", "stdin", "says"),
    [
        (["submit"], "", "command"),
        (["run"], "", "schedulearn run -- python train.py"),
        (["submit", "missing.yaml"], "", "there is no file 'missing.yaml'"),
        (["submit", "python", "train.py"], "", "schedulearn submit -- python train.py"),
        (["submit", "-"], "a: [1, 2\nb: 3", "stdin, line 2"),
        (["submit", "-"], "- just\n- a list", "not a job"),
        (["submit", "-"], "", "not a job"),
        (["submit", "--env", "1X=2", *COMMAND], "", "--env"),
        (["submit", "--priority", "high", *COMMAND], "", "--priority"),
        (["submit", "--no-workdir", "--env", "NOT_SET_HERE", *COMMAND], "", "NOT_SET_HERE"),
        (["submit", "--workdir", "nowhere", *COMMAND], "", "workdir"),
    ],
)  # fmt: skip
def test_wrong_use_sends_nothing(cli, service, args, stdin, says):
    result = cli(*args, stdin=stdin)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert service.asked("POST", "/jobs") == []


def test_a_refusal_names_the_field_the_option_and_what_is_allowed(cli, service):
    result = cli("submit", "--no-workdir", "--memory", "4XB", "--priority", "500", *COMMAND)
    assert (result.code, result.out) == (2, "")
    assert "resources.memory (--memory): '4XB' is not a size" in result.err
    assert "allowed: a number of bytes, or a text such as 512MB" in result.err
    assert "also priority (--priority): 500 is not a priority" in result.err


def test_submit_says_what_to_do_next(cli, service):
    result = cli("submit", "--no-workdir", *COMMAND)
    assert "Job 17 (train) submitted" in result.out
    for command in ("logs 17 -f", "explain 17", "wait 17", "cancel 17"):
        assert f"schedulearn {command}" in result.out


def test_submit_json_prints_the_job_and_nothing_else(cli, service):
    assert cli("submit", "--json", "--no-workdir", *COMMAND).json["id"] == 17


def test_dry_run_queues_nothing(cli, service):
    result = cli("submit", "--dry-run", "--json", "--name", "x", *COMMAND)
    assert result.json["valid"] is True
    assert cli("ls", "--all", "--json").json == []


@pytest.mark.parametrize(("state", "ending", "code"), [("succeeded", OK, 0), ("failed", BROKEN, 1)])
def test_run_ends_as_its_job_does(cli, service, state, ending, code):
    service.ending = ending
    service.output = b"loss: 0.3\nnot utf-8: \xff\n"
    result = cli("run", "--no-workdir", "--max-restarts", "0", *COMMAND)
    assert result.code == code
    assert "loss: 0.3\n" in result.out
    assert f"Job 17 (train) {state}" in result.out


def test_run_of_a_job_that_is_cancelled(cli, service):
    service.meanwhile = lambda: service.bench.ask("cancel", 17)
    result = cli("run", "--no-workdir", *COMMAND)
    assert result.code == 1
    assert "Job 17 (train) cancelled" in result.out


def test_run_json_prints_the_ended_job_and_nothing_else(cli, service):
    service.ending = BROKEN
    service.output = b"output"
    result = cli("run", "--json", "--no-workdir", "--max-restarts", "0", *COMMAND)
    assert (result.code, result.json["state"]) == (1, "failed")


def test_run_without_following_returns_at_once(cli, service):
    result = cli("run", "--no-follow", "--no-workdir", *COMMAND)
    assert result.code == 0
    assert "submitted" in result.out


def test_ctrl_c_leaves_the_job_running(cli, service, monkeypatch):
    from schedulearn.client import Client

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "logs", interrupted)
    result = cli("run", "--no-workdir", *COMMAND)
    assert result.code == 130
    assert "Job 17 keeps running" in result.out
    assert "schedulearn logs 17 -f" in result.out
    assert "schedulearn cancel 17" in result.out
    assert cli("ls", "--json").json[0]["state"] == "running"
    assert service.asked("POST", "/jobs/17/cancel") == []


@pytest.mark.parametrize("verb", [["submit"], ["run"], ["run", "--no-follow"]], ids=" ".join)
def test_a_hint_goes_to_stderr(cli, service, verb):
    for _ in range(3):
        job = service.submit(name="train")
        service.clock.pass_time(120)
        service.end(job)
    words = "a time limit of 8 h, far more than the 2 min that 3 jobs like it used at most"
    job = ("--no-workdir", "--time-limit", "8h", *COMMAND)
    service.meanwhile = lambda: service.bench.ask("cancel", 20)
    result = cli(*verb, *job)
    assert re.search(f"Hint: .*{words}", result.err)
    assert words not in result.out
    service.meanwhile = lambda: service.bench.ask("cancel", 21)
    assert "Hint" not in cli(*verb, "--json", *job).err, "there it is a field"


@pytest.mark.parametrize("verb", ["submit", "run"])
def test_who_gives_up_is_told_how_to_ask_again(cli, service, monkeypatch, verb):
    """Not to start a service that is there, and whose job may be there, too."""
    monkeypatch.setattr("schedulearn.client.client.surely", lambda call: call())
    submit, service.ending = service.gateway.submit, OK

    def away(*_args, **_kwargs):
        raise StoreAway("the database is locked")

    monkeypatch.setattr(service.gateway, "submit", away)
    told = cli(verb, "--no-workdir", "--key", "5f0c", *COMMAND)
    assert told.code == 4
    assert "the database is locked; the job may have been made" in told.err
    assert "--key 5f0c is safe" in told.err
    assert "schedulearn up" not in told.err
    monkeypatch.setattr(service.gateway, "submit", submit)
    assert cli(verb, "--no-workdir", "--key", "5f0c", *COMMAND).code == 0
    assert [request.key for request in service.asked("POST", "/jobs")] == ["5f0c", "5f0c"]


def test_who_interrupts_it_is_told_too(cli, service, monkeypatch):
    def interrupted(call):
        raise KeyboardInterrupt

    monkeypatch.setattr("schedulearn.client.client.surely", interrupted)
    told = cli("submit", "--no-workdir", "--key", "5f0c", *COMMAND)
    assert told.code == 130
    assert "--key 5f0c is safe" in told.err


def test_where_nobody_answers_it_says_how_to_start_it(cli, service, monkeypatch):
    monkeypatch.setenv("SCHEDULEARN_URL", "http://127.0.0.1:1")
    told = cli("submit", "--no-workdir", *COMMAND)
    assert told.code == 4
    assert "schedulearn up" in told.err
    assert "--key" not in told.err


def test_a_key_that_cannot_be_sent(cli, service):
    told = cli("submit", "--no-workdir", "--key", "a b", *COMMAND)
    assert told.code == 2
    assert "ASCII" in told.err
