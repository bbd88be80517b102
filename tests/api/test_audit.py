"""The audit log: every act leaves a line that says who, what, whose and from where, and holds no secret."""

import gzip
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

import schedulearn
from schedulearn.api.auditing import ACTIONS
from schedulearn.core.domain.ids import JobId
from schedulearn.core.domain.states import JobState
from schedulearn.service.common.auth import hash_token
from schedulearn.service.gateway import audit

V1 = "/api/v1"
AUDIT = f"{V1}/audit"
NOW = 1_800_000_000.0


def entries(root: Any, **filters: Any) -> list[dict[str, Any]]:
    answer = root.get(AUDIT, params=filters)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["entries"])


def newest(root: Any, **filters: Any) -> tuple[str, ...]:
    entry = entries(root, **filters)[0]
    return tuple(entry[name] for name in ("actor", "action", "object", "owner", "outcome"))


def archive() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("train.py"))
    return gzip.compress(out.getvalue(), mtime=0)  # the same bytes each time


DATA = archive()
SHA = hashlib.sha256(DATA).hexdigest()

# who does it, method, path, body; and the line: action, object, owner
ACTS: list[tuple[str, str, str, Any, str, str, str]] = [
    ("ann", "POST", "/jobs", {"command": "true", "env": {"A": "hush"}}, "job.submit", "job 2", "ann"),
    ("ann", "PATCH", "/jobs/1", {"priority": 1}, "job.update", "job 1", "ann"),
    ("root", "PATCH", "/jobs/1", {"priority": 1}, "job.update", "job 1", "ann"),
    ("root", "DELETE", "/jobs/1", None, "job.delete", "job 1", "ann"),
    ("root", "POST", "/jobs/1/cancel", None, "job.cancel", "job 1", "ann"),
    ("ann", "POST", "/jobs/1/pause", None, "job.pause", "job 1", "ann"),
    ("ann", "POST", "/jobs/1/resume", None, "job.resume", "job 1", "ann"),
    ("root", "GET", "/jobs/1/files", None, "job.pull", "job 1", "ann"),
    ("bob", "PUT", f"/snapshots/{SHA}", DATA, "snapshot.upload", f"snapshot {SHA}", "bob"),
    ("root", "PATCH", "/nodes/local", {"drain": True}, "node.change", "node local", ""),
    ("root", "PATCH", "/nodes/local", {"labels": {"room": "b12"}}, "node.change", "node local", ""),
    ("root", "PUT", "/policy", {"preset": "fifo"}, "policy.set", "policy", ""),
    ("root", "POST", "/users", {"name": "eve", "uid": 1001}, "user.add", "user eve", "eve"),
    ("root", "PATCH", "/users/bob", {"role": "admin"}, "user.update", "user bob", "bob"),
    ("root", "DELETE", "/users/bob", None, "user.remove", "user bob", "bob"),
    ("ann", "POST", "/tokens", {"label": "laptop"}, "token.create", "token 4", "ann"),
    ("root", "POST", "/tokens", {"user": "bob"}, "token.create", "token 4", "bob"),
    ("root", "DELETE", "/tokens/2", None, "token.revoke", "token 2", "ann"),
    ("root", "POST", "/logins", {"user": "ann"}, "login.issue", "user ann", "ann"),
    ("ann", "PUT", "/notify", {"addresses": ["https://hooks.example.org/hush"]}, "notify.set", "notices of ann", "ann"),
    ("ann", "POST", "/notify/secret", None, "notify.secret", "notices of ann", "ann"),
    ("ann", "POST", "/notify/test", None, "notify.test", "notices of ann", "ann"),
    ("ann", "POST", "/studies/comparison-1/cancel", None, "study.cancel", "comparison comparison-1", "ann"),
    ("ann", "DELETE", "/studies/comparison-1", None, "study.delete", "comparison comparison-1", "ann"),
]
# Done elsewhere in this file, or with a server that answers: tests/e2e.
ELSEWHERE = {"job.exec", "job.migrate", "login.redeem", "node.add", "node.remove", "study.compare"}
ASKING = {"user.list", "notify.show", "audit.read"}  # leave a line only if they are refused


