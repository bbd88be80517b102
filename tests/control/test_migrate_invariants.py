"""What must hold of moves, whatever happens: asked for by people and made by `consolidate` at the same time."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control.cycle import apply_all
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import StopWorker
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.core.policies.catalogue.presets import PRESETS
from support.builders import KILLED, LOST, OK, World, job, leases_of, node
from support.facts import AssumedFacts

EVERY = 100.0  # seconds between two looks of consolidate
_nodes = st.lists(st.integers(1, 4), min_size=2, max_size=4)  # GPUs of each
_submit = st.tuples(st.just("submit"), st.tuples(st.integers(1, 4), st.sampled_from(list(Preemptible))))
_rest = st.tuples(
    st.sampled_from(["stop", "end", "lose", "wait", "checkpoint", "move", "drain", "undrain"]), st.integers(0, 30)
)
_steps = st.lists(st.one_of(_submit, _rest), max_size=50)


class Costly(AssumedFacts):
    """Long jobs that lose much by being apart."""

    def remaining(self, job: Job, now: float) -> float:
        return 1000.0

    def restart_cost(self, job: Job) -> float:
        return 20.0

    def locality_penalty(self, job: Job) -> float:
        return 0.3


class Watch:
    """A world in which every cycle is looked at."""

    def __init__(self, gpus: list[int], preset: str) -> None:
        nodes = [node(f"n{i}", gpus=count, cpus=16) for i, count in enumerate(gpus)]
        stages, params = {"migrate": "consolidate"}, {"consolidate_every": EVERY}
        self.w = World(*nodes, policy=preset, stages=stages, params=params, facts=Costly())
        self.moved_at: list[float] = []
        self.count = 0

    def cycle(self, *events: ev.Event) -> None:
        apply_all(self.w.state, events, self.w.now)
        before = {number: job.is_preemptible for number, job in self.w.state.jobs.items()}
        running = {number for number, job in self.w.state.jobs.items() if job.state is JobState.RUNNING}
        self.w.cycle()
        moved = {command.worker.job for command in self.w.commands if isinstance(command, StopWorker)}
        by_policy = [n for n in moved if self._reason(n).endswith(")") and self._stop(n) is StopReason.MIGRATE]
        assert all(before[number] and number in running for number in by_policy), "one that must not move was moved"
        if by_policy:
            assert not self.moved_at or self.w.now >= self.moved_at[-1] + EVERY, "too soon after the last time"
            self.moved_at.append(self.w.now)
        self.check()

    def _reason(self, number: JobId) -> str:
        return self.w.state.jobs[number].reason if number in self.w.state.jobs else ""

    def _stop(self, number: JobId) -> StopReason | None:
        return self.w.state.jobs[number].stop if number in self.w.state.jobs else None

    def check(self) -> None:
        state = self.w.state
        held = Counter(device for lease in leases_of(state).values() for device in lease.devices)
        assert not held or max(held.values()) == 1, "a device is leased twice"
        promised = Counter(
            device for job in state.jobs.values() for placement in job.placements for device in placement.devices
        )
        assert not promised or max(promised.values()) == 1, "a device is promised twice"
        for number, one in state.jobs.items():
            assert one.move is None or one.placements, "on the move, to nowhere"
            leased = {lease.worker.attempt for lease in leases_of(state).values() if lease.worker.job == number}
            assert len(leased) <= 1, "it runs in two places"
        for ledger in state.ledger:
            used = sum(job.shape.gpus for job in state.jobs.values() for s in job.placements if s.node == ledger.name)
            assert ledger.free["gpus"] == ledger.node.capacity["gpus"] - used

    def do(self, kind: str, what: Any) -> None:
        w = self.w
        if kind == "submit":
            self.count += 1
            workers, preemptible = what
            self.cycle(ev.Submitted(w.now, job(self.count, gpus=1, cpus=0, workers=workers, preemptible=preemptible)))
        elif kind == "wait":
            w.now += what * 10
            self.cycle()
        elif kind in ("drain", "undrain"):
            self.cycle(ev.DrainAsked(w.now, NodeName(f"n{what % 3}"), "ann", kind == "drain"))
        elif active := sorted(w.state.attempts):
            self.to(active[what % len(active)], kind, what)
        self.start()

    def to(self, number: JobId, kind: str, what: int) -> None:
        w = self.w
        if kind == "move":
            self.cycle(ev.MigrateAsked(w.now, number, NodeName(f"n{what % 4}"), "ann"))
        elif kind == "checkpoint":
            self.cycle(ev.CheckpointSeen(w.now, number))
        elif kind == "stop" and w.job(number).state is not JobState.STOPPING:
            return  # only who was told to stop does so
        else:
            outcome = {"stop": KILLED, "end": OK, "lose": LOST}[kind]
            self.cycle(*(ev.WorkerExited(w.now, worker.id, outcome) for worker in w.state.attempts[number].running))

    def start(self) -> None:
        """Whoever was started runs."""
        waiting = [a for n, a in self.w.state.attempts.items() if self.w.job(n).state is JobState.STARTING]
        self.cycle(*(ev.WorkerStarted(self.w.now, worker.id) for a in waiting for worker in a.workers))


@given(_nodes, _steps, st.sampled_from(sorted(PRESETS)))
@settings(max_examples=200, deadline=None)
def test_nothing_is_leased_twice_nobody_moves_who_must_not_nor_too_often(gpus: Any, steps: Any, preset: str) -> None:
    watch = Watch(gpus, preset)
    for kind, what in steps:
        watch.do(kind, what)


def test_the_watch_above_would_see_a_move() -> None:
    watch = Watch([2, 2], "fifo")
    for _ in range(3):
        watch.do("submit", (1, Preemptible.YES))
    watch.do("end", 0)
    watch.do("submit", (2, Preemptible.YES))
    assert watch.moved_at == [], "it was not running yet when the stage was asked"
    watch.w.now = EVERY
    watch.do("wait", 0)
    assert watch.moved_at == [EVERY]
    assert watch.w.job(4).state is JobState.STOPPING
