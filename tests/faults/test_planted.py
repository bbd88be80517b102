"""A simulator that finds nothing may be blind. Each fault here was planted, and must be found within a few seeds."""

from collections.abc import Callable
from typing import Any

import pytest

from schedulearn.control import apply, reconcile
from schedulearn.domain.ports import Launch
from schedulearn.service.gateway import Gateway
from schedulearn.service.scheduler import Scheduler
from schedulearn.store import jobs as stored_jobs
from support.faults.schedule import made
from support.faults.shrink import played
from support.faults.world import Machines

Plant = Callable[[pytest.MonkeyPatch], None]


def _place_is_given_before_it_is_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "free_now", lambda *_: True)


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


def _an_end_that_was_told_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """An executor that starts what it said could not be: the old news is applied while the worker runs."""
    launch_once = Machines.launch

    def launch(self: Machines, launch: Launch) -> None:
        known = self.find(launch.worker)
        if known and known.started_at is None:
            del self._workers[launch.worker]
            self.jobs_do[launch.spec.name] = {**self.jobs_do[launch.spec.name], "problems": 0}
        launch_once(self, launch)

    patch.setattr(Machines, "launch", launch)


def _a_retried_submission_is_a_new_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored_jobs, "find_submission", lambda *_: None)
    patch.setattr(Gateway, "submitted", lambda *_: None)


def _what_had_ended_is_run_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "_was_over", lambda *_: False)


# What is planted, what is found of it (without numbers), and within which seeds.
PLANTED: dict[str, tuple[Plant, str, range]] = {
    "place": (_place_is_given_before_it_is_left, "was given", range(0, 20)),
    "record": (_acts_before_it_records, "", range(0, 10)),
    "recovery": (_recovery_forgets_who_has_to_end, "is stuck", range(0, 20)),
    "news": (_news_is_lost, "is stuck", range(0, 10)),
    "told": (_an_end_that_was_told_is_forgotten, "", range(0, 40)),
    "submission": (_a_retried_submission_is_a_new_one, "jobs were made of", range(0, 10)),
    "over": (_what_had_ended_is_run_again, "was started again", range(0, 60)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plant, words, seeds = PLANTED[name]
    plant(monkeypatch)
    assert any(words in problem for seed in seeds for problem in played(made(seed)))
