"""The simulator: an event heap that drives the control loop of the live service in virtual time."""

import gc
import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from schedulearn.core.control.apply import apply
from schedulearn.core.control.cycle import plan
from schedulearn.core.control.state import State
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.commands import (
    AddNode,
    Command,
    ForgetJob,
    ForgetNode,
    PauseAttempt,
    Regroup,
    ResumeAttempt,
    SetLimits,
    StartAttempt,
    StartWorkers,
    StopAttempt,
    StopWorker,
)
from schedulearn.core.domain.errors import BadPlan, SchedulearnError
from schedulearn.core.domain.ids import AttemptId, JobId
from schedulearn.core.domain.job import Attempt, Job
from schedulearn.core.domain.node import Node
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.resources import CPUS, GPUS
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState, StopReason
from schedulearn.core.domain.target import reached
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.stages import Policy
from schedulearn.lab.sim.facts import OracleFacts, SimulatedFacts
from schedulearn.lab.sim.locality import Locality
from schedulearn.lab.sim.machines import Machines, matter
from schedulearn.lab.sim.metrics import Recorder, Result
from schedulearn.lab.sim.model import JobModel, SpecMaker, make_job
from schedulearn.lab.sim.packing import Packing
from schedulearn.lab.sim.watched import Watched
from schedulearn.lab.traces.types import TraceJob, Workload

_DONE = Outcome(Ending.EXITED, exit_code=0)
_STOPPED = Outcome(Ending.SIGNALLED, signal=15)
_LOST = Outcome(Ending.LOST)
_NEVER = math.inf
_MOST_ROUNDS = 1000  # of stops and starts at one instant
_TELL_EVERY = 500  # completed jobs between two words on the progress


@dataclass(frozen=True, slots=True)
class SimOptions:
    """What a simulation assumes of the world."""

    restart_cost: float = 0.0  # seconds in which a restarted job makes no progress
    first_start: float = 0.0  # the same when it starts for the first time
    rounds: float = 0.0  # decisions are made only every so many seconds; 0: whenever something has happened
    checkpoint_every: float = 0.0  # seconds of work between two checkpoints; 0: it saves when it is told to stop
    locality_penalty: float = (
        0.0  # part of its speed that a job loses on several nodes, whichever, unless that was measured
    )
    fixed: bool = False  # every job keeps the size that its user asked for
    uninterrupted: bool = False  # no job may be stopped, moved or resized once it runs
    gpu_use: float = 1.0  # the part of its GPUs that a job keeps busy, where the trace does not know
    node_mtbf: float = 0.0  # mean seconds between two failures of a node; 0: none
    node_repair: float = 3600.0  # seconds until it is back
    seed: int = 0
    timeline: bool = False  # keep who ran where and when


class NotSimulated(SchedulearnError):
    """The control loop wants something of the world that the simulator has no model of."""


_UNKNOWN: Mapping[type[Command], str] = {
    StartWorkers: "a worker that joins a running attempt",
    StopWorker: "a worker that is stopped alone",
    Regroup: "a change of the workers that train together",
    ForgetJob: "the deletion of a job",
    AddNode: "a node that is added",
    ForgetNode: "a node that is removed",
}

_Due = tuple[float, JobId, int]  # (time, job, version of its model)


