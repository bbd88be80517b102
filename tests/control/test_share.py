"""The share loop of one machine: what it asks, and what it refuses."""

import math
from typing import Any

import pytest

from schedulearn.core.control.share import ShareLoop
from schedulearn.core.domain.errors import BadPlan
from schedulearn.core.domain.ids import JobId
from schedulearn.core.policies.sharing import Shares
from support.machine import Machine


class Says:
    """Answers as it was told, and remembers that it was asked."""

    def __init__(self) -> None:
        self.answer = Shares()

    def share(self, node: Any, memory: Any) -> Shares:
        memory["asked"] = [*memory.get("asked", []), node.now]
        return self.answer


@pytest.fixture
def stage() -> Says:
    return Says()


@pytest.fixture
def machine(stage: Says) -> Machine:
    machine = Machine(stage, cores=4.0)
    machine.arrive(1, least=0.5)
    return machine


def test_limits_are_answered_and_the_next_look_is_known(stage: Says, machine: Machine) -> None:
    loop = ShareLoop(stage, "says")
    stage.answer = Shares({JobId(1): 1.5}, wake_at=7.0)
    assert loop.look(machine) is stage.answer
    assert (loop.is_due(6.9), loop.is_due(7.0), loop.memory) == (False, True, {"asked": [0.0]})
    stage.answer = Shares({JobId(1): math.inf})
    assert loop.look(machine).limits == {1: math.inf}
    assert not loop.is_due(1e9)


def test_without_a_stage_the_limits_in_force_are_lifted(stage: Says, machine: Machine) -> None:
    loop = ShareLoop(None, "fair")
    assert loop.look(machine).limits == {}
    machine.arrive(2)
    stage.answer = Shares({JobId(2): 1.0})
    machine.look()
    assert loop.look(machine).limits == {2: math.inf}
    assert (loop.limits_jobs, ShareLoop(stage, "says").limits_jobs) == (False, True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Shares({JobId(1): 2.0, JobId(2): 1.0}), "job 2, which is not there"),
        (Shares({JobId(1): 0.4}), "job 1 with 0.4 cores; its lease guarantees 0.5"),
        (Shares({JobId(1): math.nan}), "job 1 with nan cores"),
        (Shares({JobId(1): 2.0}, wake_at=0.0), "without any time passing"),
    ],
)
def test_what_may_not_be_is_refused_whole(stage: Says, machine: Machine, answer: Shares, words: str) -> None:
    loop = ShareLoop(stage, "says")
    stage.answer = answer
    with pytest.raises(BadPlan, match=words):
        loop.look(machine)
    assert (loop.memory, loop.wake_at) == ({}, None)
