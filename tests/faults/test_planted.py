"""A simulator that finds nothing may be blind. Each fault here was planted, and must be found within a few seeds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schedulearn.core.control import apply
from schedulearn.core.control.free import Leaving
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.loop.scheduler import Scheduler
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.store import Found, Store
from schedulearn.store import jobs as stored_jobs
from support.faults.schedule import Event, Schedule, made
from support.faults.shrink import kind_of, played, smaller

Plant = Callable[[pytest.MonkeyPatch], None]


def _place_is_given_before_it_is_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leaving, "let_in", lambda *_: True)


def _acts_before_it_records(patch: pytest.MonkeyPatch) -> None:
    record = Scheduler._record
    waiting: dict[Scheduler, tuple[Any, Any]] = {}

    def late(self: Scheduler, *what: Any) -> None:
        before, waiting[self] = waiting.get(self), what  # type: ignore[assignment]
        if before:
            record(self, *before)

    patch.setattr(Scheduler, "_record", late)


def _recovery_forgets_who_has_to_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "_tell_again", lambda *_: None)
    patch.setattr(Scheduler, "_look_again", lambda *_: None)


def _news_is_lost(patch: pytest.MonkeyPatch) -> None:
    """What was told while the store was away is not asked for again."""
    patch.setattr(Scheduler, "_find_again", lambda *_: None)
    patch.setattr(Scheduler, "_look_again", lambda *_: None)


def _a_retried_submission_is_a_new_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored_jobs, "find_submission", lambda *_: None)
    patch.setattr(Gateway, "submitted", lambda *_: None)


def _what_had_ended_is_run_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "_was_over", lambda *_: False)


def _place_is_stored_before_the_points(patch: pytest.MonkeyPatch) -> None:
    add = Store.add_found

    def in_two(self: Store, found: Sequence[Found]) -> None:
        add(self, [Found(one.worker, one.offset) for one in found])
        add(self, found)

    patch.setattr(Store, "add_found", in_two)


def _points_are_forgotten_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    add = Store.add_found

    def forgetful(self: ProgressWatcher, watched: Iterable[Any]) -> None:
        found = [(each, new) for each in watched if (new := each.unstored)]
        for each, new in found:
            each.note_stored(new)
        if found:
            add(self._store, [new for _, new in found])

    patch.setattr(ProgressWatcher, "_keep", forgetful)


def _jobs(*more: dict[str, Any]) -> list[Event]:
    """Jobs that are submitted one second after the other; each is long, alone and stops at once unless it says more."""
    plain = {
        "gpus": 0, "cpus": 1, "cpus_max": 3, "workers": (1, 1, 1), "hot": False, "runs": 60.0, "codes": (0,),
        "memory": None, "problems": 0, "saves": True, "term_takes": 0.0, "restarts": 0, "limit": None, "grace": 5.0,
        "depends": None, "preemptible": "true", "priority": 50, "prints": False,
    }  # fmt: skip
    return [Event(1.0 + key, "submit", {**plain, "key": key, **one}) for key, one in enumerate(more)]


def _crowded(seed: int) -> Schedule:
    """A job moves, and takes its time; another one waits for its place."""
    first, second = _jobs({"cpus": 3, "term_takes": 4.0}, {"cpus": 3, "runs": 20.0})
    moves = [Event(5.0, "migrate", {"key": 0, "node": name}) for name in "ab"]
    return Schedule(seed, (Event(0.0, "policy", {"preset": "fifo"}), first, *moves, replace(second, at=6.0)))


def _stopped(seed: int) -> Schedule:
    """A job that ends only when it is told to is cancelled, and the service is gone before it has passed that on."""
    crash = Event(20.0, "crash", {"effects": seed % 8, "seconds": 1.0, "torn": ""})
    return Schedule(seed, (*_jobs({"runs": 1e9}), crash, Event(20.0, "cancel", {"key": 0})))


def _silent(seed: int) -> Schedule:
    """A job ends while nobody hears of its servers, and somebody wants it to move."""
    cuts = [Event(12.0, "cut", {"node": name, "seconds": 6.0}) for name in "abc"]
    moves = [Event(15.0, "migrate", {"key": 0, "node": name}) for name in "abc"]
    return Schedule(seed, (*_jobs({"runs": 12.5}), *cuts, *moves))


def _printing(seed: int) -> Schedule:
    """The store fails, and then the service, while a job prints."""
    outage = Event(10.0 + seed / 10, "outage", {"how": "refuses", "seconds": 3.0})
    crash = Event(20.0, "crash", {"effects": seed % 12, "seconds": 1.0, "torn": ""})
    return Schedule(seed, (*_jobs({"prints": True}), outage, crash))


# What is planted, where it is looked for, and what is found of it.
PLANTED: dict[str, tuple[Plant, Callable[[int], Schedule], str]] = {
    "place": (_place_is_given_before_it_is_left, _crowded, "given out twice"),
    "record": (_acts_before_it_records, made, "job"),
    "recovery": (_recovery_forgets_who_has_to_end, _stopped, "is stuck"),
    "news": (_news_is_lost, made, "is stuck"),
    "submission": (_a_retried_submission_is_a_new_one, made, "jobs were made of"),
    "output": (_place_is_stored_before_the_points, _printing, "were stored"),
    "points": (_points_are_forgotten_before_they_are_stored, _printing, "were stored"),
    "over": (_what_had_ended_is_run_again, _silent, "was started again"),
}
_SEEDS = range(20)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plant, schedule, words = PLANTED[name]
    plant(monkeypatch)
    assert any(words in problem for seed in _SEEDS for problem in played(schedule(seed)))


@pytest.mark.parametrize("schedule", [_crowded, _stopped, _silent, _printing])
def test_what_was_made_for_planted_faults_is_well_without_them(schedule: Callable[[int], Schedule]) -> None:
    assert played(schedule(3)) == []


def test_a_schedule_that_fails_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    _what_had_ended_is_run_again(monkeypatch)
    whole = _silent(0)
    [problem] = played(whole)
    small = smaller(whole, problem)
    assert len(small.events) < len(whole.events)
    assert kind_of(problem) in map(kind_of, played(small))
    assert played(small) == played(small), "the same each time"