@dataclass(slots=True)
class _Agenda:
    """What is to come, besides the control loop's own timers."""

    arrivals: Sequence[tuple[float, int]]  # (time, serial), in order
    next_arrival: int = 0
    ends: list[_Due] = field(default_factory=list)
    targets: list[_Due] = field(default_factory=list)  # reached then
    phases: list[_Due] = field(default_factory=list)  # of training, that end then
    nodes: list[tuple[float, int, bool]] = field(default_factory=list)  # (time, node, is it back?)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing in a simulation refers to itself in a circle, and the search for such things took a tenth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Simulation:
    """One run of one workload under one policy. The same seed gives the same run."""

    def __init__(
        self,
        workload: Workload,
        nodes: Sequence[Node],
        policy: Policy,
        options: SimOptions | None = None,
        facts: SimulatedFacts | None = None,  # None: policies know all
    ) -> None:
        self.options = options or SimOptions()
        self.workload, self.nodes = workload, list(nodes)
        self.models: dict[JobId, JobModel] = {}
        self.facts = facts or OracleFacts()
        self.facts.begin(self.models)
        self.state = State(policy.order, self.facts, nodes, history=False)
        self.recorder = Recorder(workload, nodes, self.options.timeline)
        watched = Watched(policy.migrate, self.recorder) if policy.migrate else None
        self.policy = replace(policy, migrate=watched)
        self.state.counts_cores = policy.counts_cores
        self._machines: Machines | None = None  # None: jobs on one node do not slow each other down
        if matter(workload, nodes):
            self._machines = Machines(nodes, policy, self.facts, self.recorder)
        self._packing = Packing(self.models, self.options.gpu_use) if policy.order.packs else None
        self._locality = Locality(nodes, self.options.locality_penalty)
        largest = max((node.usable[CPUS] for node in nodes), default=0.0)
        self._specs = SpecMaker(
            elastic=policy.allocate.elastic and not self.options.fixed,
            counts_cores=policy.counts_cores,
            cores=largest,
            preemptible=Preemptible.NO if self.options.uninterrupted else Preemptible.YES,
        )
        self._now = 0.0
        self._random = random.Random(self.options.seed)
        self._slots = {pool: sum(node.usable[pool] for node in nodes) for pool in (GPUS, CPUS)}
        self._agenda = _Agenda(sorted((job.arrival, serial) for serial, job in enumerate(workload.jobs)))
        if self.options.node_mtbf > 0 and workload.jobs:
            for index in range(len(self.nodes)):
                self._plan_failure(index, self._agenda.arrivals[0][0])

    def run(self, progress: Callable[[int], None] | None = None) -> Result:
        """Until every job that can run has ended. `progress` is told how many have."""
        told = 0
        with _no_collection():
            while (now := self._next_time()) < _NEVER:
                self.step(now)
                if progress and self.recorder.completed - told >= _TELL_EVERY:
                    told = self.recorder.completed
                    progress(told)
        return self.recorder.result(self.policy, waiting=len(self.state.queue))

    def step(self, now: float) -> None:
        """All events of one instant, then one decision, and what it brings about at once."""
        self._now = now
        if self.facts.learn(now):
            self.state.stale = True
            self._adapt(now)
        agenda = self._agenda
        if agenda.ends and agenda.ends[0][0] <= now:
            self._ends(now)
        if agenda.phases and agenda.phases[0][0] <= now:
            self._phases(now)
        if agenda.targets and agenda.targets[0][0] <= now:
            self._targets(now)
        if agenda.nodes and agenda.nodes[0][0] <= now:
            self._node_events(now)
        self._arrivals(now)
        timer = self.state.next_timer()
        if timer is not None and timer <= now:
            apply(self.state, ev.Tick(now))
        if self._is_time_to_decide(now):
            self._decide(now)
        if self._packing:
            self._go_at(self._packing.settle(self.state, now), now)
        if self._machines:
            self._share(self._machines, now)
        self.recorder.note(now, len(self.state.queue), self._free())

    def _is_time_to_decide(self, now: float) -> bool:
        every = self.options.rounds
        return every <= 0 or now >= self._round_from(now)

    def _round_from(self, time: float) -> float:
        """The first at this time or later."""
        every = self.options.rounds
        return math.ceil(time / every - 1e-9) * every

    def _decide(self, now: float) -> None:
        if plan(self.state, self.policy, now) is not None:
            self.recorder.decided()
        # What we stop ends at once, which lets those start that were promised its place.
        for _ in range(_MOST_ROUNDS):
            if not self._carry_out(now):
                break
            plan(self.state, self.policy, now)
        else:
            raise BadPlan(
                f"policy {self.policy.preset} does not settle at {now:g} s: jobs take each other's place for ever"
            )

    # --- time

    def _next_time(self) -> float:
        agenda, state = self._agenda, self.state
        for heap in (agenda.ends, agenda.targets, agenda.phases):
            while heap and self._is_stale(heap[0]):
                heapq.heappop(heap)
        coming = _NEVER
        if agenda.next_arrival < len(agenda.arrivals):
            coming = agenda.arrivals[agenda.next_arrival][0]
        if agenda.ends and agenda.ends[0][0] < coming:
            coming = agenda.ends[0][0]
        if coming == _NEVER and not state.queue:
            return _NEVER  # all is done; machines may go on failing without us
        shared = self._machines.next_wake() if self._machines else None
        packed = self._packing.wake_at if self._packing else None
        failure = agenda.nodes[0][0] if agenda.nodes else None
        target = agenda.targets[0][0] if agenda.targets else None
        phase = agenda.phases[0][0] if agenda.phases else None
        news, wake = self.facts.next_news(), self._next_decision()
        for time in (failure, target, phase, news, state.next_timer(), wake, shared, packed):
            if time is not None and time < coming:
                coming = time
        return coming

    def _next_decision(self) -> float | None:
        """When the policy wants to be asked, or is to be asked about what has happened since the last round."""
        state = self.state
        if state.wake_at is None and state.migrate_at is None and not self.options.rounds:
            return None
        wakes = [at for at in (state.wake_at, state.migrate_at) if at is not None]
        if not self.options.rounds:
            return min(wakes)
        if state.stale:
            wakes.append(self._now)
        return self._round_from(min(wakes)) if wakes else None

    def _is_stale(self, due: _Due) -> bool:
        model = self.models.get(due[1])
        return model is None or model.version != due[2]

    # --- what happens

    def _arrivals(self, now: float) -> None:
        agenda, jobs = self._agenda, self.workload.jobs
        while agenda.next_arrival < len(agenda.arrivals) and agenda.arrivals[agenda.next_arrival][0] <= now:
            serial = agenda.arrivals[agenda.next_arrival][1]
            agenda.next_arrival += 1
            self._submit(serial + 1, jobs[serial], now)

    def _submit(self, number: int, trace: TraceJob, now: float) -> None:
        job = make_job(number, trace, self._specs.spec(trace))
        if job.shape.workers.min * job.shape.slots > self._slots[job.shape.pool]:
            self.recorder.impossible(number)
            return
        self.models[job.id] = JobModel(job, trace, self.options.restart_cost, self._locality)
        apply(self.state, ev.Submitted(now, job))

    def _ends(self, now: float) -> None:
        for model in self._due(self._agenda.ends, now):
            self._end(model, now)

    def _due(self, heap: list[_Due], now: float) -> Iterator[JobModel]:
        """Those whose time has come, unless something has changed for them since."""
        while heap and heap[0][0] <= now:
            due = heapq.heappop(heap)
            if not self._is_stale(due):
                yield self.models[due[1]]

    def _end(self, model: JobModel, now: float) -> None:
        job, attempt = model.job, self.state.attempts[model.job.id]
        self._alone(job, now)
        self.recorder.stopped(job, attempt, now, self._leave(attempt, now))
        self._note_end(model, now)
        apply(self.state, ev.AttemptExited(now, attempt.id, _DONE))
        del self.models[job.id]

    def _note_end(self, model: JobModel, now: float) -> None:
        self.recorder.ended(model.job, model, now)
        self.facts.ended(model, now)
        if self._packing:
            self._packing.forget(model.job.id)

    def _plan_end(self, model: JobModel, end: float) -> None:
        """It goes on like this until then, unless something changes."""
        heapq.heappush(self._agenda.ends, (end, model.job.id, model.version))
        if (at := model.reaches_target_at()) < end:
            heapq.heappush(self._agenda.targets, (at, model.job.id, model.version))
        if (at := model.phase_ends_at()) < end:
            heapq.heappush(self._agenda.phases, (at, model.job.id, model.version))

    def _phases(self, now: float) -> None:
        """Trainings that get on to their next phase, in which gradients are more or less noisy."""
        for model in self._due(self._agenda.phases, now):
            model.enter(model.phase + 1)
            self._new_pace(model, now)

    def _adapt(self, now: float) -> None:
        """More is known: jobs that adapt their batch size may be told another one."""
        for model in self.models.values():
            if model.trace.adaptive and model.runs and model.is_other(self.facts.batch(model.job)):
                self._new_pace(model, now)

    def _new_pace(self, model: JobModel, now: float) -> None:
        rate = self._rate(model)
        self._plan_end(model, model.change_rate(now, rate))
        self.facts.runs(model, max(now, model.since), rate)

    def _targets(self, now: float) -> None:
        """Jobs whose training is good enough. Commands that stop them are carried out with the others."""
        for model in self._due(self._agenda.targets, now):
            self._reached(model, now)

    def _reached(self, model: JobModel, now: float) -> None:
        job, values = model.job, model.latest()
        target = job.spec.target
        value = reached(values, job.spec.metric.goal, target.value) if target else None
        if target is None or value is None:
            return
        apply(self.state, ev.TargetReached(now, job.id, target, value, tuple(values)))
        words = f"its target is reached: {value:g}, asked for {target.value:g}, then {target.then}"
        self.recorder.written(now, [Note("target_reached", words, job.id, data={"value": value, "then": target.then})])
        if self._machines:
            self._machines.look_again(job.id)

    # --- what the control loop wants

    def _carry_out(self, now: float) -> bool:
        """Do what it said; True if that may let others start."""
        some_left = False
        for command in self.state.take_commands():
            if isinstance(command, StartAttempt):
                if self._is_current(command.attempt):
                    self._start(self.state.jobs[command.attempt.job], now)
            elif isinstance(command, StopAttempt | PauseAttempt | ResumeAttempt):
                if self._is_current(command.attempt):
                    some_left |= self._change(command, self.state.jobs[command.attempt.job], now)
            elif isinstance(command, SetLimits):
                if self._machines and self._is_current(command.worker.of):
                    self._machines.grown(self.state.jobs[command.worker.job])
            else:
                raise NotSimulated(f"{_UNKNOWN[type(command)]} cannot be simulated; a live service does it")
        return some_left

    def _change(self, command: StopAttempt | PauseAttempt | ResumeAttempt, job: Job, now: float) -> bool:
        """True if the job leaves."""
        if job.state is JobState.PAUSED:
            raise NotSimulated("the pause of a job by its user cannot be simulated; a live service does it")
        if isinstance(command, StopAttempt):
            self._stop(job, now, _STOPPED)
        elif isinstance(command, ResumeAttempt):
            self._go_on(job, now)
        elif job.id in self.state.leaving:
            self._suspend(job, now)
        return not isinstance(command, ResumeAttempt)

    def _is_current(self, attempt: AttemptId) -> bool:
        """Whether it still runs: the first of several commands, or a machine's end, may have ended it."""
        present = self.state.attempts.get(attempt.job)
        return present is not None and present.id == attempt

    def _start(self, job: Job, now: float) -> None:
        if job.move is not None:
            job.migration_seconds += self.models[job.id].restart_cost
        apply(self.state, ev.AttemptStarted(now, job.attempt_id))
        model = self.models[job.id]
        cost = model.restart_cost if job.attempt > 1 else self.options.first_start
        begins, rate = now + cost, self._rate(model)
        self._alone(job, now)
        self._plan_end(model, model.run(begins, rate))
        self.facts.runs(model, begins, rate)
        if self._machines:
            self._machines.arrived(model, now)
        self.recorder.started(job, now)

    def _suspend(self, job: Job, now: float) -> None:
        self._alone(job, now)
        attempt = self.state.attempts[job.id]
        self.models[job.id].suspend(now)
        self.recorder.stopped(job, attempt, now, self._leave(attempt, now))
        apply(self.state, ev.AttemptPaused(now, attempt.id))

    def _go_on(self, job: Job, now: float) -> None:
        """Nothing is loaded again, so that this costs nothing."""
        self._alone(job, now)
        model, rate = self.models[job.id], self.models[job.id].rate
        self._plan_end(model, model.go_on(now, rate))
        self.facts.runs(model, now, rate)
        if self._machines:
            self._machines.arrived(model, now)
        self.recorder.started(job, now)

    def _rate(self, model: JobModel) -> float:
        """How fast it goes where it is; one that adapts its batch size is told the best that is known."""
        if model.trace.adaptive:
            model.train_with(self.facts.batch(model.job))
        return model.rate * self._packing.speed(model.job.id) if self._packing else model.rate

    # --- two jobs on one device

    def _alone(self, job: Job, now: float) -> None:
        """Something becomes of it: whoever shared its devices does so no more."""
        if self._packing:
            self._go_at(self._packing.part(job.id), now)

    def _go_at(self, speeds: Iterable[tuple[JobModel, float]], now: float) -> None:
        """At these parts of their speeds from now on; at none of it a job stands still."""
        for model, part in speeds:
            job, is_together = model.job, 0.0 < part < 1.0
            job.worked = job.worked.settle(now, part if is_together else job.ran.rate)
            if not part:
                model.suspend(now)
                continue
            change = model.go_on if is_together and job.suspended_at else model.change_rate
            self._plan_end(model, change(now, self._rate(model)))

    # --- machines that are shared

    def _share(self, machines: Machines, now: float) -> None:
        """New speeds where somebody has come or gone, or a share stage wanted to look."""
        for model, factor in machines.settle(now):
            self._plan_end(model, model.change_rate(now, model.rate * factor))

    def _leave(self, attempt: Attempt, now: float) -> float:
        """It runs no more; the core-seconds it has used."""
        if not self._machines:
            return 0.0
        return self._machines.left(attempt.id.job, (worker.node for worker in attempt.workers), now)

    def _free(self) -> float:
        """What is free of what `Result.slots` counts."""
        if self._machines and self.recorder.in_cores:
            return self._machines.cores - self._machines.busy
        return self.state.ledger.free_slots(GPUS)

    def _stop(self, job: Job, now: float, outcome: Outcome) -> None:
        attempt, model = self.state.attempts[job.id], self.models[job.id]
        self._alone(job, now)
        model.stop(now, self.options.checkpoint_every)
        self.recorder.stopped(job, attempt, now, self._leave(attempt, now))
        if is_end := job.stop is StopReason.TARGET:
            self._note_end(model, now)
        apply(self.state, ev.AttemptExited(now, attempt.id, outcome))
        if is_end:
            del self.models[job.id]

    # --- machines that fail

    def _plan_failure(self, index: int, now: float) -> None:
        at = now + self._random.expovariate(1 / self.options.node_mtbf)
        heapq.heappush(self._agenda.nodes, (at, index, False))

    def _node_events(self, now: float) -> None:
        while self._agenda.nodes and self._agenda.nodes[0][0] <= now:
            _, index, is_back = heapq.heappop(self._agenda.nodes)
            if is_back:
                apply(self.state, ev.NodeSeen(now, self.nodes[index]))
                self._plan_failure(index, now)
            else:
                self._fail(index, now)

    def _fail(self, index: int, now: float) -> None:
        name = self.nodes[index].name
        apply(self.state, ev.NodeLost(now, name, "the machine failed"))
        self.recorder.node_failed()
        heapq.heappush(self._agenda.nodes, (now + self.options.node_repair, index, True))
        attempts = list(self.state.attempts.values())
        for number in [a.id.job for a in attempts if any(worker.node == name for worker in a.workers)]:
            self._stop(self.state.jobs[number], now, _LOST)