def prepare(world: Any, job: int, action: str) -> None:
    assert job == 1
    world.store.set_setting("allow_notify", ["https://hooks.example.org"])
    (world.data / "jobs" / str(job) / "run").mkdir(parents=True)
    if action == "job.resume":
        world.set_state(job, JobState.PAUSED)
    if action.startswith("study."):
        folder = world.data / "reports" / "comparison-1"
        folder.mkdir(parents=True)
        story = {"user": "ann", "owner": world.store.user("ann").id, "title": "t", "created_at": NOW, "state": "done"}
        (folder / "study.json").write_text(json.dumps(story))
    if action == "study.cancel":
        world.gateway.studies._running["comparison-1"] = Idle()


class Idle:
    """A comparison that does nothing."""

    owner = 0

    def end(self, *_: str) -> None: ...

    def progress(self) -> None: ...


@pytest.mark.parametrize(
    ("actor", "method", "path", "body", "action", "object", "owner"),
    ACTS,
    ids=[f"{act[0]} {act[4]} {number}" for number, act in enumerate(ACTS)],
)
def test_every_act_leaves_a_line(
    world: Any, root: Any, job: int, actor: str, method: str, path: str, body: Any, action: str, object: str, owner: str
) -> None:
    prepare(world, job, action)
    before = len(entries(root))
    sent = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = world.client(f"sl_{actor}").request(method, f"{V1}{path}", **sent)
    assert answer.status_code < 300, answer.text
    found = entries(root)
    assert len(found) == before + 1
    line = found[0]
    assert (line["actor"], line["action"], line["object"], line["owner"]) == (actor, action, object, owner)
    assert (line["outcome"], line["origin"]) == ("done", "testclient")
    assert line["actor_id"] == {"root": 1, "ann": 2, "bob": 3}[actor]
    assert line["at"] == "2027-01-15T08:00:00.000000Z"
    assert "hush" not in json.dumps(found)
    assert "sl_" not in json.dumps(found)


def test_the_table_has_every_act(world: Any) -> None:
    """Whoever adds a route that changes something says what it is called."""
    paths = world.app.openapi()["paths"]
    changing = {
        f"{method.upper()} {path.removeprefix(V1)}"
        for path, methods in paths.items()
        for method in methods
        if method in ("post", "put", "patch", "delete") and not path.startswith(f"{V1}/attempts/")
    }
    assert changing <= ACTIONS.keys(), "unknown to the audit log"
    done = {act[4] for act in ACTS}
    assert done | ELSEWHERE | ASKING == set(ACTIONS.values())


def test_reading_and_what_jobs_say_leave_no_line(world: Any, root: Any, ann: Any, job: int) -> None:
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    (world.data / "jobs" / str(job) / "run").mkdir(parents=True)
    before = entries(root)
    world.client("sl_job").post(f"{V1}/attempts/{attempt}/reports", json={"worker": f"{attempt}.0", "points": []})
    for path in ("jobs", f"jobs/{job}", f"jobs/{job}/files", "nodes", "policy", "overview"):
        assert ann.get(f"{V1}/{path}").status_code == 200
    ann.post(f"{V1}/jobs?dry_run=true", json={"command": "true"})
    assert entries(root) == before


def test_exec_names_the_program_and_no_arguments(world: Any, root: Any, ann: Any, job: int) -> None:
    world.run(job)
    ann.post(f"{V1}/jobs/{job}/exec", json={"command": ["mysql", "--password=hush"]})  # nobody here could run it
    assert newest(root) == ("ann", "job.exec", f"job {job}", "ann", "done")
    assert entries(root)[0]["data"] == {"program": "mysql", "worker": 0}


