"""What must hold where jobs are suspended, whatever happens: long random walks, each from its seed."""

import random

import pytest

from schedulearn.core.domain import events as ev
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.policies.catalogue.presets import PRESETS, build_policy
from support.builders import OK, World, job, node
from support.walks import check, do

SLICED = {"order": "time-slice"}
PRESETS_USED = ["gandiva", "gandiva", "gandiva", "elastic-fifo", "elastic-tiresias", "afs-l", "ffdl", "fifo"]
KINDS = ["turn"] * 10 + ["submit"] * 5 + ["switch", "pause", "resume", "resume", "drain", "back"]
KINDS += ["still", "start", "exit", "fail", "lose", "cancel", "delete", "wait"]


class Walk:
    """One random walk over what may happen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.preset = self.random.choice(PRESETS_USED)
        nodes = [node(f"n{i}", cpus=4, gpus=2, memory=8e9) for i in range(2)]
        self.world = World(*nodes, policy=self.preset, stages=SLICED)
        self.numbers: list[int] = []
        self.seen_suspended = 0

    def step(self) -> None:
        kind, w = self.random.choice(KINDS), self.world
        if kind == "submit":
            self.submit()
        elif kind == "switch":
            preset = self.random.choice([*PRESETS, *[self.preset] * len(PRESETS)])
            self.switch(preset, SLICED if preset == self.preset else {})
        elif kind == "turn":
            self.turn()
        else:
            do(w, ("drain", 0) if kind == "back" else (kind, self.random.randint(0, 60)), self.numbers)
        self.seen_suspended += bool(w.suspended() and w.running())
        check(w)

    def submit(self) -> None:
        number = len(self.numbers) + 1
        self.numbers.append(number)
        pick = self.random.choice
        asked = {"gpus": pick([0, 1, 1, 2]), "workers": pick([1, 1, 2]), "memory": pick([1, 2]) * 10**9}
        self.world.submit(job(number, **asked, preemptible=pick(list(Preemptible)), at=self.world.now))

    def switch(self, preset: str, stages: dict[str, str]) -> None:
        self.world.policy = build_policy(preset, stages)
        self.world.state.set_order(self.world.policy.order, self.world.now)
        self.world.cycle()

    def turn(self) -> None:
        """Everybody runs, a turn goes by, and those stand still who were told to; some of them only later."""
        w = self.world
        for number in w.running():
            w.started(number)
        w.now += 60
        w.cycle()
        for number in sorted(w.state.leaving):
            if number in w.state.attempts and w.job(number).suspended_at and self.random.random() < 0.7:
                w.paused(number)


@pytest.mark.parametrize("seed", range(150))
def test_nothing_is_leased_twice_and_every_job_ends(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(60):
        walk.step()
    w = walk.world
    w.cycle(*(ev.DrainAsked(w.now, NodeName(name), "ann", False) for name in ("n0", "n1")))
    w.cycle(*(ev.ResumeAsked(w.now, number, "ann") for number in list(w.state.jobs)))
    for _ in range(4 * len(walk.numbers)):
        w.settle()
        walk.turn()
        w.settle()
        check(w)
        running = [number for number in w.running() if w.state.attempts[JobId(number)].all_started]
        if running:
            w.exited(walk.random.choice(running), OK)
    assert not w.state.jobs, "somebody waits for ever"
    assert all(n.free == n.node.usable for n in w.state.ledger)


def test_the_walks_are_about_suspended_jobs() -> None:
    walks = [Walk(seed) for seed in range(20)]
    for walk in walks:
        for _ in range(60):
            walk.step()
    assert sum(walk.seen_suspended for walk in walks) > 100
