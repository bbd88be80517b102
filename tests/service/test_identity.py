"""Whom jobs run as: a uid for each user, root by choice alone, and what is said of it."""

import os
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import InvalidSpec, SchedulearnError
from schedulearn.core.domain.ids import AttemptId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Worker
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import JobSpec
from schedulearn.service.common.config import DataFolder
from schedulearn.service.common.identity import Identities
from schedulearn.service.loop.launch import Launcher
from schedulearn.store import Store, UserRow, open_store
from support.builders import job, node

AS_ROOT = Identities(root=True, name="root")
TRUSTING = Identities(root=True, root_jobs=True, name="root")
PLAIN = Identities(name="lab")
ANN = UserRow("ann", "user", id=7)
MAPPED = UserRow("bob", "user", uid=1234, gid=1235, id=8)
BOSS = UserRow("boss", "admin", uid=0, id=9)


@pytest.mark.parametrize(
    ("known", "user", "process", "container", "words"),
    [
        (AS_ROOT, ANN, (70_007, 70_007), (70_007, 70_007), "uid 70007"),
        (AS_ROOT, MAPPED, (1234, 1235), (1234, 1235), "uid 1234"),
        (AS_ROOT, BOSS, None, (70_009, 70_009), "root"),
        (TRUSTING, ANN, None, (70_007, 70_007), "root"),
        (TRUSTING, MAPPED, (1234, 1235), (1234, 1235), "uid 1234"),
        (PLAIN, ANN, None, (70_007, 70_007), "the service's user, lab"),
        (PLAIN, BOSS, None, (70_009, 70_009), "the service's user, lab"),
        (Identities(name="lab", processes=False), ANN, None, (70_007, 70_007), "uid 70007"),
    ],
)
def test_whom_jobs_run_as(known: Identities, user: UserRow, process: Any, container: Any, words: str) -> None:
    assert (known.as_process(user), known.in_container(user), known.runs_as(user)) == (process, container, words)


def test_a_user_beyond_the_range_is_nobody_never_root() -> None:
    beyond = UserRow("late", "user", id=30_000)
    assert AS_ROOT.as_process(beyond) == (65534, 65534)
    with pytest.raises(InvalidSpec, match="given out"):
        AS_ROOT.check_room(30_000)
    AS_ROOT.check_room(29_999)


@pytest.mark.parametrize("taken", [UserRow("bob", "user", uid=70_100, id=2), UserRow("late", "user", id=30_000)])
def test_a_range_that_does_not_do_is_refused_at_the_start(taken: UserRow) -> None:
    with pytest.raises(SchedulearnError, match=r"--uids 70000-99999.*(bob|late)"):
        AS_ROOT.check_all([ANN, taken])


def test_a_range_with_accounts_of_the_machine_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulearn.service.common.identity._known", lambda uid: "carol" if uid == 70_007 else "")
    with pytest.raises(SchedulearnError, match="70007 is carol on this machine"):
        AS_ROOT.check_all([ANN])
    with pytest.raises(InvalidSpec, match="carol"):
        AS_ROOT.check_room(7)


def test_what_is_said() -> None:
    [one] = PLAIN.warnings([ANN])
    assert one == PLAIN.notes(ANN, others=1)[0]
    assert "run as one, lab" in one
    assert PLAIN.notes(ANN, others=0) == []
    assert "as root" in TRUSTING.warnings([ANN])[0]
    assert TRUSTING.notes(ANN, others=0) == ["Jobs of ann run as root, with all rights on this machine."]
    assert AS_ROOT.warnings([ANN, BOSS]) == ["Jobs of boss run as root, with all rights on this machine."]
    assert AS_ROOT.notes(BOSS, others=0) == ["Jobs of boss run as root, with all rights on this machine."]
    assert AS_ROOT.warnings([ANN, MAPPED]) == AS_ROOT.notes(ANN, others=5) == AS_ROOT.notes(MAPPED, others=5) == []


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = open_store(tmp_path / "schedulearn.db")
    yield made
    made.close()


def launches(store: Store, data: Path, identities: Identities, user: str, *nodes: str) -> list[Launch]:
    number = store.add_job(JobSpec("train", "true"), user, 0.0, "")
    workers = [Worker(WorkerId(number, 1, rank), NodeName(name), ()) for rank, name in enumerate(nodes)]
    launcher = Launcher(store, DataFolder(data), identities)
    return launcher.launches(job(number, user=user), Attempt(AttemptId(number, 1), 0.0, workers), 0.0)


def test_what_executors_are_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = node("local"), node("gpu2", executor="docker", address="ssh://gpu2")
    monkeypatch.setattr(store, "list_nodes", lambda: [here, there])
    ann = store.add_user("ann", "user")
    store.add_user("boss", "admin", uid=0)

    def told(identities: Identities, user: str) -> list[tuple[int | None, int | None]]:
        return [(one.uid, one.gid) for one in launches(store, tmp_path, identities, user, "local", "gpu2")]

    own = (70_000 + ann.id, 70_000 + ann.id)
    assert told(AS_ROOT, "ann") == [own, own]
    assert told(TRUSTING, "ann") == [(None, None), own]
    assert told(PLAIN, "ann") == [(None, None), own]
    assert told(AS_ROOT, "boss")[0] == (None, None)
    assert told(AS_ROOT, "boss")[1][0] == own[0] + 1
    assert told(AS_ROOT, "nobody any more") == [(65534, 65534)] * 2


def test_the_api_knows_what_the_scheduler_decided(store: Store) -> None:
    assert Identities.told(store) == Identities()
    decided = Identities.here((200_000, 200_999), root_jobs=True, processes=False)
    decided.tell(store)
    assert Identities.told(store) == decided
    assert decided.root == (os.geteuid() == 0)
