"""Each verb that asks or changes something: what it sends, what it says, its JSON, its exit code."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import log

import pytest

from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.usage import Limits, Usage
from schedulearn.executors.common.folders import note_fetched
from schedulearn.executors.common.paths import JobPaths
from schedulearn.service.common.identity import Identities
from schedulearn.service.nodes.node_manager import ISOLATION
from support.application import NOW

# describe, explain


def test_describe_tells_the_story(cli, jobs):
    out = cli("describe", 19).out
    for text in ("failed", "exit code 7", "python train.py", "submitted by ann", "19.1.0", "now 0.3125", "█▄▂▁▁"):
        assert text in out
    assert "schedulearn logs 19" in out


def test_describe_shows_weight_and_hint(cli, jobs):
    for hours in (1, 2, 4):
        job = jobs.submit(name="bert", cpus=2, memory=10**9)
        jobs.clock.pass_time(3600 * hours)
        jobs.end(job)
    out = cli("describe", jobs.submit(name="bert", cpus=2, memory=10**10)).out
    assert "4 h of core time, between 2 h and 8 h (jobs of the same user, name and size)" in out
    assert "10 GB of memory, far more than the 1 GB that 3 jobs like it asked for at most" in out
    out = cli("describe", job).out
    assert "8 h of core time (what it took)" in out
    assert "hint" not in out


def test_errors_of_estimates_stand_beside_them(cli, jobs):
    """Each score is the logarithm of how far off it was, and of how far off jobs like it would have been."""
    jobs.store.set_setting("estimate_scores", {"steps": [[log(1.05), log(1.31)]] * 12})
    words = "half of the last 12 off by more than 5 % (jobs like them: 31 %)"
    assert f"(steps); such estimates: {words}" in " ".join(cli("describe", 17).out.split())
    assert f"by steps {words}" in " ".join(cli("policy").out.split())
    assert f"by steps {words}" in " ".join(cli("explain", 18).out.split())


def test_a_source_that_is_not_believed_is_named_so(cli, jobs):
    jobs.store.set_setting("estimate_scores", {"steps": [[log(1.31), log(1.05)]] * 12})
    assert "not believed until it does better" in " ".join(cli("policy").out.split())


def test_describe_shows_when_the_checkpoint_came(cli, jobs):
    assert "copied to the service" not in cli("describe", 17).out
    jobs.make_files(17, {"../checkpoint/model.pt": b"weights"})
    note_fetched(JobPaths.of(jobs.folder.root, JobId(17)), jobs.clock.now())
    assert "checkpoint" in (out := cli("describe", 17).out)
    assert "copied to the service" in out


def test_describe_shows_the_speedup(cli, jobs):
    job = jobs.submit(name="grows", workers=(1, 2, 4), steps=1000)
    times = [[job, "ann", "grows", size, 1 / faster] for size, faster in ((1, 1.0), (2, 1.7))]
    jobs.store.set_setting("step_times", times)
    assert "1.7 with 2 workers, measured" in cli("describe", job).out
    other = jobs.submit(name="grows", workers=(1, 2, 4), steps=1000)
    assert "with 4 workers, as of earlier jobs of its name" in cli("describe", other).out


LIMITS = Limits(1.5, 100, None)
LOOK = Usage(NOW, 125.0, 310_000_000, 1_200_000_000, 30_000_000, limits=LIMITS)


def use(jobs, job, cpus=0.934, **changes):
    """Its workers are looked at three times: at first they use little."""
    looks = [(-20, 112.0, 412_000_000), (-10, 113.0, 310_000_000), (0, 125.0, 310_000_000)]
    for rank in range(len(jobs.store.job(job).placement) or 1):
        for seconds, used, memory in looks:
            look = replace(LOOK, at=jobs.clock.now() + seconds, cpu_seconds=used, memory=memory)
            jobs.use(job, replace(look, **changes), cpus=cpus, rank=rank)


def test_describe_says_what_it_uses(cli, jobs):
    use(jobs, 17)
    out = cli("describe", 17).out
    for text in ("▁█  0.93 of 1.5 cores", "2 min 5 s", "310 MB (peak 412 MB)", "1.2 GB read, 30 MB written"):
        assert text in out
    assert "network" not in out
    assert "energy" not in out
    assert cli("describe", 17, "--json").json["usage"][0]["memory_peak"] == 412_000_000


def test_describe_adds_workers_up(cli, jobs):
    seen = {"received_bytes": 5000, "sent_bytes": 7000, "energy": 1.8e6, "limits": Limits(1.5, 100, 500_000_000)}
    job = jobs.submit(workers=2)
    use(jobs, job, **seen)
    out = cli("describe", job).out
    for text in ("1.87 of 3 cores", "10 kB received, 14 kB sent", "1 kWh", "620 MB of 1 GB (peak 824 MB)"):
        assert text in out


def test_describe_of_what_is_over_says_what_it_used(cli, jobs):
    use(jobs, 20, energy=900.0)
    out = cli("describe", 20).out
    assert "412 MB peak" in out
    assert "0.9 kJ" in out
    assert "of 1.5 cores" not in out


def test_describe_json_holds_everything(cli, jobs):
    about = cli("describe", 18, "--json").json
    assert about["id"] == 18
    assert about["events"][0]["kind"] == "submitted"
    assert about["explain"]["position"] == 1
    about = cli("describe", 20, "--json").json
    assert about["attempts"][0]["attempt"] == "20.1"
    assert about["metrics"][0]["name"] == "loss"


def test_explain(cli, jobs):
    out = cli("explain", 18).out
    assert "Job 18 is queued. It needs 1 GPU and 1 core on one node" in out
    assert re.search(r"in about \d+ min.* \(between \d+ min.* and .*\)", out)
    assert "place  On local" in cli("explain", 17).out
    assert cli("explain", 18, "--json").json["stage"] == "allocate"


def test_explain_offers_a_priority_only_where_it_helps(cli, jobs):
    """Not to who is first, nor to who waits for another job and has no place in the queue."""
    second, dependent = jobs.submit(gpus=1), jobs.submit(depends_on=(17,))
    for job, offered in ((18, False), (second, True), (dependent, False)):
        assert (f"update {job} --priority" in cli("explain", job).out) is offered


@pytest.mark.parametrize(
    ("job", "words"),
    [(17, "is running"), (18, "was cancelled"), (19, "has failed"), (20, "has succeeded")],
)
def test_explain_says_how_a_job_stands(cli, jobs, job, words):
    if job == 18:
        cli("cancel", 18)
    assert f"Job {job} {words}. " in cli("explain", job).out


# logs


def test_logs_are_passed_on_byte_for_byte(cli, jobs):
    output = b"caf\xc3\xa9 \xff\x00\r\nend without newline"
    jobs.write(17, output)
    assert cli("logs", 17).raw == output


def test_logs_options_are_asked_for(cli, jobs):
    job = jobs.submit(workers=2)
    jobs.write(job, b"one\ntwo\nthree\n", rank=1)
    assert cli("logs", job, "--tail", 2, "--worker", 1, "--attempt", 1).raw == b"two\nthree\n"
    assert "no attempt 2" in cli("logs", job, "--attempt", 2).err


def test_logs_follow_until_the_end(cli, jobs):
    jobs.write(20, b"one\ntwo\n")
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
    jobs.write(17, b"a\xff\n")
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


def test_act_on_several_jobs(cli, jobs):
    states = {"pause": ["paused", "paused"], "resume": ["running", "queued"], "cancel": ["cancelled", "cancelled"]}
    for verb, expected in states.items():
        result = cli(verb, 17, 18)
        assert result.code == 0
        assert "Job 17 (mnist-17)" in result.out
        assert "schedulearn " in result.out.splitlines()[-1]
        assert [jobs.store.job(number).job.state for number in (17, 18)] == expected


@pytest.mark.parametrize("verb", ["cancel", "pause"])
def test_act_on_several_jobs_as_json(cli, jobs, verb):
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
    assert [job["id"] for job in cli("ls", "--all", "--json").json] == [17, 18]
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
        (["--target", "loss=0.9:stop"], {"target": {"loss": 0.9, "then": "stop"}}),
        (["--target", "0.05"], {"target": {"loss": 0.05}}),
        (["--target", "none"], {"target": None}),
    ],
)
def test_update(cli, service, args, body):
    job = service.submit(workers=(1, 1, 6), cpus=0.5, cpus_max=4)
    assert cli("update", job, *args, "--json").code == 0
    assert service.asked("PATCH", f"/jobs/{job}")[0].body == body


def test_update_says_what_is_now(cli, jobs):
    out = cli("update", 17, "--priority", 80).out
    assert "priority    80" in out
    assert "schedulearn explain 17" in out
    assert "cores       1 for each worker" in cli("update", 17, "--cpus-limit", "1").out


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
    jobs.make_files(20, {"model.pt": b"weights", "logs/a.txt": b"a"})
    result = cli("pull", 20, "--to", tmp_path / "out")
    assert result.code == 0
    assert (tmp_path / "out" / "model.pt").read_bytes() == b"weights"
    assert "2 files" in result.out


def test_pull_one_path_into_a_folder_named_for_the_job(cli, jobs, tmp_path):
    jobs.make_files(20, {"model.pt": b"weights", "logs/a.txt": b"a"})
    cli("pull", 20, "model.pt", "--json")
    assert (tmp_path / "project" / "job-20" / "model.pt").exists()
    assert jobs.asked("GET", "/jobs/20/files")[0].query == {"path": ["model.pt"]}


def test_pull_of_no_job_makes_no_folder(cli, jobs, tmp_path):
    assert cli("pull", 99).code == 3
    assert list((tmp_path / "project").iterdir()) == []


# nodes, policy, users, tokens


@pytest.fixture
def limited(service):
    """As share loops keep it: `local` limits two jobs, on `gpu2` nothing can be limited."""
    nothing = {"memory": {}, "limits": {}, "problem": ""}
    limits = {"17": [NOW, 0.25], "19": [NOW, 1.5]}
    problem = "flowcon cannot set limits there: no control groups"
    shares = {"local": {"stage": "flowcon", "limits": limits}, "gpu2": {"stage": "fair", "problem": problem}}
    service.save(shares={node: nothing | share for node, share in shares.items()})
    return service


@pytest.mark.parametrize("args", [("nodes",), ("nodes", "list")])
def test_nodes(cli, jobs, args):
    storage = {"jobs_bytes": 10**9, "logs_bytes": 5 * 10**7, "snapshots_bytes": 0, "database_bytes": 0}
    jobs.store.set_setting("storage", {"local": {**storage, "free_bytes": 10**11}})
    out = cli(*args).out
    for text in ("local", "1 of 7", "0 B of 15 GB", "1 of 1", "A100", "job 17", "1 GB used", "logs 50 MB"):
        assert text in out
    assert {node["name"] for node in cli(*args, "--json").json} == {"local", "gpu2"}


def test_nodes_say_where_servers_are_and_why_one_is_lost(cli, service):
    service.lose("gpu2", "it is frozen")
    service.turn()
    out = cli("nodes").out
    for text in ("gpu2", "ssh://ann@gpu2", "Docker 28.0.1", "pytorch/pytorch", "room=b12", "it is frozen", "ago"):
        assert text in out


def test_nodes_say_who_is_limited_and_where_nobody_can_be(cli, limited):
    out = cli("nodes").out
    assert "flowcon limits job 17 to 0.25 cores, job 19 to 1.5 cores" in out
    assert "shared fairly: flowcon cannot set limits there: no control groups" in out


def test_nodes_add(cli, service):
    args = ["--name", "gpu3", "--image", "python", "--label", "room=b12", "--label", "rack=2", "--gpu-type", "A100"]
    service.probed = replace(service.probed, notes=("its clock is 1 h ahead",))
    result = cli("nodes", "add", "ssh://ann@gpu3", *args)
    assert result.code == 0
    assert "gpu3 (Docker 28.0.1) added: 8 cores, 16 GB of memory, 0 GPUs" in result.out
    assert "its clock is 1 h ahead" in result.err
    [request] = service.asked("POST", "/nodes")
    assert request.body == {
        "address": "ssh://ann@gpu3", "name": "gpu3", "image": "python", "gpu_type": "A100",
        "labels": {"room": "b12", "rack": "2"},
    }  # fmt: skip
    assert cli("nodes", "add", "ssh://gpu4", "--json").json["name"] == "gpu4"
    assert service.asked("POST", "/nodes")[-1].body == {"address": "ssh://gpu4"}


def test_a_server_that_cannot_be_used_is_said_why(cli, service):
    detail = "nothing listens at ssh://gpu3: is Docker running there?"
    service.probed = replace(service.probed, node=None, problems=(("address", detail),))
    result = cli("nodes", "add", "ssh://gpu3")
    assert (result.code, result.out) == (2, "")
    assert detail in result.err


def test_nodes_remove(cli, service):
    assert service.submit() == 17  # it runs there
    refused = cli("nodes", "remove", "gpu2")
    assert (refused.code, "jobs run on node gpu2 (17)" in refused.err) == (2, True)
    assert "will be removed once its jobs have stopped (17)" in cli("nodes", "remove", "gpu2", "--force").out
    assert [node["name"] for node in cli("nodes", "--json").json] == ["local"]


def test_nodes_remove_one_without_jobs(cli, service):
    assert "gpu2 removed" in cli("nodes", "remove", "gpu2").out
    assert [node["name"] for node in cli("nodes", "--json").json] == ["local"]


def test_nodes_label(cli, service):
    assert "gpu-type=A100" in cli("nodes", "label", "gpu2", "gpu-type=A100", "room=").out
    assert [node.labels for node in service.store.list_nodes() if node.name == "gpu2"] == [(("gpu-type", "A100"),)]
    for wrong in ("room", "=x"):
        result = cli("nodes", "label", "gpu2", wrong)
        assert result.code == 2
        assert "KEY=VALUE" in result.err


def test_drain(cli, service):
    for verb, state in (("drain", "draining"), ("undrain", "up")):
        assert "local" in cli("nodes", verb, "local").out
        assert {node["name"]: node["state"] for node in cli("nodes", "--json").json}["local"] == state


@pytest.mark.parametrize("args", [("policy",), ("policy", "show")])
def test_policy(cli, service, args):
    out = cli(*args).out
    for text in ("fifo", "rigid", "First in, first out,", "round-robin"):
        assert text in out
    assert cli(*args, "--json").json["preset"] == "fifo"


def test_the_policy_says_where_it_is_not_followed(cli, limited):
    assert "node gpu2 is shared fairly: flowcon cannot set limits there: no control groups" in cli("policy").err


def test_policy_set(cli, service):
    result = cli("policy", "set", "fifo", "--place", "round-robin", "--param", "starvation_guard=600")
    assert result.code == 0
    (request,) = service.asked("PUT", "/policy")
    assert request.body == {
        "preset": "fifo",
        "stages": {"place": "round-robin"},
        "params": {"starvation_guard": 600},
    }
    now = cli("policy", "--json").json
    assert (now["stages"]["place"], now["params"]) == ("round-robin", {"starvation_guard": 600.0})


def test_policy_param_without_a_value(cli, service):
    result = cli("policy", "set", "fifo", "--param", "guard")
    assert result.code == 2
    assert "--param" in result.err


def test_users_say_whom_jobs_run_as(cli, service):
    Identities(root=True).tell(service.store)
    assert "uid 70002" in cli("users").out
    added = cli("users", "add", "eve", "--root")
    assert service.asked("POST", "/users")[0].body == {"name": "eve", "role": "user", "root": True}
    assert "jobs run as root" in added.out
    assert "Warning: " in added.err
    cli("users", "update", "ann", "--no-root")
    assert service.asked("PATCH", "/users/ann")[0].body == {"root": False}
    for option in ("--uid", "--gid"):
        refused = cli("users", "add", "dan", option, 999)
        assert (refused.code, "1000" in refused.err) == (2, True)


def test_nodes_say_what_separates_workers(cli, service):
    service.store.set_setting(ISOLATION, ["own uids: 70000-99999", "control groups: cpu, memory"])
    assert "own uids: 70000-99999; control groups: cpu, memory" in " ".join(cli("nodes").out.split())


def test_users(cli, service):
    assert "ann" in cli("users").out
    assert cli("users", "list", "--json").json[0]["max_priority"] == 70
    assert "tokens create --user eve" in cli("users", "add", "eve", "--max-priority", 60).out
    assert (service.store.user("eve").role, service.store.user("eve").max_priority) == ("user", 60)
    cli("users", "update", "eve", "--role", "admin")
    assert (service.store.user("eve").role, service.store.user("eve").max_priority) == ("admin", 60)
    assert cli("users", "remove", "eve").code == 0
    assert service.store.user("eve") is None
    assert cli("users", "update", "bob").code == 2
    assert "'admin', 'user'" in cli("users", "add", "eve", "--role", "king").err


def test_audit(cli, jobs, monkeypatch):
    cli("update", 17, "--priority", 80)
    with monkeypatch.context() as context:
        context.setenv("SCHEDULEARN_TOKEN", "sl_nobody")
        assert cli("cancel", 17).code == 2
    head, refused, done = cli("audit").out.splitlines()
    assert head.split() == ["TIME", "USER", "FROM", "ACTION", "OBJECT", "OWNER", "DETAILS"]
    for text in ("ann", "127.0.0.1", "job.update", "job 17", "priority=80"):
        assert text in done
    assert "refused: a valid token is needed" in refused
    [entry] = cli("audit", "--limit", 1, "--json").json
    assert entry["serial"] == 2
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
    asked = jobs.asked("GET", "/audit")[-1].query
    assert {name: asked[name] for name in ("actor", "action", "object", "owner", "since")} == {
        "actor": ["ann"], "action": ["job"], "object": ["job 17"], "owner": ["bob"],
        "since": ["2026-03-01T09:00:00+00:00"],
    }  # fmt: skip
    assert datetime.fromisoformat(asked["until"][0]) < datetime.now(UTC) - timedelta(hours=11)
    wrong = cli("audit", "--since", "yesterday")
    assert (wrong.code, "--since" in wrong.err, "7d" in wrong.err) == (2, True, True)


def test_tokens(cli, service, monkeypatch):
    assert cli("tokens", "link").out.startswith(f"{service.url}/login?once=")
    service.gateway.logins.redeem(service.gateway.logins.issue_for("ann")["code"])
    head, laptop, _, page = cli("tokens").out.splitlines()
    assert head.split() == ["ID", "USER", "LABEL", "CREATED", "EXPIRES"]
    assert "laptop" in laptop
    assert laptop.split()[-1] == "never"
    assert "2026-03-31" in page
    out = cli("tokens", "create", "--user", "ann").out
    (token,) = re.findall("token: (sl_.*)", out)
    assert f"SCHEDULEARN_URL={service.url}" in out
    monkeypatch.setenv("SCHEDULEARN_TOKEN", token)
    assert cli("tokens", "create", "--json").json["token"].startswith("sl_")
    made = cli("tokens", "link", "--user", "ann", "--page", "http://lab:8080/", "--json").json
    assert made["user"] == "ann"
    assert re.fullmatch(r"http://lab:8080/login\?once=\S{20,}", made["link"])
    assert cli("tokens", "revoke", 2).code == 0
    assert 2 not in {token["id"] for token in cli("tokens", "--json").json}
