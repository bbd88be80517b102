"""The machines: workers of the executor fake in virtual time, servers that come and go, and what really happened.

What the world knows it knows by itself: it is what the service's own story is held against.
"""

import heapq
import itertools
import math
import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.ports import Clock, EventSink, Launch
from schedulearn.core.domain.resources import CPUS, MEMORY
from schedulearn.core.domain.usage import Limits
from schedulearn.executors.common.paths import WorkerPaths
from support.builders import node
from support.faults.effects import Effects
from support.faults.output import Output
from support.faults.schedule import NODES
from support.simulated_executor import SimulatedExecutor, World
from support.simulated_worker import Behaviour, End

BEGIN = 1_700_000_000.0
LOST_AFTER = 40.0  # seconds of silence after which a server's workers are given up
ORPHAN_AFTER = 6.0  # seconds after which what nobody asks for is removed
_PRINTS_EVERY = 1.7  # seconds
_GONE = Outcome(Ending.LOST, detail="its machine began anew")


@dataclass(slots=True)
class Machine:
    """A server as it really is."""

    node: Node
    unreachable_since: float | None = None
    short: bool = False  # of files, processes, memory or disk: nothing can be started
    silences: list[tuple[float, float]] = field(default_factory=list)

    def answers(self) -> bool:
        return self.unreachable_since is None


