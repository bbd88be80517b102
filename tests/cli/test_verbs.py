"""Each verb that asks or changes something: what it sends, what it says, its JSON, its exit code."""

from datetime import UTC, datetime, timedelta

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
    weight = {
        "expected": 7200.0,
        "low": 3600.0,
        "high": 14400.0,
        "unit": "GPU-seconds",
        "source": source,
        "errors": None,
    }
    jobs.jobs[17] |= {"weight": weight, "hint": "It asks for 16 GPUs."}
    out = cli("describe", 17).out
    assert f"2 h of GPU time, between 1 h and 4 h ({source})" in out
    assert "It asks for 16 GPUs." in out
    jobs.jobs[20] |= {"weight": weight | {"low": 7200.0, "high": 7200.0, "unit": "core-seconds"}, "hint": None}
    out = cli("describe", 20).out
    assert f"2 h of core time ({source})" in out
    assert "hint" not in out


def test_errors_of_estimates_stand_beside_them(cli, jobs):
    errors = {"source": "steps", "count": 12, "error": 0.05, "without": 0.31, "believed": False}
    weight = {"expected": 7200.0, "low": 3600.0, "high": 14400.0, "unit": "GPU-seconds", "source": "steps"}
    jobs.jobs[17] |= {"weight": weight | {"errors": errors}}
    words = "half of the last 12 off by more than 5 % (jobs like them: 31 %); not believed until it does better"
    assert f"(steps); such estimates: {words}" in " ".join(cli("describe", 17).out.split())
    line = "by steps half of the last 40 off by more than 5 % (jobs like them: 30 %)"
    assert line in " ".join(cli("policy").out.split())
    assert line in " ".join(cli("explain", 18).out.split())


def test_describe_shows_when_the_checkpoint_came(cli, jobs):
    assert "copied to the service" not in cli("describe", 17).out
    jobs.jobs[17] |= {"checkpoint_at": "2026-03-01T10:04:00Z"}
    assert "checkpoint" in (out := cli("describe", 17).out)
    assert "copied to the service" in out


def test_describe_shows_the_speedup(cli, jobs):
    jobs.jobs[17] |= {"speedup": {"workers": 2, "value": 1.7, "measured": True}}
    assert "1.7 with 2 workers, measured" in cli("describe", 17).out
    jobs.jobs[17] |= {"speedup": {"workers": 4, "value": 2.5, "measured": False}}
    assert "2.5 with 4 workers, as of earlier jobs of its name" in cli("describe", 17).out


LOOK = {
    "at": "2026-03-01T10:04:00Z", "cpus": 0.934, "cpu_seconds": 125.0, "memory": 310_000_000,
    "read_bytes": 1_200_000_000, "written_bytes": 30_000_000, "received_bytes": None, "sent_bytes": None,
    "energy": None, "cpus_limit": 1.5, "weight": 100, "memory_limit": None,
}  # fmt: skip


def use(**changes):
    points = [LOOK | {"cpus": cpus} for cpus in (None, 0.1, 0.9)]
    return {"worker": "17.1.0", "memory_peak": 412_000_000, "latest": LOOK | changes, "points": points}


def test_describe_says_what_it_uses(cli, jobs):
    jobs.usage = [use()]
    out = cli("describe", 17).out
    for text in ("▁█  0.93 of 1.5 cores", "2 min 5 s", "310 MB (peak 412 MB)", "1.2 GB read, 30 MB written"):
        assert text in out
    assert "network" not in out
    assert "energy" not in out
    assert cli("describe", 17, "--json").json["usage"] == jobs.usage


def test_describe_adds_workers_up(cli, jobs):
    seen = {"received_bytes": 5000, "sent_bytes": 7000, "energy": 1.8e6, "memory_limit": 500_000_000}
    jobs.usage = [use(**seen), use(**seen)]
    out = cli("describe", 17).out
    for text in ("1.87 of 3 cores", "10 kB received, 14 kB sent", "1 kWh", "620 MB of 1 GB (peak 824 MB)"):
        assert text in out


def test_describe_of_what_is_over_says_what_it_used(cli, jobs):
    jobs.usage = [use(energy=900.0)]
    out = cli("describe", 20).out
    assert "412 MB peak" in out
    assert "0.9 kJ" in out
    assert "of 1.5 cores" not in out


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
    assert "On gpu1." in out
    assert cli("explain", 18, "--json").json["stage"] == "place"


