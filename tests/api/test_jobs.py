"""Every route about jobs, as one user on one machine would use them."""

import io
import tarfile
from typing import Any

import pytest

from schedulearn.core.domain.job import Accrual
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import JobState
from schedulearn.executors.common.folders import note_fetched
from schedulearn.executors.common.paths import JobPaths
from schedulearn.service.common.auth import hash_token
from schedulearn.store import Point

JOBS = "/api/v1/jobs"
NOW = 1_800_000_000.0


def test_a_job_is_submitted_and_shown(world: Any, ann: Any) -> None:
    answer = ann.post(JOBS, json={"command": "python train.py --lr 1", "priority": 70, "deadline": "6h"})
    assert answer.status_code == 201
    job = answer.json()
    assert answer.headers["location"] == f"{JOBS}/{job['id']}"
    shown = {"name": "train", "user": "ann", "state": "queued", "priority": 70, "attempt": 0, "workers": 0}
    assert shown.items() <= job.items()
    assert job["submitted_at"] == "2027-01-15T08:00:00.000000Z"
    assert job["deadline"] == "2027-01-15T14:00:00.000000Z"
    assert job["progress"] is None
    assert job["exit"] is None
    assert ann.get(f"{JOBS}/{job['id']}").json() == job
    assert len(world.wakes) == 1


def test_what_was_submitted_can_be_submitted_again(ann: Any) -> None:
    first = ann.post(JOBS, json={"command": ["a", "b"], "workers": "1..4", "target": {"loss": 0.1}}).json()
    again = ann.post(JOBS, json=first["spec"])
    assert again.status_code == 201
    assert again.json()["spec"] == first["spec"]


def test_a_dry_run_submits_nothing(world: Any, ann: Any) -> None:
    answer = ann.post(f"{JOBS}?dry_run=true", json={"command": "true", "resources": {"memory": "1GB"}})
    assert answer.status_code == 200
    assert answer.json()["valid"] is True
    assert answer.json()["spec"]["resources"]["memory"] == 10**9
    assert ann.get(JOBS).json() == {"jobs": [], "total": 0}
    assert not world.wakes


def test_others_do_not_see_the_environment(ann: Any, bob: Any, root: Any, job: int) -> None:
    seen = [client.get(f"{JOBS}/{job}").json()["spec"]["env"]["SECRET"] for client in (ann, bob, root)]
    assert seen == ["s3cret", "***", "s3cret"]
    assert bob.get(JOBS).json()["jobs"][0]["spec"]["env"] == {"SECRET": "***"}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["c", "a", "b"]),
        ("?sort=name", ["a", "b", "c"]),
        ("?sort=name&order=desc", ["c", "b", "a"]),
        ("?sort=priority&order=desc", ["a", "b", "c"]),
        ("?state=queued", ["c", "b"]),
        ("?state=queued&state=running", ["c", "a", "b"]),
        ("?state=active", ["c", "a", "b"]),
        ("?state=finished", []),
        ("?user=bob", ["b"]),
        ("?name=a", ["a"]),
        ("?limit=1&offset=1", ["a"]),
    ],
)
def test_jobs_are_filtered_sorted_and_paged(world: Any, ann: Any, bob: Any, query: str, names: list[str]) -> None:
    ann.post(JOBS, json={"command": "true", "name": "c", "priority": 10})
    running = ann.post(JOBS, json={"command": "true", "name": "a", "priority": 90}).json()["id"]
    bob.post(JOBS, json={"command": "true", "name": "b", "priority": 50})
    world.run(running)
    page = ann.get(JOBS + query).json()
    assert [job["name"] for job in page["jobs"]] == names
    assert page["total"] == (3 if "limit" in query else len(names))


def test_an_unknown_state_is_answered_with_the_known_ones(ann: Any, problem: Any) -> None:
    body = problem(ann.get(f"{JOBS}?state=sleeping"), 422)
    assert body["field"] == "state.0"
    assert "'queued'" in body["allowed"]


# --- what may be asked in which state

