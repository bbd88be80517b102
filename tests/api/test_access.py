"""Who may do what, as a table; and how tokens come and go."""

import asyncio
import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from schedulearn.service.common.auth import hash_token

NOW = 1_800_000_000.0

V1 = "/api/v1"
SHA = "0" * 64
OK = {200, 201, 202, 204}
JSON = {"Content-Type": "application/json"}
JOIN = {"worker": "JOB.1.0", "generation": 3, "members": [0, 1], "step": 5, "wait": 0}

# method, path, body, and the answer to: nobody, ann (whose job it is), bob, an administrator, a job's own token
TABLE: list[tuple[str, str, Any, int, int, int, int, int]] = [
    ("GET", f"{V1}/health", None, 200, 200, 200, 200, 200),
    ("GET", "/metrics", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/openapi.json", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/schema/job", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/whoami", None, 401, 200, 200, 200, 403),
    ("POST", f"{V1}/jobs", {"command": "true"}, 401, 201, 201, 201, 403),
    ("POST", f"{V1}/jobs?dry_run=true", {"command": "true"}, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB", None, 401, 200, 200, 200, 403),
    ("PATCH", f"{V1}/jobs/JOB", {"priority": 1}, 401, 200, 403, 200, 403),
    ("DELETE", f"{V1}/jobs/JOB", None, 401, 202, 403, 202, 403),
    ("POST", f"{V1}/jobs/JOB/cancel", None, 401, 202, 403, 202, 403),
    ("POST", f"{V1}/jobs/JOB/pause", None, 401, 202, 403, 202, 403),
    ("POST", f"{V1}/jobs/JOB/resume", None, 401, 409, 403, 409, 403),
    ("POST", f"{V1}/jobs/JOB/migrate", {"node": "gpu2"}, 401, 422, 403, 422, 403),
    ("GET", f"{V1}/jobs/JOB/migrate", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB/logs", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB/metrics", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB/usage", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB/events", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB/explain", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB/attempts", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/jobs/JOB/files", None, 401, 200, 403, 200, 403),
    ("POST", f"{V1}/jobs/JOB/exec", {"command": ["true"]}, 401, 409, 403, 409, 403),
    ("GET", f"{V1}/events?follow=false", None, 401, 200, 200, 200, 403),
    ("POST", f"{V1}/attempts/JOB.1/reports", {"worker": "JOB.1.0", "points": []}, 401, 403, 403, 403, 200),
    ("POST", f"{V1}/attempts/JOB.1/group", JOIN, 401, 403, 403, 403, 200),
    ("GET", f"{V1}/attempts/JOB.1/group", None, 401, 403, 403, 403, 200),
    ("DELETE", f"{V1}/attempts/JOB.1/group", None, 401, 403, 403, 403, 204),
    ("POST", f"{V1}/attempts/JOB.1/groups/3.7/keys/set", {"key": "a", "value": "x"}, 401, 403, 403, 403, 404),
    ("POST", f"{V1}/attempts/JOB.1/groups/3.7/keys/get", {"keys": ["a"]}, 401, 403, 403, 403, 404),
    ("POST", f"{V1}/attempts/JOB.1/groups/3.7/keys/add", {"key": "a", "amount": 1}, 401, 403, 403, 403, 404),
    ("HEAD", f"{V1}/snapshots/{SHA}", None, 401, 404, 404, 404, 403),
    ("PUT", f"{V1}/snapshots/{SHA}", None, 401, 422, 422, 422, 403),  # whose one is: test_ownership.py
    ("GET", f"{V1}/nodes", None, 401, 200, 200, 200, 403),
    ("POST", f"{V1}/nodes", {"address": "no address"}, 401, 403, 403, 422, 403),
    ("PATCH", f"{V1}/nodes/local", {"drain": True}, 401, 403, 403, 202, 403),
    ("DELETE", f"{V1}/nodes/local", None, 401, 403, 403, 409, 403),
    ("GET", f"{V1}/overview", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/timeline", None, 401, 200, 200, 200, 403),
    ("POST", f"{V1}/logins", {}, 401, 201, 201, 201, 403),
    ("POST", f"{V1}/logins", {"user": "ann"}, 401, 201, 403, 201, 403),
    ("POST", f"{V1}/logins/redeem", {"code": "wrong"}, 401, 401, 401, 401, 401),
    ("GET", f"{V1}/policy", None, 401, 200, 200, 200, 403),
    ("PUT", f"{V1}/policy", {"preset": "fifo"}, 401, 403, 403, 200, 403),
    ("GET", f"{V1}/history", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/studies", None, 401, 200, 200, 200, 403),
    ("POST", f"{V1}/studies", {"policies": ["none"]}, 401, 422, 422, 422, 403),
    ("GET", f"{V1}/studies/local", None, 401, 404, 404, 404, 403),  # whose one is: test_studies.py
    ("GET", f"{V1}/studies/local/report", None, 401, 404, 404, 404, 403),
    ("POST", f"{V1}/studies/local/cancel", None, 401, 404, 404, 404, 403),
    ("DELETE", f"{V1}/studies/local", None, 401, 404, 404, 404, 403),
    ("GET", f"{V1}/audit", None, 401, 403, 403, 200, 403),
    ("GET", f"{V1}/users", None, 401, 403, 403, 200, 403),
    ("POST", f"{V1}/users", {"name": "eve"}, 401, 403, 403, 201, 403),
    ("PATCH", f"{V1}/users/bob", {"max_priority": 9}, 401, 403, 403, 200, 403),
    ("DELETE", f"{V1}/users/bob", None, 401, 403, 403, 204, 403),
    ("GET", f"{V1}/notify", None, 401, 200, 200, 200, 403),
    ("GET", f"{V1}/notify?user=ann", None, 401, 200, 403, 200, 403),
    ("PUT", f"{V1}/notify", {"addresses": []}, 401, 200, 200, 200, 403),
    ("PUT", f"{V1}/notify", {"addresses": [], "user": "ann"}, 401, 200, 403, 200, 403),
    ("GET", f"{V1}/notify/secret", None, 401, 200, 200, 200, 403),
    ("POST", f"{V1}/notify/secret", None, 401, 201, 201, 201, 403),
    ("POST", f"{V1}/notify/test", None, 401, 202, 202, 202, 403),
    ("GET", f"{V1}/tokens", None, 401, 200, 200, 200, 403),
    ("POST", f"{V1}/tokens", {"label": "x"}, 401, 201, 201, 201, 403),
    ("POST", f"{V1}/tokens", {"user": "ann"}, 401, 201, 403, 201, 403),
    ("DELETE", f"{V1}/tokens/ANNS", None, 401, 204, 404, 204, 403),
]


def test_the_table_has_every_route(world: Any) -> None:
    paths = world.app.openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    known = set()
    for method, path, *_ in TABLE:
        plain = path.partition("?")[0].replace("JOB.1", "{attempt}").replace("JOB", "{job}").replace("ANNS", "{token}")
        plain = (
            plain.replace(SHA, "{sha256}")
            .replace("/bob", "/{name}")
            .replace("/local", "/{name}")
            .replace("3.7", "{group}")
        )
        known.add((method, plain))
    assert known == routes


@pytest.mark.parametrize("last", ["sl_ann", "sl_root"])  # each alone: both may take the same thing away
@pytest.mark.parametrize(("method", "path", "body", "nobody", "owner", "other", "admin", "job_token"), TABLE)
def test_who_may_do_what(
    world: Any, job: int, problem: Any, method: str, path: str, body: Any, nobody: int, owner: int, other: int,
    admin: int, job_token: int, last: str,
) -> None:  # fmt: skip
    attempt = world.run(job)
    (world.data / "jobs" / str(job) / "run").mkdir(parents=True)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    anns = str(next(token.id for token in world.store.tokens("ann")))
    path = path.replace("JOB", str(job)).replace("ANNS", anns)
    if body and "worker" in body:
        body = {**body, "worker": f"{attempt}.0"}
    expected = {None: nobody, "sl_bob": other, "sl_job": job_token, last: owner if last == "sl_ann" else admin}
    for token, status in expected.items():
        answer = world.client(token).request(method, path, json=body)
        assert answer.status_code == status, (token, answer.text)
        if status not in OK and method != "HEAD":
            problem(answer, status)
            assert (status == 401) == ("www-authenticate" in answer.headers)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic cm9vdDpyb290", "sl_root", "Bearer sl_root extra"]
)
def test_wrong_tokens_all_get_the_same_shape(world: Any, problem: Any, header: str) -> None:
    answer = world.client(None).get(f"{V1}/jobs", headers={"Authorization": header})
    body = problem(answer, 401)
    assert body["type"] == "urn:schedulearn:problem:not-authenticated"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_job_reports_only_for_its_own_attempt(world: Any, ann: Any, job: int) -> None:
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    own = world.client("sl_job")
    point = {"seq": 1, "at": 1.0, "step": 1, "values": {"loss": 0.5}}
    assert own.post(f"{V1}/attempts/{job}.2/reports", json={"worker": f"{job}.2.0", "points": []}).status_code == 403
    other_worker = {"worker": f"{job + 1}.1.0", "points": [point]}
    assert own.post(f"{V1}/attempts/{job}.1/reports", json=other_worker).status_code == 422
    good = {"worker": f"{job}.1.0", "points": [point]}
    assert own.post(f"{V1}/attempts/{job}.1/reports", json=good).json() == {"accepted": 1, "dropped": 0}
    assert own.post(f"{V1}/attempts/{job}.1/reports", json=good).json() == {"accepted": 0, "dropped": 0}
    assert ann.get(f"{V1}/jobs/{job}").json()["progress"]["value"] == 0.5


def test_a_job_may_report_that_its_loss_is_not_a_number(world: Any, ann: Any, job: int) -> None:
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    body = f'{{"worker":"{job}.1.0","points":[{{"seq":1,"at":1.0,"step":1,"values":{{"loss":NaN}}}}]}}'
    answer = world.client("sl_job").post(f"{V1}/attempts/{job}.1/reports", content=body, headers=JSON)
    assert answer.json() == {"accepted": 1, "dropped": 0}
    assert ann.get(f"{V1}/jobs/{job}").json()["progress"]["value"] is None


def test_the_token_of_a_job_ends_with_its_attempt(world: Any, job: int, problem: Any) -> None:
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    own, body = world.client("sl_job"), {"worker": f"{job}.1.0", "points": []}
    assert own.post(f"{V1}/attempts/{attempt}/reports", json=body).status_code == 200
    [ended] = world.store.attempts_of(job)
    ended.ended_at = NOW
    world.save(attempts=[ended])
    problem(own.post(f"{V1}/attempts/{attempt}/reports", json=body), 401)
    problem(own.get(f"{V1}/attempts/{attempt}/group"), 401)


def test_a_token_that_is_revoked_while_it_is_looked_up_is_not_remembered(world: Any) -> None:
    """The look at the store comes before the revocation, and its end after it."""
    auth, look_up = world.gateway.auth, world.gateway.auth._look_up

    def slow(digest: str) -> Any:
        found = look_up(digest)
        auth.forget()
        return found

    auth._look_up = slow
    assert auth.authenticate("sl_ann").name == "ann"
    assert auth.cached("sl_ann") is None


def test_a_job_reports_on_when_its_user_is_gone(world: Any, job: int) -> None:
    attempt = world.run(job)
    world.store.add_token("ann", "attempt", hash_token("sl_job"), 0.0, attempt)
    world.store.remove_user("ann")
    body = {"worker": f"{job}.1.0", "points": []}
    assert world.client("sl_job").post(f"{V1}/attempts/{job}.1/reports", json=body).status_code == 200


# --- tokens and users


def test_a_token_is_shown_once_and_works_until_it_is_revoked(world: Any, ann: Any) -> None:
    made = ann.post(f"{V1}/tokens", json={"label": "laptop"}).json()
    assert made["token"].startswith("sl_")
    listed = ann.get(f"{V1}/tokens").json()["tokens"]
    assert [(token["id"], token["label"]) for token in listed][-1] == (made["id"], "laptop")
    assert all("token" not in token for token in listed)
    laptop = world.client(made["token"])
    assert laptop.get(f"{V1}/whoami").json()["name"] == "ann"
    assert ann.delete(f"{V1}/tokens/{made['id']}").status_code == 204
    assert laptop.get(f"{V1}/whoami").status_code == 401


def test_users_see_their_own_tokens_and_administrators_all(ann: Any, root: Any) -> None:
    assert {token["user"] for token in ann.get(f"{V1}/tokens").json()["tokens"]} == {"ann"}
    assert {token["user"] for token in root.get(f"{V1}/tokens").json()["tokens"]} == {"ann", "bob", "root"}


def test_a_removed_user_is_out_at_once(root: Any, bob: Any) -> None:
    assert bob.get(f"{V1}/whoami").status_code == 200
    assert root.delete(f"{V1}/users/bob").status_code == 204
    assert bob.get(f"{V1}/whoami").status_code == 401


def test_a_user_with_unfinished_jobs_stays(root: Any, job: int, problem: Any) -> None:
    assert "unfinished jobs" in problem(root.delete(f"{V1}/users/ann"), 409)["detail"]


def test_there_is_always_an_administrator(root: Any, problem: Any) -> None:
    problem(root.delete(f"{V1}/users/root"), 409)
    problem(root.patch(f"{V1}/users/root", json={"role": "user"}), 409)
    root.post(f"{V1}/users", json={"name": "eve", "role": "admin"})
    assert root.patch(f"{V1}/users/root", json={"role": "user"}).status_code == 200


def test_users_are_made_and_changed(root: Any, problem: Any) -> None:
    made = root.post(f"{V1}/users", json={"name": "eve", "uid": 1001, "max_priority": 40}).json()
    assert made | {"name": "eve", "role": "user", "uid": 1001, "gid": None, "root": False, "max_priority": 40} == made
    changed = root.patch(f"{V1}/users/eve", json={"gid": 1007, "max_priority": None}).json()
    assert changed == made | {"gid": 1007, "max_priority": None}
    problem(root.post(f"{V1}/users", json={"name": "eve"}), 409)
    problem(root.patch(f"{V1}/users/nemo", json={}), 404)
    wrong = problem(root.post(f"{V1}/users", json={"name": "../x"}), 422)
    assert (wrong["field"], "'../x' is not allowed" in wrong["detail"]) == ("name", True)
    assert wrong["allowed"].startswith("1 to 64 of A-Z, a-z, 0-9")


@pytest.mark.parametrize("uid", [0, 1, 999, 65534, 70_000, 70_002, 99_999, 2**32 - 1, -1, True, "1001"])
def test_a_uid_that_no_person_has_is_refused(root: Any, problem: Any, uid: object) -> None:
    """Root, the system's accounts, nobody, and the uids that the service gives out itself."""
    for body in ({"uid": uid}, {"uid": 1001, "gid": uid}):
        wrong = problem(root.post(f"{V1}/users", json={"name": "eve", **body}), 422)
        assert wrong["field"] == list(body)[-1]
        assert wrong["allowed"] or type(uid) is not int
    assert "eve" not in {user["name"] for user in root.get(f"{V1}/users").json()["users"]}


def test_a_group_goes_with_a_uid(root: Any, problem: Any) -> None:
    assert problem(root.post(f"{V1}/users", json={"name": "eve", "gid": 1001}), 422)["field"] == "gid"
    root.post(f"{V1}/users", json={"name": "eve", "uid": 1001, "gid": 1001})
    changed = root.patch(f"{V1}/users/eve", json={"uid": None}).json()
    assert (changed["uid"], changed["gid"]) == (None, None)


def test_root_is_a_choice_of_its_own(root: Any, problem: Any) -> None:
    both = problem(root.post(f"{V1}/users", json={"name": "eve", "root": True, "uid": 1001}), 422)
    assert (both["field"], both["allowed"]) == ("root", "root or a uid, not both")
    made = root.post(f"{V1}/users", json={"name": "eve", "root": True}).json()
    assert (made["root"], made["uid"]) == (True, None)
    assert root.patch(f"{V1}/users/eve", json={"max_priority": 5}).json()["root"] is True
    assert root.patch(f"{V1}/users/eve", json={"root": False}).json()["root"] is False
    changed = root.patch(f"{V1}/users/eve", json={"uid": 1001}).json()
    assert (changed["root"], changed["uid"]) == (False, 1001)
    assert root.patch(f"{V1}/users/eve", json={"root": True}).json()["root"] is True
    assert problem(root.post(f"{V1}/users", json={"name": "max", "root": "yes"}), 422)["field"] == "root"


def test_the_cap_on_priority(bob: Any, root: Any, problem: Any) -> None:
    jobs = f"{V1}/jobs"
    body = problem(bob.post(jobs, json={"command": "true", "priority": 61}), 422)
    assert (body["field"], body["allowed"]) == ("priority", "0..60")
    job = bob.post(jobs, json={"command": "true", "priority": 60}).json()["id"]
    assert problem(bob.patch(f"{jobs}/{job}", json={"priority": 61}), 422)["field"] == "priority"
    assert root.patch(f"{jobs}/{job}", json={"priority": 100}).status_code == 200
    root.patch(f"{V1}/users/bob", json={"max_priority": 20})
    assert bob.post(jobs, json={"command": "true"}).json()["priority"] == 20


# --- snapshots


def archive(*members: tuple[str, bytes | None, str]) -> bytes:
    """A tar.gz of (name, content, link target) members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content, link in members:
            info = tarfile.TarInfo(name)
            if link:
                info.type, info.linkname = tarfile.SYMTYPE, link
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


def put(client: Any, data: bytes, sha: str | None = None) -> Any:
    return client.put(f"{V1}/snapshots/{sha or hashlib.sha256(data).hexdigest()}", content=data)


def test_a_snapshot_is_uploaded_and_used(world: Any, ann: Any, problem: Any) -> None:
    data = archive(("train.py", b"print(1)", ""), ("link", None, "train.py"))
    sha = hashlib.sha256(data).hexdigest()
    spec = {"command": "python train.py", "workdir": "/home/ann/project", "snapshot": sha}
    refused = problem(ann.post(f"{V1}/jobs", json=spec), 422)
    assert refused["field"] == "snapshot"
    assert f"PUT /api/v1/snapshots/{sha}" in refused["detail"]
    assert ann.head(f"{V1}/snapshots/{sha}").status_code == 404
    assert put(ann, data).status_code == 201
    assert put(ann, data).status_code == 201
    assert ann.head(f"{V1}/snapshots/{sha}").status_code == 200
    assert (world.data / "snapshots" / f"{sha}.tar.gz").read_bytes() == data
    assert ann.post(f"{V1}/jobs", json=spec).status_code == 201


def test_a_snapshot_that_is_asked_for_is_young_again(world: Any, ann: Any) -> None:
    data = archive(("train.py", b"print(1)", ""))
    put(ann, data)
    [kept] = (world.data / "snapshots").iterdir()
    os.utime(kept, (1, 1))
    ann.head(f"{V1}/snapshots/{hashlib.sha256(data).hexdigest()}")
    assert kept.stat().st_mtime > 1


BAD_ARCHIVES = {
    "upwards": archive(("../evil", b"x", "")),
    "deep upwards": archive(("a/../../evil", b"x", "")),
    "link out": archive(("link", None, "../../etc")),
    "absolute link": archive(("link", None, "/etc/passwd")),
    "through a link": archive(("sub/deep/file", b"", ""), ("link", None, "sub"), ("link/file", b"x", "")),
    "not a tar": b"\x1f\x8b not really",
    "not gzip": b"plain text",
    "empty": b"",
    "cut off": archive(("train.py", b"print(1)" * 5000, ""))[:-40],
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_bad_archives_are_refused_and_nothing_stays(world: Any, ann: Any, problem: Any, name: str) -> None:
    body = problem(put(ann, BAD_ARCHIVES[name]), 422)
    assert body["field"] == "snapshot"
    assert list((world.data / "snapshots").iterdir()) == []


def test_a_device_in_a_snapshot_is_refused(ann: Any, problem: Any) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo("null")
        info.type = tarfile.CHRTYPE
        tar.addfile(info)
    assert problem(put(ann, out.getvalue()), 422)["field"] == "snapshot"


def test_a_bomb_is_refused(ann: Any, problem: Any) -> None:
    bomb = archive(("zeros", bytes(3_000_000), ""))
    assert len(bomb) < 100_000
    assert "too much" in problem(put(ann, bomb), 422)["detail"]


def test_archives_that_take_long_to_check_keep_nobody_else_waiting(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than there are threads for requests; none is done before all others were answered."""
    waits, go = tmp_path / "waits.py", tmp_path / "go"
    waits.write_text(
        "import os, time\n"
        "parent = os.getppid()\n"
        f"open({str(tmp_path)!r} + f'/began-{{os.getpid()}}', 'w').close()\n"
        f"while not os.path.exists({str(go)!r}) and os.getppid() == parent: time.sleep(0.01)\n"
    )
    monkeypatch.setattr("schedulearn.archive.child.__file__", str(waits))
    monkeypatch.setattr("schedulearn.service.gateway.uploads._AT_ONCE", 45)  # as many users would send

    async def attack() -> list[int]:
        uploads = []
        headers = {"Authorization": "Bearer sl_ann"}
        transport = httpx.ASGITransport(app=world.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
            for number in range(45):
                data = archive((f"f{number}", b"x", ""))
                url = f"{V1}/snapshots/{hashlib.sha256(data).hexdigest()}"
                uploads.append(asyncio.create_task(client.put(url, content=data)))
            while len(list(tmp_path.glob("began-*"))) < 2 or len(list(tmp_path.glob("snapshots/.upload-*"))) < 45:
                await asyncio.sleep(0.01)
            for _ in range(3):
                assert (await client.get(f"{V1}/jobs")).status_code == 200
            assert not any(upload.done() for upload in uploads)
            assert len(list(tmp_path.glob("began-*"))) == 2
            go.touch()
            return [answer.status_code for answer in await asyncio.gather(*uploads)]

    assert set(asyncio.run(attack())) == {422}


def test_a_snapshot_with_another_hash_is_refused(ann: Any, problem: Any) -> None:
    problem(put(ann, archive(("a", b"a", "")), "1" * 64), 422)


def test_a_snapshot_that_is_too_large_is_refused(world: Any, ann: Any, problem: Any) -> None:
    problem(put(ann, bytes(100_001)), 413)
    pieces = iter([bytes(60_000), bytes(60_000)])  # without a Content-Length
    problem(ann.put(f"{V1}/snapshots/{'2' * 64}", content=pieces), 413)
    assert not list((world.data / "snapshots").glob("*"))


@pytest.mark.parametrize("sha", ["short", "Z" * 64, "..%2f..%2fschedulearn.db", "A" * 64])
def test_a_hash_is_nothing_else(ann: Any, sha: str) -> None:
    assert ann.put(f"{V1}/snapshots/{sha}", content=b"").status_code in (404, 422)