@pytest.mark.parametrize(("position", "offered"), [(None, False), (1, False), (2, True)])
def test_explain_offers_a_priority_only_where_it_helps(cli, jobs, position, offered):
    """Not to who is first, nor to who waits for another job and has no place in the queue."""
    jobs.jobs[18]["position"] = position
    assert ("update 18 --priority" in cli("explain", 18).out) is offered


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("running", "is running"),
        ("succeeded", "has succeeded"),
        ("failed", "has failed"),
        ("cancelled", "was cancelled"),
    ],
)
def test_explain_says_how_a_job_stands(cli, jobs, state, words):
    jobs.jobs[18]["state"] = state
    assert f"Job 18 {words}. It needs" in cli("explain", 18).out


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
    assert "no output yet; follow it" in result.err
    assert cli("logs", 20).err.strip().endswith("has no output")


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
    result = cli("wait", 17, "--timeout", 0.01)
    assert result.code == 1
    assert "job 17 did not end within 0.01 seconds" in result.err


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
    assert "Job 19 removed." in result.out
    assert set(jobs.jobs) == {17, 18}
    assert cli("rm", 17, "--json").json == {"removed": [17]}


@pytest.mark.parametrize(
    ("args", "body"),
    [
        (["--priority", "80"], {"priority": 80}),
        (["--time-limit", "8h", "--deadline", "none"], {"time_limit": "8h", "deadline": None}),
        (["--time-limit", "60"], {"time_limit": 60}),
        (["--cpus-limit", "0.5"], {"cpus_limit": 0.5}),
        (["--cpus-limit", "2"], {"cpus_limit": 2}),
        (["--cpus-limit", "none"], {"cpus_limit": None}),
        (["--workers", "2..6"], {"workers": "2..6"}),
        (["--workers", "3"], {"workers": 3}),
        (["--target", "acc=0.9:stop"], {"target": {"acc": 0.9, "then": "stop"}}),
        (["--target", "0.05"], {"target": {"loss": 0.05}}),
        (["--target", "none"], {"target": None}),
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
    assert "cores       0.5 for each worker" in cli("update", 17, "--cpus-limit", "0.5").out


@pytest.mark.parametrize("text", ["", "loss", "loss=", "loss=low", "0.05:party", "loss=0.05:stop:stop"])
def test_a_target_that_is_none(cli, jobs, text):
    result = cli("update", 17, "--target", text)
    assert result.code == 2
    assert "is not a target" in result.err
    assert not jobs.asked("PATCH", "/jobs/17")


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
    for text in ("local", "2 of 7", "4 GB of 15 GB", "1 of 1", "A100", "job 17", "1 GB used", "logs 50 MB"):
        assert text in out
    assert cli(*args, "--json").json[0]["name"] == "local"


def test_nodes_say_where_servers_are_and_why_one_is_lost(cli, service):
    out = cli("nodes").out
    for text in ("gpu2", "ssh://ann@gpu2", "Docker 28.0.1", "pytorch/pytorch", "room=b12", "it is frozen", "ago"):
        assert text in out


def test_nodes_say_who_is_limited_and_where_nobody_can_be(cli, service):
    out = cli("nodes").out
    assert "flowcon limits job 17 to 0.25 cores, job 19 to 1.5 cores" in out
    assert "shared fairly: flowcon cannot set limits there: no control groups" in out


def test_nodes_add(cli, service):
    args = ["--name", "gpu3", "--image", "python", "--label", "room=b12", "--label", "rack=2", "--gpu-type", "A100"]
    result = cli("nodes", "add", "ssh://ann@gpu3", *args)
    assert result.code == 0
    assert "gpu3 (Docker 28.0.1) added: 8 cores, 16 GB of memory, 1 GPUs" in result.out
    assert "its clock is 1 h ahead" in result.err
    [request] = service.asked("POST", "/nodes")
    assert request.body == {
        "address": "ssh://ann@gpu3", "name": "gpu3", "image": "python", "gpu_type": "A100",
        "labels": {"room": "b12", "rack": "2"},
    }  # fmt: skip
    assert cli("nodes", "add", "ssh://gpu2", "--json").json["name"] == "gpu2"
    assert service.asked("POST", "/nodes")[-1].body == {"address": "ssh://gpu2"}


def test_a_server_that_cannot_be_used_is_said_why(cli, service):
    detail = "nothing listens at ssh://gpu2: is Docker running there?"
    service.refuse["POST /nodes"] = (422, {"title": "The input is not valid", "detail": detail, "field": "address"})
    result = cli("nodes", "add", "ssh://gpu2")
    assert (result.code, result.out) == (2, "")
    assert detail in result.err


@pytest.mark.parametrize(("args", "force"), [([], "false"), (["--force"], "true")])
def test_nodes_remove(cli, service, args, force):
    out = cli("nodes", "remove", "gpu2", *args).out
    assert ("will be removed once its jobs have stopped (17)" if args else "gpu2 removed") in out
    assert service.asked("DELETE", "/nodes/gpu2")[0].query == {"force": [force]}


def test_nodes_label(cli, service):
    assert "gpu-type=A100" in cli("nodes", "label", "gpu2", "gpu-type=A100", "room=").out
    assert service.asked("PATCH", "/nodes/gpu2")[0].body == {"labels": {"gpu-type": "A100", "room": None}}
    for wrong in ("room", "=x"):
        result = cli("nodes", "label", "gpu2", wrong)
        assert result.code == 2
        assert "KEY=VALUE" in result.err


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


def test_the_policy_says_where_it_is_not_followed(cli, service):
    assert "node gpu2 is shared fairly: flowcon cannot set limits there: no control groups" in cli("policy").err


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


def test_users_say_whom_jobs_run_as(cli, service):
    assert "uid 70002" in cli("users").out
    added = cli("users", "add", "bob", "--root")
    assert service.asked("POST", "/users")[0].body == {"name": "bob", "role": "user", "root": True}
    assert "jobs run as root" in added.out
    assert "Warning: Jobs of bob run as root." in added.err
    cli("users", "update", "ann", "--no-root")
    assert service.asked("PATCH", "/users/ann")[0].body == {"root": False}
    for option in ("--uid", "--gid"):
        refused = cli("users", "add", "bob", option, 999)
        assert (refused.code, "1000" in refused.err) == (2, True)


def test_nodes_say_what_separates_workers(cli, service):
    assert "own uids: 70000-99999; control groups: cpu, memory" in " ".join(cli("nodes").out.split())


def test_users(cli, service):
    assert "ann" in cli("users").out
    assert cli("users", "list", "--json").json[0]["max_priority"] == 70
    assert "tokens create --user bob" in cli("users", "add", "bob", "--max-priority", 60).out
    assert service.asked("POST", "/users")[0].body == {"name": "bob", "role": "user", "max_priority": 60}
    cli("users", "update", "ann", "--role", "admin")
    assert service.asked("PATCH", "/users/ann")[0].body == {"role": "admin"}
    assert cli("users", "remove", "ann").code == 0
    assert cli("users", "update", "ann").code == 2
    assert "'admin', 'user'" in cli("users", "add", "bob", "--role", "king").err


def test_audit(cli, service):
    head, done, refused = cli("audit").out.splitlines()
    assert head.split() == ["TIME", "USER", "FROM", "ACTION", "OBJECT", "OWNER", "DETAILS"]
    for text in ("ann", "10.0.0.7", "job.update", "job 17", "bob", "priority=80"):
        assert text in done
    assert "refused: a valid token is needed" in refused
    [entry] = cli("audit", "--limit", 1, "--json").json
    assert entry["serial"] == 9
    words = [
        "--user",
        "ann",
        "--action",
        "job",
        "--object",
        "job 17",
        "--owner",
        "bob",
        "--since",
        "2026-03-01T10:00+01:00",
    ]
    cli("audit", *words, "--until", "12h")
    asked = service.asked("GET", "/audit")[-1].query
    assert {name: asked[name] for name in ("actor", "action", "object", "owner", "since")} == {
        "actor": ["ann"], "action": ["job"], "object": ["job 17"], "owner": ["bob"],
        "since": ["2026-03-01T09:00:00+00:00"],
    }  # fmt: skip
    assert datetime.fromisoformat(asked["until"][0]) < datetime.now(UTC) - timedelta(hours=11)
    wrong = cli("audit", "--since", "yesterday")
    assert (wrong.code, "--since" in wrong.err, "7d" in wrong.err) == (2, True, True)


def test_tokens(cli, service):
    head, laptop, page = cli("tokens").out.splitlines()
    assert head.split() == ["ID", "USER", "LABEL", "CREATED", "EXPIRES"]
    assert "laptop" in laptop
    assert laptop.split()[-1] == "never"
    assert "2026-03-31" in page
    out = cli("tokens", "create", "--user", "ann").out
    assert "token: sl_secret" in out
    assert f"SCHEDULEARN_URL={service.url}" in out
    assert cli("tokens", "create", "--json").json["token"] == "sl_secret"
    assert cli("tokens", "link").out.startswith(f"{service.url}/login?once=once-only")
    made = cli("tokens", "link", "--user", "ann", "--page", "http://lab:8080/", "--json").json
    assert (made["link"], made["user"]) == ("http://lab:8080/login?once=once-only", "ann")
    assert cli("tokens", "revoke", 4).code == 0
    assert service.asked("DELETE", "/tokens/4")
