"""Each verb that asks or changes something: what it sends, what it says, its JSON, its exit code."""

import pytest


@pytest.fixture
def jobs(service, new_job):
    service.jobs = {17: new_job(17), 18: new_job(18, "queued"), 19: new_job(19, "failed"), 20: new_job(20, "succeeded")}
    return service


# describe, explain


def test_describe_tells_the_story(cli, jobs):
    out = cli("describe", 19).out
    for text in ("failed", "exit code 7", "python train.py", "submitted by ann", "19.1.0", "now 0.3125", "█▃▁"):
        assert text in out
    assert "schedulearn logs 19" in out


def test_describe_shows_weight_and_hint(cli, jobs):
    source = "jobs of the same name"
    weight = {"expected": 7200.0, "low": 3600.0, "high": 14400.0, "unit": "GPU-seconds", "source": source}
    jobs.jobs[17] |= {"weight": weight, "hint": "It asks for 16 GPUs."}
    out = cli("describe", 17).out
    assert f"2 h of GPU time, between 1 h and 4 h ({source})" in out
    assert "It asks for 16 GPUs." in out
    jobs.jobs[20] |= {"weight": weight | {"low": 7200.0, "high": 7200.0, "unit": "core-seconds"}, "hint": None}
    out = cli("describe", 20).out
    assert f"2 h of core time ({source})" in out
    assert "hint" not in out


def test_describe_json_holds_everything(cli, jobs):
    about = cli("describe", 18, "--json").json
    assert about["id"] == 18
    assert about["events"][0]["kind"] == "submitted"
    assert about["attempts"][0]["attempt"] == "18.1"
    assert about["metrics"][0]["name"] == "loss"
    assert about["explain"]["position"] == 1


def test_explain(cli, jobs):
    out = cli("explain", 18).out
    assert "Job 18 is queued. It needs 2 GPUs on one node" in out
    assert "in about 40 min (between 30 min and 1 h)" in out
    assert cli("explain", 18, "--json").json["stage"] == "place"


# logs


def test_logs_are_passed_on_byte_for_byte(cli, jobs):
    jobs.logs[17] = b"caf\xc3\xa9 \xff\x00\r\nend without newline"
    assert cli("logs", 17).raw == jobs.logs[17]


def test_logs_options_are_asked_for(cli, jobs):
    cli("logs", 17, "--tail", 5, "--worker", 1, "--attempt", 2)
    (request,) = jobs.asked("GET", "/jobs/17/logs")
    assert request.query == {"tail": ["5"], "worker": ["1"], "attempt": ["2"]}


def test_logs_follow_until_the_end(cli, jobs):
    jobs.logs[20] = b"one\ntwo\n"
    result = cli("logs", 20, "-f")
    assert result.code == 0
    assert result.out == "one\ntwo\n"
    assert "[job 20 succeeded]" in result.err


def test_logs_of_a_job_that_wrote_nothing(cli, jobs):
    result = cli("logs", 18)
    assert (result.code, result.out) == (0, "")
    assert "nothing so far" in result.err


def test_logs_json(cli, jobs):
    jobs.logs[17] = b"a\xff\n"
    assert cli("logs", 17, "--json").json["text"] == "a\ufffd\n"
    assert cli("logs", 17, "--json", "-f").code == 2


# wait


@pytest.mark.parametrize(("ids", "code"), [([20], 0), ([19], 1), ([20, 19], 1), ([20, 99], 3)])
def test_wait(cli, jobs, ids, code):
    result = cli("wait", *ids)
    assert result.code == code
    assert "Job" in result.out


def test_wait_gives_up(cli, jobs):
    result = cli("wait", 17, "--timeout", 0)
    assert result.code == 1
    assert "job 17" in result.err


def test_wait_json(cli, jobs):
    assert [job["id"] for job in cli("wait", 20, 19, "--json").json] == [20, 19]


# cancel, pause, resume, rm, update


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_act_on_several_jobs(cli, jobs, verb):
    result = cli(verb, 17, 18)
    assert result.code == 0
    assert jobs.asked("POST", f"/jobs/17/{verb}")
    assert jobs.asked("POST", f"/jobs/18/{verb}")
    assert "Job 17 (mnist-17)" in result.out
    assert "schedulearn " in result.out.splitlines()[-1]
    assert [job["id"] for job in cli(verb, 17, 18, "--json").json] == [17, 18]


def test_one_bad_job_does_not_keep_the_others_from_it(cli, jobs):
    result = cli("cancel", 99, 17)
    assert result.code == 3
    assert "99" in result.err
    assert "Job 17" in result.out


