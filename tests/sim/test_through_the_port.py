"""The simulator moves whole attempts; through the executor port the same control loop decides the same.

Here the control loop's commands go to simulated workers, one call for each, and what becomes of them comes back as
events: the end of a worker follows from its own run time, not from what the simulator found.
"""

import math
import random
from collections import Counter

import pytest

from schedulearn.core.control.apply import apply
from schedulearn.core.control.cycle import apply_all, next_wake, plan, to_each_worker
from schedulearn.core.control.state import State
from schedulearn.core.domain import commands as do
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.group import Group
from schedulearn.core.domain.ids import AttemptId, JobId, NodeName, WorkerId
from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.stages import Policy
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import NotSimulated, SimOptions, Simulation
from schedulearn.lab.sim.facts import OracleFacts
from schedulearn.lab.sim.model import JobModel, SpecMaker, make_job
from schedulearn.lab.traces.types import TraceJob, Workload
from support.facts import AssumedFacts
from support.simulated_executor import SimulatedExecutor, World
from support.simulated_worker import Behaviour

CLUSTER = "2x4"
PRESETS = ["fifo", "round-robin", "tiresias", "gandiva", "elastic-fifo", "elastic-tiresias", "ffdl"]
Stay = tuple[float, float, int, int]  # (from, to, job, workers)


def workload(seed: int) -> Workload:
    rng = random.Random(seed)
    jobs = [
        TraceJob(str(i), float(rng.randint(0, 300)), float(rng.randint(5, 4000)), gpus, workers=(1, 2 * gpus))
        for i, gpus in enumerate(rng.choices([1, 2, 3, 4], k=25))
    ]
    return Workload("random", sorted(jobs, key=lambda job: job.arrival))


class NothingKnown(AssumedFacts, OracleFacts):
    """Of simulated jobs."""