STATES = [state.value for state in JobState]
SENSIBLE = {
    "cancel": {"queued", "starting", "running", "paused", "stopping"},
    "pause": {"queued", "running"},
    "resume": {"paused"},
    "update": {"queued", "starting", "running", "paused", "stopping"},
    "delete": set(STATES),
}


@pytest.mark.parametrize("verb", SENSIBLE)
@pytest.mark.parametrize("state", STATES)
def test_each_verb_is_taken_only_where_it_makes_sense(world: Any, ann: Any, job: int, verb: str, state: str) -> None:
    world.set_state(job, JobState(state))
    calls = {
        "update": lambda: ann.patch(f"{JOBS}/{job}", json={"priority": 1}),
        "delete": lambda: ann.delete(f"{JOBS}/{job}"),
    }
    answer = calls.get(verb, lambda: ann.post(f"{JOBS}/{job}/{verb}"))()
    if state in SENSIBLE[verb]:
        assert answer.status_code == (200 if verb == "update" else 202)
        assert answer.json()["id"] == job
        assert [(kind, about) for kind, about, _, _ in world.requests()] == [(verb, job)]
        assert len(world.wakes) == 2
    else:
        assert answer.status_code == 409
        assert f"job {job}" in answer.json()["detail"]
        assert world.requests() == []


def test_what_was_asked_before_counts_though_nobody_has_dealt_with_it(world: Any, ann: Any, job: int) -> None:
    """Else whoever pauses a job and thinks better of it at once is refused, and then it is paused for ever."""
    asked = [ann.post(f"{JOBS}/{job}/{verb}").status_code for verb in ("resume", "pause", "resume", "resume", "pause")]
    assert asked == [409, 202, 202, 409, 202]
    world.set_state(job, JobState.PAUSED)
    assert ann.post(f"{JOBS}/{job}/resume").status_code == 202
    assert [kind for kind, _, _, _ in world.requests()] == ["pause", "resume", "pause", "resume"]


def test_an_update_names_only_what_changes(world: Any, ann: Any, job: int) -> None:
    answer = ann.patch(f"{JOBS}/{job}", json={"deadline": "1h", "time_limit": None})
    assert answer.json()["deadline"] == "2027-01-15T09:00:00.000000Z"
    [(kind, about, data, by)] = world.requests()
    assert (kind, about, by) == ("update", job, "ann")
    assert data == {"deadline": 1_800_003_600.0, "time_limit": None}


def test_an_update_of_nothing_asks_for_nothing(world: Any, ann: Any, job: int) -> None:
    assert ann.patch(f"{JOBS}/{job}", json={}).status_code == 200
    assert world.requests() == []


@pytest.mark.parametrize("path", ["", "/logs", "/metrics", "/events", "/explain", "/attempts", "/files"])
def test_a_job_that_is_not_there(ann: Any, problem: Any, path: str) -> None:
    assert problem(ann.get(f"{JOBS}/99{path}"), 404)["detail"] == "there is no job 99"


# --- what is known of a job that runs


def test_a_running_job_shows_where_it_runs_and_how_far_it_is(world: Any, ann: Any) -> None:
    job = ann.post(JOBS, json={"command": "true", "steps": 100, "resources": {"gpus": 1}}).json()["id"]
    attempt = world.run(job, "GPU-0")
    changed = world.job(job)
    changed.ran = Accrual(10.0)
    world.save(jobs=[changed])
    world.store.add_points(job, 1, 0, "report", [Point(1, 1.0, 10, "loss", 2.0), Point(2, 2.0, 20, "loss", 1.0)])
    shown = ann.get(f"{JOBS}/{job}").json()
    assert shown["placement"] == [{"worker": f"{attempt}.0", "node": "local", "devices": ["GPU-0"]}]
    assert shown["workers"] == 1
    assert shown["run_seconds"] == 10.0
    progress = shown["progress"]
    assert (progress["step"], progress["steps"], progress["value"], progress["metric"]) == (20, 100, 1.0, "loss")
    assert progress["spark"] == [2.0, 1.0]
    assert progress["eta_seconds"] == 40.0


