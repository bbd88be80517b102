"""While the database is locked or away: answers come soon, and tell it; nothing is made twice."""

import http.client
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .conftest import TOKENS

JOBS, HEALTH = "/api/v1/jobs", "/api/v1/health"
SPEC = {"command": "true"}
THREADS = 40  # in which the API answers


@contextmanager
def locked(world: Any) -> Iterator[None]:
    other = sqlite3.connect(world.data / "schedulearn.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.rollback()
        other.close()


def post(live: Any, key: str) -> tuple[int, str | None]:
    """Its status, and when to try again."""
    connection = http.client.HTTPConnection(live.host, live.port, timeout=60)
    headers = {"Authorization": f"Bearer {TOKENS['ann']}", "Content-Type": "application/json", "Idempotency-Key": key}
    connection.request("POST", JOBS, json.dumps(SPEC), headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("Retry-After")


@pytest.mark.parametrize("act", ["submit", "cancel", "token"])
def test_what_cannot_be_written_now_is_refused_for_now(world: Any, ann: Any, problem: Any, job: int, act: str) -> None:
    world.store._db._patience = 0.05
    with locked(world):
        if act == "submit":
            answer = ann.post(JOBS, json=SPEC)
        elif act == "cancel":
            answer = ann.post(f"{JOBS}/{job}/cancel")
        else:
            answer = ann.post("/api/v1/tokens", json={"label": "x"})
        assert "locked" in problem(answer, 503)["detail"]
        assert int(answer.headers["Retry-After"]) > 0
        assert ann.get(JOBS).status_code == 200, "looking is still possible"


def test_however_often_they_try_each_key_makes_one_job(world: Any, live: Any, eventually: Any) -> None:
    world.store._db._patience = 0.05
    answers: dict[str, list[int]] = {f"key-{number}": [] for number in range(6)}

    def submit(key: str) -> None:
        while 201 not in answers[key]:
            status, retry = post(live, key)
            assert (status, retry is None) in ((201, True), (503, False))
            answers[key].append(status)
        answers[key].append(post(live, key)[0])  # its answer was lost, say

    threads = [threading.Thread(target=submit, args=(key,)) for key in answers for _ in range(2)]
    with locked(world):
        for thread in threads:
            thread.start()
        eventually(lambda: all(seen.count(503) >= 4 for seen in answers.values()))
    for thread in threads:
        thread.join(60)
    assert all(201 in seen for seen in answers.values())
    assert world.store.list_jobs()[1] == len(answers)


def test_health_answers_while_all_others_wait(world: Any, live: Any, eventually: Any) -> None:
    statuses: list[int] = []
    keys = [str(number) for number in range(THREADS + 5)]
    waiting = [threading.Thread(target=lambda key=key: statuses.append(post(live, key)[0])) for key in keys]
    before = set(threading.enumerate())  # of loops that have ended, and not yet of this one
    with locked(world):
        for thread in waiting:
            thread.start()
        workers = lambda: [t for t in {*threading.enumerate()} - before if t.name == "AnyIO worker thread"]  # noqa: E731
        eventually(lambda: len(workers()) == THREADS)
        eventually(lambda: health(live)["database"] == "not answering")
        told = health(live)
        assert told["status"] == "ok"
        assert told["database_lost_since"]
        assert not statuses, "and nobody else was answered"
    for thread in waiting:
        thread.join(60)
    assert statuses == [201] * len(waiting)
    assert health(live)["database"] == "ok"


def health(live: Any) -> Any:
    return json.loads(live.get(HEALTH).read())


def test_a_scheduler_that_is_known_to_be_dead_is_told_at_once(world: Any, nobody: Any) -> None:
    assert nobody.get(HEALTH).json()["scheduler"] == "running"
    world.gateway._scheduler_lives = lambda: False
    assert nobody.get(HEALTH).json()["scheduler"] == "absent", "whenever it was last seen"
    world.gateway._scheduler_lives = lambda: True
    world.seen["scheduler"] = None
    assert nobody.get(HEALTH).json()["scheduler"] == "running"