class Machines(World):
    """Virtual time with an agenda; remembers each start and end."""

    def __init__(self, seed: int, root: Path) -> None:
        super().__init__(self._behaviour, at=BEGIN)
        self._root = root  # of the data folder, in which the output of workers lies
        self.seed, self.off, self.slowness = seed, 0.0, 1.0  # `off`: the wall clock, from the true time
        self.machines = {name: Machine(node(name, cpus=c, gpus=g)) for name, (c, g) in NODES.items()}
        self.jobs_do: dict[str, dict[str, object]] = {}  # by name: what its workers do
        self.launches: dict[WorkerId, Launch] = {}
        self.begun: dict[WorkerId, float] = {}
        self.woken: set[WorkerId] = set()  # who stood still when it was told to end
        self.output: dict[WorkerId, Output] = {}  # of those that print
        self.done: dict[JobId, float] = defaultdict(float)  # seconds of work that were saved
        self.problems: list[str] = []
        self.clock_lost = False  # the service had to begin anew with the wall clock, whatever that said
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self._draws: dict[object, random.Random] = {}
        self.watchers.append(self._note_end)

    # --- time

    def wall(self) -> float:
        return self.now() + self.off

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now() + seconds, next(self._serial), what))

    def draw(self, *key: object) -> random.Random:
        """Chance that depends on nothing but the seed and the key, so that a smaller schedule meets the same."""
        if key not in self._draws:
            self._draws[key] = random.Random(f"{self.seed} {key}")
        return self._draws[key]

    def delay(self, *key: object) -> float:
        rng = self.draw(*key)
        return self.slowness * rng.choice((0.0, 0.01, rng.uniform(0.0, 0.3), rng.uniform(0.0, 1.5)))

    def due_at(self) -> float:
        ends = min((worker.due() for worker in self._workers.values()), default=math.inf)
        return max(self.now(), min(ends, self._agenda[0][0] if self._agenda else math.inf))

    def advance(self, seconds: float) -> None:
        until = self._now + seconds
        while (due := self.due_at()) <= until:
            self._now = due
            self._end_due()
            while self._agenda and self._agenda[0][0] <= self._now:
                heapq.heappop(self._agenda)[2]()
        self._now = until

    # --- what workers do

    def _behaviour(self, launch: Launch) -> Behaviour:
        does = self.jobs_do[launch.spec.name]
        if launch.worker.attempt <= int(str(does["problems"])):
            return Behaviour(problem="no such program")
        codes = does["codes"]
        assert isinstance(codes, tuple)
        failed = sum(1 for other in self.ended_attempts(launch.worker.job) if other.counts_as_failure)
        return Behaviour(
            runs=max(0.1, float(str(does["runs"])) - self.done[launch.worker.job]),
            exit_code=codes[min(failed, len(codes) - 1)],
            term_takes=float(str(does["term_takes"])) if float(str(does["term_takes"])) < 1e6 else math.inf,
            term_code=0 if does["saves"] else None,
            leaves_after=0.5,
        )

    def ended_attempts(self, job: JobId) -> list[Outcome]:
        """How the attempts that came before ended: the first bad end of each, or a good one."""
        outcomes: dict[int, Outcome] = {}
        for number, worker in self._workers.items():
            if number.job == job and worker.end:
                known = outcomes.get(number.attempt)
                if known is None or known.ok:
                    outcomes[number.attempt] = worker.end.outcome
        return list(outcomes.values())

    def launch(self, launch: Launch) -> None:
        if launch.worker in self._workers:
            return
        self._check_alone(launch)
        self.launches[launch.worker] = launch
        self.begun[launch.worker] = self.now()
        super().launch(launch)
        first = launch.worker.rank == 0  # the output of others is not searched while this one is there
        if self.jobs_do[launch.spec.name]["prints"] and first and self.running(launch.worker):
            self.output[launch.worker] = Output(WorkerPaths.of(self._root, launch.worker).log, launch.worker.attempt)
            self.later(_PRINTS_EVERY, partial(self._print, launch.worker))

    def forget(self, job: JobId) -> None:
        """It is the world's memory, too: only whether it is there matters."""
        self._checkpoints.discard(job)

    def all_running(self) -> list[WorkerId]:
        return sorted(worker for worker, found in self._workers.items() if found.runs)

    def kill(self, worker: WorkerId, outcome: Outcome) -> None:
        found = self._workers[worker]
        if found.runs:
            found.end = End(self.now(), outcome)
            for watcher in list(self.watchers):
                watcher(worker)

    def _print(self, worker: WorkerId) -> None:
        found = self.running(worker)
        if found:
            if not found._paused:
                self.output[worker].print()
            self.later(_PRINTS_EVERY, partial(self._print, worker))

    def _note_end(self, worker: WorkerId) -> None:
        found = self._workers[worker]
        if worker in self.output:
            self.output[worker].end()
        if found.end and found.end.saved:
            self.done[worker.job] += found.usage(found.end.at).cpu_seconds

    def _check_alone(self, launch: Launch) -> None:
        new = launch.worker
        for other in self.all_running():
            given_up = self.was_given_up(other)
            if other.job == new.job and other.attempt != new.attempt and not given_up:
                self.problems.append(f"worker {new} was started while {other} ran")
            shared = set(launch.devices) & set(self.launches[other].devices)
            if shared and not given_up and not self._stands_still(other):
                self.problems.append(f"worker {new} was given {sorted(shared)} while {other} had it")

        self._check_room(launch)

    def _stands_still(self, worker: WorkerId) -> bool:
        """Suspended for others; or it was, and has been woken to end: its place is theirs all the same."""
        return self._workers[worker]._paused or worker in self.woken

    def _check_room(self, launch: Launch) -> None:
        """Who stands still for others keeps its memory alone."""
        there = [w for w in self.all_running() if self.launches[w].node == launch.node and not self.was_given_up(w)]
        has = self.machines[launch.node].node.capacity
        memory = sum(one.spec.resources.memory or 0 for one in [launch, *(self.launches[w] for w in there)])
        computing = [self.launches[w] for w in there if not self._stands_still(w)]
        cores = sum(one.spec.resources.cpus_min for one in [launch, *computing])
        for what, taken in ((MEMORY, memory), (CPUS, cores)):
            if taken > has[what]:
                self.problems.append(f"with worker {launch.worker} {what} of node {launch.node} are given out twice")

    def was_given_up(self, worker: WorkerId) -> bool:
        """Whether its server was silent for so long that it may be started elsewhere."""
        machine, since = self.machines[self.launches[worker].node], self.begun[worker]
        silences = list(machine.silences)
        if machine.unreachable_since is not None:
            silences.append((machine.unreachable_since, self.now()))
        enough = 0.0 if self.clock_lost else 0.9 * LOST_AFTER  # the service's clock drifts by 5 %
        return any(end >= since and end - begin >= enough for begin, end in silences)

    # --- servers

    def cut(self, name: str) -> None:
        if self.machines[name].answers():
            self.machines[name].unreachable_since = self.now()

    def reboot(self, name: str) -> None:
        """All that runs there is gone, and it is silent for a while."""
        self.cut(name)
        for worker in self.all_running():
            if self.launches[worker].node == name:
                self.kill(worker, _GONE)

    def back(self, name: str) -> None:
        machine = self.machines[name]
        if machine.unreachable_since is not None:
            machine.silences.append((machine.unreachable_since, self.now()))
            machine.unreachable_since = None