def test_when_its_checkpoint_was_brought(world: Any, ann: Any) -> None:
    job = ann.post(JOBS, json={"command": "true"}).json()["id"]
    assert ann.get(f"{JOBS}/{job}").json()["checkpoint_at"] is None
    folder = world.data / "jobs" / str(job)
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "model").touch()
    note_fetched(JobPaths(folder), NOW)
    assert ann.get(f"{JOBS}/{job}").json()["checkpoint_at"] == "2027-01-15T08:00:00.000000Z"


def test_weight_and_hint_of_one_job(world: Any, ann: Any) -> None:
    for _ in range(3):
        earlier = world.store.add_job(JobSpec("mnist", "true"), "ann", NOW, "submitted by ann")
        changed = world.job(earlier)
        changed.state, changed.finished_at, changed.worked = JobState.SUCCEEDED, NOW, Accrual(60.0)
        world.save(jobs=[changed])
    asked = {"command": "true", "name": "mnist", "time_limit": "8h", "resources": {"cpus": 2}}
    job = ann.post(JOBS, json=asked).json()
    source = "jobs of the same user, name and size"
    weight = {
        "expected": 120.0, "low": 120.0, "high": 120.0, "unit": "core-seconds", "source": source, "errors": None
    }  # fmt: skip
    assert job["weight"] == weight
    assert "a time limit of 8 h, far more than the 1 min that 3 jobs like it used at most" in job["hint"]
    assert ann.get(f"{JOBS}/{job['id']}").json() == job
    assert {(job["weight"], job["hint"]) for job in ann.get(JOBS).json()["jobs"]} == {(None, None)}
    other = ann.post(JOBS, json={"command": "true", "name": "mnist"}).json()
    assert other["hint"] is None


def test_how_a_job_scales(world: Any, ann: Any) -> None:
    asked = {"command": "true", "name": "mnist", "workers": "1..2"}
    rows = [[1, "ann", "mnist", n, 1.0 / n**0.5] for n in (1, 2)]
    world.store.set_setting("step_times", rows)
    assert ann.post(JOBS, json=asked).json()["speedup"] == {"workers": 2, "value": 1.414, "measured": True}
    assert ann.post(JOBS, json=asked).json()["speedup"] == {"workers": 2, "value": 1.414, "measured": False}
    assert {job["speedup"] for job in ann.get(JOBS).json()["jobs"]} == {None}
    assert ann.post(JOBS, json={**asked, "workers": 1}).json()["speedup"] is None
    assert ann.post(JOBS, json={**asked, "name": "other"}).json()["speedup"] is None


def test_the_end_of_a_job_is_told_in_words(world: Any, ann: Any, job: int) -> None:
    world.run(job)
    changed = world.job(job)
    changed.state = JobState.FAILED
    changed.outcome = Outcome(Ending.OUT_OF_MEMORY, memory_limit=2 * 10**9)
    world.save(jobs=[changed])
    told = ann.get(f"{JOBS}/{job}").json()["exit"]
    assert told["ending"] == "out_of_memory"
    assert told["text"] == "killed by SIGKILL: out of memory (limit 2 GB)"


def test_attempts_and_their_workers(world: Any, ann: Any, job: int) -> None:
    assert ann.get(f"{JOBS}/{job}/attempts").json() == {"attempts": [], "total": 0}
    world.run(job)
    [attempt] = ann.get(f"{JOBS}/{job}/attempts").json()["attempts"]
    assert attempt["attempt"] == f"{job}.1"
    assert attempt["workers"][0]["worker"] == f"{job}.1.0"
    assert attempt["workers"][0]["started_at"] == "2027-01-15T08:00:00.000000Z"