def test_a_log_in(world: Any, root: Any, ann: Any) -> None:
    code = ann.post(f"{V1}/logins", json={}).json()["code"]
    world.client(None).post(f"{V1}/logins/redeem", json={"code": code})
    assert newest(root) == ("ann", "login.redeem", "user ann", "ann", "done")
    assert code not in json.dumps(entries(root))


def test_an_act_that_fails_leaves_no_line(world: Any, root: Any, problem: Any) -> None:
    before = entries(root)
    problem(root.post(f"{V1}/users", json={"name": "ann"}), 409)
    problem(root.patch(f"{V1}/users/nemo", json={"role": "admin"}), 404)
    problem(root.delete(f"{V1}/tokens/999"), 404)
    assert entries(root) == before


def test_where_a_proxy_says_that_it_came_from_is_marked(root: Any) -> None:
    root.post(f"{V1}/tokens", json={}, headers={"X-Forwarded-For": "1.2.3.4"})
    assert entries(root)[0]["origin"] == "testclient (forwarded)"


def test_the_page_of_this_process_alone_says_where_a_browser_is(world: Any, root: Any) -> None:
    for key in ("", "x", "\u00e9", world.gateway.page_key[:-1], f"{world.gateway.page_key}x"):
        root.post(f"{V1}/tokens", json={}, headers={"X-Schedulearn-Page": f"{key} 10.0.0.7".encode()})
        assert entries(root)[0]["origin"] == "testclient"
    known = {"X-Schedulearn-Page": f"{world.gateway.page_key} 10.0.0.7"}
    root.post(f"{V1}/tokens", json={}, headers=known)
    assert entries(root)[0]["origin"] == "10.0.0.7 (page)"
    root.post(f"{V1}/tokens", json={}, headers={**known, "X-Forwarded-For": "1.2.3.4"})
    assert entries(root)[0]["origin"] == "10.0.0.7 (page, forwarded)"


# --- what was refused


def test_who_tries_what_is_not_theirs_leaves_a_line(world: Any, root: Any, bob: Any, job: int) -> None:
    bob.post(f"{V1}/jobs/{job}/cancel")
    why = f"refused: job {job} belongs to ann: only ann or an administrator may do this"
    assert newest(root) == ("bob", "job.cancel", f"job {job}", "ann", why)
    bob.get(f"{V1}/jobs/{job}/files")
    assert newest(root)[:4] == ("bob", "job.pull", f"job {job}", "ann")
    bob.put(f"{V1}/policy", json={"preset": "fifo"})
    assert newest(root) == ("bob", "policy.set", "", "", "refused: only an administrator may do this")
    bob.get(AUDIT)
    assert newest(root)[:2] == ("bob", "audit.read")
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    world.client("sl_job").get(f"{V1}/users")
    assert newest(root)[:2] == (f"job {attempt}", "user.list")


def test_wrong_tokens_and_codes_leave_a_line(world: Any, root: Any) -> None:
    before = len(entries(root))
    world.client(None).get(f"{V1}/jobs")  # without any token nothing was tried
    assert len(entries(root)) == before
    world.client("sl_wrong").get(f"{V1}/jobs")
    assert newest(root) == ("", "GET /jobs", "", "", "refused: a valid token is needed")
    world.client(None).post(f"{V1}/logins/redeem", json={"code": "wrong"})
    assert newest(root)[:2] == ("", "login.redeem")
    assert "wrong" not in json.dumps(entries(root))


