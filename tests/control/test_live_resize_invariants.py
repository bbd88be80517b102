"""What must hold where workers come and go, whatever happens: long random walks, each from its seed.

Now and then the service dies, and goes on with what the store has kept.
"""

import random
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from schedulearn.core.control.growth import placement_of
from schedulearn.core.control.restore import restore
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import StartAttempt, StartWorkers
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.spec import Launcher, Preemptible
from schedulearn.core.domain.states import JobState
from support.builders import OK, World, job, leases_of, node
from support.walks import check, do

PRESETS_USED = ["elastic-fifo", "elastic-srjf", "elastic-tiresias", "ffdl", "afs-l", "fifo", "tiresias"]
KINDS = ["all start"] * 12 + ["submit"] * 8 + ["update"] * 6 + ["one fails", "leave", "wait"] * 3
KINDS += ["one ends", "exit", "cancel", "pause", "resume", "resume", "drain", "back", "back", "move", "start", "still"]
KINDS += ["node", "lose", "die", "die"]


class Walk:
    """One random walk over what may happen to hot jobs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        stages = {"order": "time-slice"} if seed % 5 == 0 else {}
        nodes = [node(f"n{i}", cpus=4, gpus=3, memory=16e9) for i in range(2)]
        self.world = World(*nodes, policy=self.random.choice(PRESETS_USED), stages=stages)
        self.numbers: list[int] = []
        self.started: set[WorkerId] = set()  # each worker once
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        kind, w = self.random.choice(KINDS), self.world
        w.commands = []
        if kind == "submit":
            self.submit()
        elif kind == "die":
            self.die()
        elif kind == "all start":
            for number in w.running():
                w.started(number)
            w.cycle()
        else:
            do(w, ("drain", 0) if kind == "back" else (kind, self.random.randint(0, 60)), self.numbers)
        self.note()
        check(w)

    def submit(self) -> None:
        number = len(self.numbers) + 1
        self.numbers.append(number)
        pick = self.random.choice
        low = pick([1, 1, 1, 2])
        asked: dict[str, Any] = {"gpus": pick([0, 1, 1]), "workers": (low, low, low + pick([0, 1, 3]))}
        launcher = pick([Launcher.ELASTIC, Launcher.ELASTIC, Launcher.HOROVOD, Launcher.COMMAND])
        may = pick([Preemptible.YES, Preemptible.YES, Preemptible.NO])
        self.world.submit(job(number, **asked, launcher=launcher, preemptible=may, memory=10**9, at=self.world.now))

    def note(self) -> None:
        """What is started is started once, and only where it holds a lease."""
        state = self.world.state
        self.seen.update(
            growing=bool(state.growing),
            shrinking=bool(state.shrinking),
            pinned=any(one.suspended_at for one in state.jobs.values()),
        )
        for command in self.world.commands:
            if isinstance(command, StartAttempt | StartWorkers):
                attempt = state.attempts[command.attempt.job]
                ranks = command.ranks if isinstance(command, StartWorkers) else range(len(attempt.workers))
                fresh = {WorkerId(attempt.id.job, attempt.id.number, rank) for rank in ranks}
                assert not fresh & self.started, "a worker was started twice"
                assert fresh <= set(leases_of(state)), "a worker was started without a lease"
                self.started |= fresh

    def die(self) -> None:
        """All that is left is what the store keeps. Nobody who runs may notice."""
        w, before = self.world, self.world.state
        kept: list[Any] = [list(before.jobs.values()), list(before.attempts.values()), list(leases_of(before).values())]
        jobs, attempts, leases = deepcopy(kept)
        nodes, memory = [n.node for n in before.ledger], deepcopy(before.memory)
        after = restore(w.policy.order, before.facts, jobs, attempts, leases, nodes, memory, w.now)
        w.commands = []
        for number, attempt in before.attempts.items():
            one, other = before.jobs[number], after.jobs[number]
            if one.state is JobState.STOPPING or (one.state is JobState.PAUSED and one.suspended_at):
                continue  # what it is promised is for later; or nobody knows yet that it stands still
            assert Counter(other.suspended_at) == Counter(one.suspended_at)
            if not one.suspended_at:
                assert Counter(other.placements) == Counter(map(placement_of, attempt.crew)), (
                    "only what was promised is lost"
                )
                held = number in before.adjustable[one.shape.pool]
                assert held == (number in after.adjustable[one.shape.pool])
        assert after.shrinking == before.shrinking
        assert after.next_timer() is not None or not after.shrinking, "nobody sees to it that they leave"
        w.state = after
        w.cycle()


@pytest.mark.parametrize("seed", range(100))
def test_nothing_is_leased_twice_and_every_job_ends(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(80):
        walk.step()
    w = walk.world
    w.settle()  # a node that is being removed goes when it is empty
    w.cycle(*(ev.NodeSeen(w.now, node(name, cpus=4, gpus=3)) for name in ("n0", "n1")))
    w.cycle(*(ev.DrainAsked(w.now, NodeName(name), "ann", False) for name in ("n0", "n1")))
    w.cycle(*(ev.ResumeAsked(w.now, number, "ann") for number in list(w.state.jobs)))
    for _ in range(6 * len(walk.numbers)):
        w.settle()
        for number in w.running():
            w.started(number)
        w.now += 100.0
        w.cycle()
        w.settle()
        check(w)
        running = [n for n in w.running() if w.state.attempts[JobId(n)].all_started]
        if running:
            w.exited(walk.random.choice(running), OK)
    assert not w.state.jobs, "somebody waits for ever"
    assert not leases_of(w.state)
    assert all(n.free == n.node.usable for n in w.state.ledger)


def test_the_walks_are_about_workers_that_come_and_go() -> None:
    walks = [Walk(seed) for seed in range(40)]
    for walk in walks:
        for _ in range(80):
            walk.step()
    seen = sum((walk.seen for walk in walks), Counter[str]())
    assert seen["shrinking"] > 100
    assert seen["growing"] > 10
    assert seen["pinned"] > 20