def test_curves(world: Any, ann: Any, job: int) -> None:
    world.run(job)
    points = [Point(i, float(i), i, "loss", 1 / (i + 1)) for i in range(100)] + [Point(100, 1.0, 100, "acc", 0.5)]
    world.store.add_points(job, 1, 0, "report", points)
    series = {s["name"]: s for s in ann.get(f"{JOBS}/{job}/metrics?max_points=10").json()["series"]}
    assert series.keys() == {"loss", "acc"}
    assert series["loss"]["count"] == 100
    assert series["loss"]["last"] == series["loss"]["min"] == 0.01
    assert series["loss"]["max"] == 1.0
    assert 0 < len(series["loss"]["points"]) <= 10
    assert [s["name"] for s in ann.get(f"{JOBS}/{job}/metrics?name=acc").json()["series"]] == ["acc"]


def test_a_loss_that_is_not_a_number_is_null(world: Any, ann: Any, job: int) -> None:
    world.run(job)
    world.store.add_points(job, 1, 0, "report", [Point(1, 1.0, 1, "loss", float("nan"))])
    assert ann.get(f"{JOBS}/{job}").json()["progress"]["value"] is None
    [series] = ann.get(f"{JOBS}/{job}/metrics").json()["series"]
    assert series["last"] is None
    assert series["points"] == [[1, None, "1970-01-01T00:00:01.000000Z"]]


def test_curves_come_in_pages(world: Any, ann: Any, job: int, problem: Any) -> None:
    world.run(job)
    world.store.add_points(job, 1, 0, "report", [Point(1, 1.0, 1, f"m{n:03d}", 0.5) for n in range(250)])
    first = ann.get(f"{JOBS}/{job}/metrics").json()
    assert (len(first["series"]), first["total"]) == (100, 250)
    last = ann.get(f"{JOBS}/{job}/metrics?offset=240&limit=500").json()
    assert [series["name"] for series in last["series"]] == [f"m{n:03d}" for n in range(240, 250)]
    assert problem(ann.get(f"{JOBS}/{job}/metrics?limit=501"), 422)["field"] == "limit"
    assert problem(ann.get(f"{JOBS}/{job}/metrics?offset=-1"), 422)["field"] == "offset"


def test_attempts_come_in_pages(world: Any, ann: Any, job: int) -> None:
    for _ in range(5):
        world.run(job)
    page = ann.get(f"{JOBS}/{job}/attempts?limit=2&offset=3").json()
    assert ([attempt["attempt"] for attempt in page["attempts"]], page["total"]) == ([f"{job}.4", f"{job}.5"], 5)
    assert ann.get(f"{JOBS}/{job}/attempts?offset=9007199254740992").json() == {"attempts": [], "total": 5}


def test_metrics_beyond_the_bound_are_dropped_and_that_is_said_once(world: Any, ann: Any, job: int) -> None:
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    own = world.client("sl_job")
    told = []
    for seq in range(12):
        values = [{f"m{seq}.{part}.{n}": 1.0 for n in range(100)} for part in range(5)]
        reports = [{"seq": seq * 5 + i, "at": 1.0, "step": 1, "values": some} for i, some in enumerate(values)]
        answer = own.post(f"/api/v1/attempts/{attempt}/reports", json={"worker": f"{attempt}.0", "points": reports})
        told.append((answer.json()["accepted"], answer.json()["dropped"]))
    assert told == [(500, 0)] * 2 + [(0, 500)] * 10
    assert ann.get(f"{JOBS}/{job}/metrics?limit=0").json() == {"series": [], "total": 1000}
    said = [e for e in ann.get(f"{JOBS}/{job}/events").json()["events"] if e["kind"] == "metrics_full"]
    assert [event["cause"] for event in said] == [
        "it has 1000 metrics, the most that are kept of a job: values of further ones are dropped"
    ]


def test_a_report_with_too_many_values(world: Any, job: int, problem: Any) -> None:
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    values = {str(n): 1 for n in range(100)}
    reports = [{"seq": seq, "at": 1, "step": 1, "values": values} for seq in range(501)]
    body = {"worker": f"{attempt}.0", "points": reports}
    said = problem(world.client("sl_job").post(f"/api/v1/attempts/{attempt}/reports", json=body), 422)
    assert (said["field"], said["allowed"]) == ("points", "at most 50000 values in one report")