def test_a_flood_of_refusals_is_counted_not_listed(world: Any, root: Any, bob: Any, job: int) -> None:
    before = len(entries(root))
    thief = world.client("sl_wrong")
    for _ in range(30):
        assert thief.get(f"{V1}/jobs").status_code == 401
    for other in range(1, audit._MOST_EACH + 30):
        assert thief.delete(f"{V1}/nodes/n{other}").status_code == 401
    assert len(entries(root, limit=1000)) == before + audit._MOST_EACH
    bob.post(f"{V1}/jobs/{job}/cancel")
    assert newest(root)[:2] == ("bob", "job.cancel"), "a flood of one hides nothing of another"
    world.gateway._clock = lambda: NOW + 3601
    thief.get(f"{V1}/jobs")
    new, summed = entries(root)[:2]
    assert (new["action"], summed["action"]) == ("GET /jobs", "refused")
    assert summed["data"] == {"times": 29 + 30}
    assert "59 more" in summed["outcome"]


def test_a_flood_from_everywhere_is_bounded_too(world: Any, root: Any) -> None:
    log, before = world.gateway.audit, len(entries(root))
    for number in range(audit._MOST_SOURCES + 100):
        actor = audit.Actor("", None, f"10.0.{number // 256}.{number % 256}", NOW)
        log.refused(actor, audit.Refusal("GET /jobs", "", "", "a valid token is needed"))
    assert len(entries(root, limit=1000)) == before + audit._MOST
    assert len(log._tallies) <= audit._MOST_SOURCES + 1


def test_a_refusal_stays_one_when_it_cannot_be_written_down(world: Any, bob: Any, job: int, problem: Any) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise schedulearn.core.domain.errors.StoreError("the disk is full")

    world.store.add_audit = broken
    problem(bob.post(f"{V1}/jobs/{job}/cancel"), 403)


# --- reading it


def test_pages_and_filters(world: Any, root: Any, ann: Any) -> None:
    for number in range(5):
        ann.post(f"{V1}/tokens", json={"label": str(number)})
    root.patch(f"{V1}/users/ann", json={"max_priority": 7})
    page = root.get(AUDIT, params={"limit": 4}).json()
    rest = root.get(AUDIT, params={"limit": 4, "before": page["next"]}).json()
    serials = [entry["serial"] for entry in page["entries"] + rest["entries"]]
    assert serials == sorted(serials, reverse=True)
    assert (len(page["entries"]), len(rest["entries"]), rest["next"]) == (4, 2, None)
    assert len(entries(root, actor="ann")) == 5
    assert len(entries(root, action="token")) == 5
    assert len(entries(root, action="token.create")) == 5
    assert entries(root, action="toke") == []
    assert [e["action"] for e in entries(root, object="user ann")] == ["user.update"]
    assert len(entries(root, owner="ann")) == 6
    assert len(entries(root, since="2027-01-15T08:00:00Z")) == 6
    assert entries(root, since="2027-01-15T08:00:01Z") == []
    assert entries(root, until="2027-01-15T08:00:00Z") == []
    assert root.get(AUDIT, params={"limit": 0}).status_code == 422
    assert root.get(AUDIT, params={"since": "yesterday"}).status_code == 422


def test_it_is_only_ever_added_to() -> None:
    """But for its age, which housekeeping looks after."""
    sources = Path(schedulearn.__file__).parent.rglob("*.py")
    texts = {path.name: path.read_text() for path in sources}
    assert not [name for name, text in texts.items() if re.search(r"(update|upsert)\(audit\b", text)]
    assert [name for name, text in texts.items() if re.search(r"delete\(audit\b", text)] == ["audit.py"]
    assert [name for name, text in texts.items() if ".drop_audit(" in text] == ["housekeeping.py"]


def test_an_act_and_its_line_are_kept_together_or_not_at_all(world: Any, ann: Any, monkeypatch: Any) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise schedulearn.core.domain.errors.StoreError("the disk is full")

    for part in ("jobs", "accounts"):
        monkeypatch.setattr(f"schedulearn.store.{part}.record_act", broken)
    assert ann.post(f"{V1}/jobs", json={"command": "true"}).status_code == 503
    assert ann.post(f"{V1}/tokens", json={}).status_code == 503
    assert world.store.list_jobs()[1] == 0
    assert world.store.job(JobId(1)) is None
    assert len(world.store.tokens("ann")) == 1
