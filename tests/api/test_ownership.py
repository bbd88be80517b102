"""What belongs to whom: uploads, what others see of a job, and names that were given to somebody else."""

import hashlib
import io
import tarfile
from typing import Any

import pytest

from schedulearn.core.domain.errors import Conflict, OverLimit
from schedulearn.core.domain.spec import JobSpec
from schedulearn.core.domain.states import JobState
from schedulearn.service.common.auth import hash_token
from schedulearn.service.gateway import uploads

V1 = "/api/v1"
NOW = 1_800_000_000.0


def archive(content: bytes = b"print(1)") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo("train.py")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


DATA = archive()
SHA = hashlib.sha256(DATA).hexdigest()
SPEC = {"command": "python train.py", "workdir": "/home/ann/secret-project", "snapshot": SHA}


def put(client: Any, data: bytes = DATA) -> Any:
    return client.put(f"{V1}/snapshots/{hashlib.sha256(data).hexdigest()}", content=data)


# --- snapshots


def test_the_hash_of_somebodys_snapshot_is_worth_nothing(ann: Any, bob: Any, root: Any, problem: Any) -> None:
    put(ann)
    assert ann.post(f"{V1}/jobs", json=SPEC).status_code == 201
    never = "e" * 64
    for other in (bob, root):  # an administrator does not need the code of others in jobs of their own
        there, nowhere = (other.head(f"{V1}/snapshots/{sha}") for sha in (SHA, never))
        assert (there.status_code, nowhere.status_code) == (404, 404)
        assert there.content == nowhere.content
        for dry in ("", "?dry_run=true"):
            theirs = problem(other.post(f"{V1}/jobs{dry}", json=SPEC), 422)
            none = problem(other.post(f"{V1}/jobs{dry}", json={**SPEC, "snapshot": never}), 422)
            assert str(theirs).replace(SHA, "") == str(none).replace(never, "")
            assert theirs["field"] == "snapshot"


def test_the_same_content_of_two_users_is_kept_once_and_belongs_to_both(world: Any, ann: Any, bob: Any) -> None:
    for client in (ann, bob):
        assert client.post(f"{V1}/jobs", json=SPEC).status_code == 422
        assert put(client).status_code == 201
        assert client.head(f"{V1}/snapshots/{SHA}").status_code == 200
        assert client.post(f"{V1}/jobs", json=SPEC).status_code == 201
    assert [file.name for file in (world.data / "snapshots").iterdir()] == [f"{SHA}.tar.gz"]


def test_who_does_not_have_the_bytes_gets_nothing(world: Any, ann: Any, bob: Any, problem: Any) -> None:
    put(ann)
    for wrong in (b"", DATA[:-1], b"x" + DATA):
        problem(bob.put(f"{V1}/snapshots/{SHA}", content=wrong), 422)
        assert bob.head(f"{V1}/snapshots/{SHA}").status_code == 404
    assert (world.data / "snapshots" / f"{SHA}.tar.gz").read_bytes() == DATA


def test_one_whose_file_is_gone_is_not_there(world: Any, ann: Any, problem: Any) -> None:
    put(ann)
    (world.data / "snapshots" / f"{SHA}.tar.gz").unlink()
    assert ann.head(f"{V1}/snapshots/{SHA}").status_code == 404
    problem(ann.post(f"{V1}/jobs", json=SPEC), 422)


def test_uploads_of_one_user_are_bounded(world: Any, ann: Any, bob: Any, problem: Any) -> None:
    world.gateway.uploads._most = len(DATA) + 10
    assert put(ann).status_code == 201
    assert put(ann).status_code == 201, "the same once more takes no more room"
    other = archive(b"print(2)")
    refused = problem(put(ann, other), 429)
    assert "at most" in refused["allowed"]
    pieces = iter([other[:10], other[10:]])  # without a Content-Length: it is known only when all is there
    problem(ann.put(f"{V1}/snapshots/{hashlib.sha256(other).hexdigest()}", content=pieces), 429)
    assert [file.name for file in (world.data / "snapshots").iterdir()] == [f"{SHA}.tar.gz"]
    assert put(bob, other).status_code == 201, "each has a limit of their own"
    problem(put(ann, other), 429)
    assert len(list((world.data / "snapshots").iterdir())) == 2, "it is still bob's"


def test_uploads_at_the_same_time_are_bounded(world: Any) -> None:
    ann, bob = (world.gateway.auth.authenticate(f"sl_{name}") for name in ("ann", "bob"))
    begun = [world.gateway.uploads.begin(ann, "a" * 64, 0) for _ in range(uploads._AT_ONCE)]
    with pytest.raises(OverLimit, match="at a time"):
        world.gateway.uploads.begin(ann, "b" * 64, 0)
    world.gateway.uploads.begin(bob, "b" * 64, 0).close()
    begun.pop().close()
    begun.append(world.gateway.uploads.begin(ann, "b" * 64, 0))
    for upload in begun:
        upload.close()
    assert not world.gateway.uploads._busy
    assert not list((world.data / "snapshots").iterdir())


def test_one_that_was_taken_away_while_it_was_kept_must_be_sent_again(world: Any) -> None:
    ann = world.gateway.auth.authenticate("sl_ann")
    with pytest.raises(Conflict, match="once more"):
        world.gateway.uploads.keep(ann, SHA)
    assert not world.store.has_owners(SHA)


# --- what others see