class ThroughThePort:
    """The control loop in virtual time, in front of an executor."""

    def __init__(self, work: Workload, policy: Policy) -> None:
        self.policy, self.traces = policy, list(work.jobs)
        self.nodes = parse_cluster(CLUSTER)
        self.state = State(policy.order, AssumedFacts(), self.nodes, history=False)
        self.specs = SpecMaker(elastic=policy.allocate.elastic)
        self.left: dict[JobId, float] = {}  # work, as it was saved last
        self.world = World(self._behave)
        self.events: list[ev.Event] = []
        self.executor = SimulatedExecutor(self.world, self.events.append, self.nodes)
        self.running: dict[JobId, tuple[float, float, int]] = {}  # (since, speed, workers)
        self.stays: list[Stay] = []
        self.ends: dict[int, float] = {}

    def run(self) -> None:
        while (now := self._next_time()) < math.inf:
            self.world.advance_to(now)
            self._arrive(now)
            self._settle(now)

    def _next_time(self) -> float:
        wake = next_wake(self.state)
        arrival = self.traces[0].arrival if self.traces else math.inf
        if math.isinf(arrival) and not self.state.queue and not self.state.attempts:
            return math.inf
        return max(self.world.now(), min(self.world.next_end(), arrival, math.inf if wake is None else wake))

    def _arrive(self, now: float) -> None:
        while self.traces and self.traces[0].arrival <= now:
            trace = self.traces.pop(0)
            job = make_job(len(self.left) + 1, trace, self.specs.spec(trace))
            self.left[job.id] = trace.duration
            self.events.append(ev.Submitted(now, job))

    def _settle(self, now: float) -> None:
        """One decision, and what it brings about at once, until nothing is left to do at this moment."""
        while True:
            told, self.events[:] = list(self.events), []
            for event in told:
                if isinstance(event, ev.WorkerExited):
                    self._left_place(event)
            apply_all(self.state, told, now)
            plan(self.state, self.policy, now)
            commands = list(to_each_worker(self.state, self.state.take_changes().commands))
            for command in commands:
                self._carry_out(command, now)
            self.world.advance_to(now)
            if not commands and not self.events:
                return

    def _carry_out(self, command: do.Command, now: float) -> None:
        if isinstance(command, do.StartAttempt):
            self._start(command.attempt, now)
        elif isinstance(command, do.StopWorker):
            self.executor.stop(command.worker, command.node, command.grace)
        elif isinstance(command, do.PauseWorker):
            self.executor.pause(command.worker, command.node)
            self._stands_still(command.worker.job, now)
        elif isinstance(command, do.ResumeWorker):
            self.executor.resume(command.worker, command.node)
            self._runs(command.worker.job, now)
        else:
            raise AssertionError(f"nothing here asks for {command}")

    def _start(self, attempt: AttemptId, now: float) -> None:
        for worker in self.state.attempts[attempt.job].workers:
            self.executor.start(Launch(worker.id, worker.node, self.state.jobs[attempt.job].spec))
        self._runs(attempt.job, now)

    def _behave(self, launch: Launch) -> Behaviour:
        number = launch.worker.job
        return Behaviour(runs=self.left[number] / self._speed(number), term_code=0)

    def _speed(self, number: JobId) -> float:
        job, want = self.state.jobs[number], self._want(number)
        speedup = JobModel(job, self._trace(number)).speedup
        return 1.0 if job.workers == want else speedup(job.workers) / speedup(want)

    def _trace(self, number: JobId) -> TraceJob:
        want = self._want(number)
        return TraceJob(str(number), 0.0, self.left[number], want, workers=(1, 2 * want))

    def _want(self, number: JobId) -> int:
        return self.state.jobs[number].shape.workers.want

    # --- what became of it

    def _runs(self, number: JobId, now: float) -> None:
        self.running.setdefault(number, (now, self._speed(number), self.state.jobs[number].workers))

    def _stands_still(self, number: JobId, now: float) -> None:
        if number in self.running:
            since, speed, workers = self.running.pop(number)
            self.stays.append((since, now, number, workers))
            self.left[number] = max(0.0, self.left[number] - speed * (now - since))

    def _left_place(self, event: ev.WorkerExited) -> None:
        number = event.worker.job
        self._stands_still(number, event.at)
        if self.state.jobs[number].state is not JobState.STOPPING:
            self.ends[number] = event.at


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_stays_and_ends(preset: str, seed: int) -> None:
    work = workload(seed)
    through = ThroughThePort(work, build_policy(preset))
    through.run()
    options = SimOptions(timeline=True)
    result = Simulation(work, parse_cluster(CLUSTER), build_policy(preset), options, NothingKnown()).run()
    assert through.ends == {job.serial: job.ended for job in result.jobs}
    stays: Counter[tuple[float, float, int]] = Counter()
    for segment in result.segments:
        stays[segment.start, segment.end, segment.serial] += segment.workers
    assert sorted(stay for stay in through.stays if stay[1] > stay[0]) == sorted((*k, n) for k, n in stays.items())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (do.StartWorkers(AttemptId(JobId(1), 1), (1,)), "a worker that joins a running attempt cannot be simulated"),
        (do.ForgetJob(JobId(1)), "the deletion of a job"),
        (do.AddNode(NodeName("m")), "a node that is added"),
        (do.ForgetNode(NodeName("m")), "a node that is removed"),
        (do.Regroup(WorkerId(JobId(1), 1, 0), NodeName("m"), Group(2, (0,))), "the workers that train together"),
    ],
)
def test_what_the_simulator_has_no_model_of_is_refused_in_words(asked: do.Command, words: str) -> None:
    simulation = Simulation(workload(1), parse_cluster(CLUSTER), build_policy("fifo"))
    simulation.state.command(asked)
    with pytest.raises(NotSimulated, match=words):
        simulation.run()


def test_a_job_that_its_user_pauses_is_refused_in_words() -> None:
    simulation = Simulation(Workload("one", [TraceJob("1", 0.0, 100.0, 1)]), parse_cluster(CLUSTER), build_policy())
    simulation.step(0.0)
    apply(simulation.state, ev.PauseAsked(1.0, JobId(1), "ann"))
    with pytest.raises(NotSimulated, match="the pause of a job by its user"):
        simulation.step(1.0)