def test_rm(cli, jobs):
    result = cli("rm", 19, 20)
    assert result.code == 0
    assert "Job 19 is removed." in result.out
    assert set(jobs.jobs) == {17, 18}
    assert cli("rm", 17, "--json").json == {"removed": [17]}


@pytest.mark.parametrize(
    ("args", "body"),
    [
        (["--priority", "80"], {"priority": 80}),
        (["--time-limit", "8h", "--deadline", "none"], {"time_limit": "8h", "deadline": None}),
        (["--time-limit", "60"], {"time_limit": 60}),
    ],
)
def test_update(cli, jobs, args, body):
    jobs.jobs[17]["time_limit"] = None
    assert cli("update", 17, *args, "--json").code == 0
    assert jobs.asked("PATCH", "/jobs/17")[0].body == body


def test_update_says_what_is_now(cli, jobs):
    out = cli("update", 17, "--priority", 80).out
    assert "priority    80" in out
    assert "schedulearn explain 17" in out


def test_update_of_nothing(cli, jobs):
    result = cli("update", 17)
    assert result.code == 2
    assert "--priority" in result.err


# pull


def test_pull(cli, jobs, tmp_path):
    result = cli("pull", 20, "--to", tmp_path / "out")
    assert result.code == 0
    assert (tmp_path / "out" / "model.pt").read_bytes() == b"weights"
    assert "2 files" in result.out


def test_pull_one_path_into_a_folder_named_for_the_job(cli, jobs, tmp_path):
    cli("pull", 20, "model.pt", "--json")
    assert (tmp_path / "project" / "job-20" / "model.pt").exists()
    assert jobs.asked("GET", "/jobs/20/files")[0].query == {"path": ["model.pt"]}


def test_pull_of_no_job_makes_no_folder(cli, jobs, tmp_path):
    assert cli("pull", 99).code == 3
    assert list((tmp_path / "project").iterdir()) == []


# nodes, policy, users, tokens


@pytest.mark.parametrize("args", [("nodes",), ("nodes", "list")])
def test_nodes(cli, service, args):
    out = cli(*args).out
    for text in ("local", "2 of 7", "4 GB of 15 GB", "1 of 1", "A100", "job 17", "1 GB kept", "of it logs 50 MB"):
        assert text in out
    assert cli(*args, "--json").json[0]["name"] == "local"


@pytest.mark.parametrize(("verb", "drain"), [("drain", True), ("undrain", False)])
def test_drain(cli, service, verb, drain):
    assert "local" in cli("nodes", verb, "local").out
    assert service.asked("PATCH", "/nodes/local")[0].body == {"drain": drain}


@pytest.mark.parametrize("args", [("policy",), ("policy", "show")])
def test_policy(cli, service, args):
    out = cli(*args).out
    for text in ("fifo", "rigid", "First in, first out.", "round-robin"):
        assert text in out
    assert cli(*args, "--json").json["preset"] == "fifo"


def test_policy_set(cli, service):
    result = cli("policy", "set", "fifo", "--place", "round-robin", "--param", "guard=600", "--param", "mode=soft")
    assert result.code == 0
    (request,) = service.asked("PUT", "/policy")
    assert request.body == {
        "preset": "fifo",
        "stages": {"place": "round-robin"},
        "params": {"guard": 600, "mode": "soft"},
    }


def test_policy_param_without_a_value(cli, service):
    result = cli("policy", "set", "fifo", "--param", "guard")
    assert result.code == 2
    assert "--param" in result.err


def test_users(cli, service):
    assert "ann" in cli("users").out
    assert cli("users", "list", "--json").json[0]["max_priority"] == 70
    assert "tokens create --user bob" in cli("users", "add", "bob", "--max-priority", 60).out
    assert service.asked("POST", "/users")[0].body == {"name": "bob", "role": "user", "max_priority": 60}
    cli("users", "update", "ann", "--role", "admin")
    assert service.asked("PATCH", "/users/ann")[0].body == {"role": "admin"}
    assert cli("users", "remove", "ann").code == 0
    assert cli("users", "update", "ann").code == 2
    assert "admin or user" in cli("users", "add", "bob", "--role", "king").err


def test_tokens(cli, service):
    assert "laptop" in cli("tokens").out
    out = cli("tokens", "create", "--user", "ann").out
    assert "token: sl_secret" in out
    assert f"SCHEDULEARN_URL={service.url}" in out
    assert cli("tokens", "create", "--json").json["token"] == "sl_secret"
    assert cli("tokens", "revoke", 4).code == 0
    assert service.asked("DELETE", "/tokens/4")