def test_what_others_see_of_a_job(world: Any, ann: Any, bob: Any, root: Any) -> None:
    spec = JobSpec(  # not over the API: no node here has an engine that could do all this
        "train", "python train.py", image="python:3.12", workdir="/home/ann/secret-project", snapshot=SHA,
        env={"TOKEN": "hush"}, setup=("pip install --index-url https://ann:hush@host/ torch",),
        mounts=("/data/hush",), notify=("https://hooks.example.org/hush",),
    )  # fmt: skip
    job = world.store.add_job(spec, "ann", NOW, "submitted by ann")
    world.run(job)
    seen = [client.get(f"{V1}/jobs/{job}").json()["spec"] for client in (ann, root)]
    assert seen[0] == seen[1]
    assert (seen[0]["snapshot"], seen[0]["mounts"]) == (SHA, ["/data/hush"])
    hidden = {
        "snapshot": None, "workdir": "***", "mounts": ["***"], "env": {"TOKEN": "***"}, "setup": ["***"],
        "notify": ["***"], "command": "python train.py", "name": "train",
    }  # fmt: skip
    shown = bob.get(f"{V1}/jobs/{job}").json()["spec"]
    assert {name: shown[name] for name in hidden} == hidden
    for path in ("jobs", f"jobs/{job}", f"jobs/{job}/events", f"jobs/{job}/explain", f"jobs/{job}/attempts",
                 f"jobs/{job}/metrics", f"jobs/{job}/usage", f"jobs/{job}/migrate", "overview", "events?follow=false",
                 "timeline", "history", "nodes", "studies", "tokens", "notify", "policy"):  # fmt: skip
        answer = bob.get(f"{V1}/{path}")
        assert answer.status_code == 200, path
        for private in ("hush", SHA, "secret-project"):
            assert private not in answer.text, path
    assert "hush" not in bob.get("/metrics").text


def test_nothing_is_hidden_where_nothing_is(ann: Any, bob: Any) -> None:
    job = ann.post(f"{V1}/jobs", json={"command": "true"}).json()
    assert bob.get(f"{V1}/jobs/{job['id']}").json()["spec"] == job["spec"]


# --- a name that was given to somebody else


@pytest.fixture
def second_ann(world: Any, root: Any, job: int) -> Any:
    """Another person with the name of one who is gone, and who has left a job, an upload and a notice."""
    world.store.set_setting("allow_notify", ["https://hooks.example.org"])
    first = world.client("sl_ann")
    put(first)
    first.put(f"{V1}/notify", json={"addresses": ["https://hooks.example.org/hush"]})
    world.set_state(job, JobState.SUCCEEDED)
    (world.data / "jobs" / str(job) / "run").mkdir(parents=True)
    assert root.delete(f"{V1}/users/ann").status_code == 204
    assert root.post(f"{V1}/users", json={"name": "ann"}).status_code == 201
    world.store.add_token("ann", "second", hash_token("sl_second"), NOW)
    return world.client("sl_second")


def test_a_second_one_of_a_name_has_nothing_of_the_first(world: Any, second_ann: Any, job: int, problem: Any) -> None:
    problem(second_ann.delete(f"{V1}/jobs/{job}"), 403)
    problem(second_ann.get(f"{V1}/jobs/{job}/files"), 403)
    problem(second_ann.post(f"{V1}/jobs/{job}/exec", json={"command": ["true"]}), 403)
    shown = second_ann.get(f"{V1}/jobs/{job}").json()
    assert (shown["user"], shown["yours"], shown["spec"]["env"]) == ("ann", False, {"SECRET": "***"})
    assert [each["yours"] for each in second_ann.get(f"{V1}/overview").json()["finished"]] == [False]
    assert [each["yours"] for each in second_ann.get(f"{V1}/jobs").json()["jobs"]] == [False]
    assert [each["yours"] for each in world.client("sl_root").get(f"{V1}/jobs").json()["jobs"]] == [True]
    assert second_ann.head(f"{V1}/snapshots/{SHA}").status_code == 404
    assert second_ann.get(f"{V1}/notify").json()["addresses"] == []
    assert {token["label"] for token in second_ann.get(f"{V1}/tokens").json()["tokens"]} == {"second"}
    problem(world.client("sl_ann").get(f"{V1}/whoami"), 401)


def test_a_code_of_the_first_lets_nobody_into_the_account_of_the_second(
    world: Any, ann: Any, root: Any, problem: Any
) -> None:
    code = ann.post(f"{V1}/logins", json={}).json()["code"]
    root.delete(f"{V1}/users/ann")
    root.post(f"{V1}/users", json={"name": "ann"})
    problem(world.client(None).post(f"{V1}/logins/redeem", json={"code": code}), 401)


def test_a_removed_user_submits_nothing_under_the_name_of_another(world: Any, root: Any, problem: Any) -> None:
    """Who was looked up just before the removal is still known for a moment to a process that did not see it."""
    first = world.gateway.auth.authenticate("sl_bob")
    root.delete(f"{V1}/users/bob")
    root.post(f"{V1}/users", json={"name": "bob"})
    world.gateway.auth._cache[hash_token("sl_bob")] = (float("inf"), first)
    problem(world.client("sl_bob").post(f"{V1}/jobs", json={"command": "true"}), 404)
    assert world.store.list_jobs(user="bob")[1] == 0


def test_a_job_runs_as_its_own_user_whoever_has_the_name(world: Any, job: int) -> None:
    world.store.update_user("ann", uid=2001)
    assert world.store.user_of(job).uid == 2001
    world.store.remove_user("ann")
    world.store.add_user("ann", "user", uid=3001)
    assert world.store.user_of(job) is None