def test_explain(ann: Any, job: int) -> None:
    told = ann.get(f"{JOBS}/{job}/explain").json()
    assert told == {
        "job": job,
        "state": "queued",
        "text": "It needs 1 core on one node.",
        "position": 1,
        "estimate": {"start_seconds": 2.0, "low": 1.0, "high": 3.0},
        "errors": [],
        "stage": "place",
        "size": "",
        "place": "",
    }


def test_the_schema_of_a_job_is_published(ann: Any) -> None:
    schema = ann.get("/api/v1/schema/job").json()
    assert {"command", "image", "workers", "resources", "depends_on", "target", "notify"} <= schema["properties"].keys()
    assert schema["additionalProperties"] is False


# --- files


@pytest.fixture
def run_folder(world: Any, job: int) -> Any:
    run = world.data / "jobs" / str(job) / "run"
    (run / "out").mkdir(parents=True)
    (run / "out" / "model.pt").write_bytes(b"weights" * 1000)
    (run / "empty").write_bytes(b"")
    (run / "link").symlink_to("out/model.pt")
    return run


def _members(answer: Any) -> dict[str, tarfile.TarInfo]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        return {member.name: member for member in tar}


def test_the_run_folder_comes_as_a_tar(ann: Any, job: int, run_folder: Any) -> None:
    answer = ann.get(f"{JOBS}/{job}/files")
    members = _members(answer)
    assert members.keys() == {".", "out", "out/model.pt", "empty", "link"}
    assert members["link"].linkname == "out/model.pt"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        file = tar.extractfile("out/model.pt")
        assert file is not None
        assert file.read() == b"weights" * 1000


@pytest.mark.parametrize(("path", "names"), [("out", {"out", "out/model.pt"}), ("out/model.pt", {"out/model.pt"})])
def test_one_path_of_the_run_folder(ann: Any, job: int, run_folder: Any, path: str, names: set[str]) -> None:
    assert _members(ann.get(f"{JOBS}/{job}/files", params={"path": path})).keys() == names


@pytest.mark.parametrize("path", ["..", "../../secret", "/etc/passwd", "out/../../..", "a\0b", "x/" * 3000])
def test_paths_that_lead_out_are_refused(ann: Any, job: int, run_folder: Any, problem: Any, path: str) -> None:
    assert problem(ann.get(f"{JOBS}/{job}/files", params={"path": path}), 422)["field"] == "path"


def test_links_that_lead_out_are_not_followed(world: Any, ann: Any, job: int, run_folder: Any, problem: Any) -> None:
    outside = world.data / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (run_folder / "exit").symlink_to(outside)
    members = _members(ann.get(f"{JOBS}/{job}/files"))
    assert members["exit"].issym()
    assert not any(name.startswith("exit/") for name in members)
    problem(ann.get(f"{JOBS}/{job}/files", params={"path": "exit/secret"}), 404)
    assert _members(ann.get(f"{JOBS}/{job}/files", params={"path": "exit"}))["exit"].issym()


def test_a_job_without_files(ann: Any, job: int, problem: Any) -> None:
    problem(ann.get(f"{JOBS}/{job}/files"), 404)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (2, {"min": 1, "want": 2, "max": 2}),
        ("2", {"min": 1, "want": 2, "max": 2}),
        ({"want": 2}, {"min": 1, "want": 2, "max": 2}),
        ("2..2", 2),
        ("2..3", "2..3"),
        ({"min": 1, "max": 3}, "1..3"),
    ],
)
def test_a_number_of_workers_is_what_is_wanted_and_a_range_is_a_range(ann: Any, asked: Any, shown: Any) -> None:
    job = ann.post(JOBS, json={"command": "true", "workers": "1..4", "resources": {"cpus": 0.1}}).json()["id"]
    assert ann.patch(f"{JOBS}/{job}", json={"workers": asked}).json()["spec"]["workers"] == shown