class FaultyExecutor(SimulatedExecutor):
    """The executor of one life: each command and each answer takes its time, and none reaches a silent server.

    Commands to a worker keep their order, and so do its answers; between workers there is none.
    """

    def __init__(self, world: Machines, sink: EventSink, clock: Clock, effects: Effects) -> None:
        super().__init__(world, sink, [])
        self._machines, self._clock, self._effects = world, clock, effects
        self._lanes: dict[Any, deque[tuple[Callable[[], bool], Callable[[], None]]]] = defaultdict(deque)
        self._asked: set[WorkerId] = set()  # of whom the service has spoken
        self._unwanted: set[WorkerId] = set()  # whom it wants to end
        world.later(ORPHAN_AFTER, self._look_over)

    def nodes(self) -> list[Node]:
        return [self._seen(machine) for machine in self._machines.machines.values()]

    def _seen(self, machine: Machine) -> Node:
        if machine.unreachable_since is not None:
            lost_at = self._clock.now() - (self._machines.now() - machine.unreachable_since)
            return replace(machine.node, state=NodeState.LOST, lost_at=lost_at, problem="it does not answer")
        if machine.short:
            return replace(machine.node, state=NodeState.PAUSED, problem="it is short of something")
        return machine.node

    # --- commands

    def start(self, launch: Launch) -> None:
        self._give(launch.worker, launch.node, lambda: self._start(launch), starts=True)

    def _start(self, launch: Launch) -> None:
        if launch.worker in self._unwanted:  # as a real one does: whom somebody had stopped meanwhile is not started
            super().adopt(launch.worker, launch.node)
        else:
            super().start(launch)

    def adopt(self, worker: WorkerId, node: NodeName) -> None:
        self._give(worker, node, lambda: super(FaultyExecutor, self).adopt(worker, node))

    def stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:
        self._give(worker, node, lambda: self._stop(worker, node, grace))
        self._unwanted.add(worker)

    def _stop(self, worker: WorkerId, node: NodeName, grace: float) -> None:
        found = self._machines.running(worker)
        if found and found._paused:
            self._machines.woken.add(worker)
        super().stop(worker, node, grace)

    def pause(self, worker: WorkerId, node: NodeName) -> None:
        self._give(worker, node, lambda: super(FaultyExecutor, self).pause(worker, node))

    def resume(self, worker: WorkerId, node: NodeName) -> None:
        self._give(worker, node, lambda: super(FaultyExecutor, self).resume(worker, node))

    def regroup(self, worker: WorkerId, node: NodeName, group: Group) -> None:
        self._give(worker, node, lambda: super(FaultyExecutor, self).regroup(worker, node, group))

    def set_batch(self, worker: WorkerId, node: NodeName, batch: int) -> None:
        self._give(worker, node, lambda: super(FaultyExecutor, self).set_batch(worker, node, batch))

    def set_limits(self, worker: WorkerId, node: NodeName, limits: Limits, *, automatic: bool = False) -> None:
        self._give(
            worker, node, lambda: super(FaultyExecutor, self).set_limits(worker, node, limits, automatic=automatic)
        )

    def forget(self, job: JobId) -> None:
        self._effects.doing(self._machines.forget, job)

    def _give(self, worker: WorkerId, node: NodeName, command: Callable[[], None], *, starts: bool = False) -> None:
        """It takes effect later; a crash may come before or after it was given."""
        self._asked.add(worker)
        machine = self._machines.machines[node]
        possible = partial(_can_start, machine) if starts else machine.answers
        self._effects.doing(self._in_turn, ("command", worker), possible, command)

    def _in_turn(self, lane: tuple[str, WorkerId], possible: Callable[[], bool], what: Callable[[], None]) -> None:
        waiting = self._lanes[lane]
        waiting.append((possible, what))
        if len(waiting) == 1:
            self._machines.later(self._machines.delay(*lane), partial(self._work_off, lane))

    def _work_off(self, lane: tuple[str, WorkerId]) -> None:
        """The first one of a lane, as soon as it is possible; then the next."""
        if self._closed:
            return
        waiting = self._lanes[lane]
        possible, what = waiting[0]
        if not possible():
            self._machines.later(1.0, partial(self._work_off, lane))
            return
        waiting.popleft()
        if waiting:
            self._machines.later(self._machines.delay(*lane), partial(self._work_off, lane))
        what()

    # --- answers

    def _emit(self, event: Any) -> None:
        launch = self._machines.launches.get(event.worker)
        self._in_turn(
            ("answer", event.worker),
            self._machines.machines[launch.node].answers if launch else _always,
            partial(self._tell, event),
        )

    def _tell(self, event: Any) -> None:
        """With its time as the service's clock has it: machines count the seconds since."""
        ago = self._machines.now() - event.at
        self._hand_over(replace(event, at=self._clock.now() - ago))

    # --- what nobody needs

    def _look_over(self) -> None:
        """As the rounds of an engine: what was not asked for in this life is removed."""
        if self._closed:
            return
        for worker in self._machines.all_running():
            if worker not in self._asked and self._machines.machines[self._machines.launches[worker].node].answers():
                self._machines.kill(worker, Outcome(Ending.SIGNALLED, signal=9))
        self._machines.later(ORPHAN_AFTER, self._look_over)


def _can_start(machine: Machine) -> bool:
    return machine.answers() and not machine.short


def _always() -> bool:
    return True
