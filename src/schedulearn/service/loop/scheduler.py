"""The scheduler: one thread that owns all changes of state."""

import logging
import queue
import threading
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from schedulearn.core.control.cycle import apply_all, next_wake, plan, to_each_worker
from schedulearn.core.control.restore import restore
from schedulearn.core.control.state import REGROW_AFTER, Changes, State
from schedulearn.core.domain import commands as cmd
from schedulearn.core.domain import events as ev
from schedulearn.core.domain.errors import RoleTaken, SchedulearnError
from schedulearn.core.domain.ids import AttemptId
from schedulearn.core.domain.job import Attempt, Job, Worker
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.domain.ports import Clock, Executor
from schedulearn.core.domain.states import FINISHED, JobState
from schedulearn.core.domain.units import format_duration
from schedulearn.core.domain.usage import Limits
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.stages import Policy
from schedulearn.service.common.policy import policy_from, policy_or_plain
from schedulearn.service.common.repeating import log_fault
from schedulearn.service.common.roles import SchedulerLease
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.service.loop.launch import Launcher
from schedulearn.service.loop.requests import to_event
from schedulearn.service.loop.targets import Targets
from schedulearn.service.nodes.node_manager import NodeManager
from schedulearn.service.progress.progress import ProgressWatcher
from schedulearn.service.share.loops import ShareLoops
from schedulearn.store import Cycle, Request, Store

_LOG = logging.getLogger(__name__)
_POLL = 1.0  # seconds: how soon a request is found whose nudge was lost
_LOOK_AT_NODES = 10.0  # seconds between two looks at what the nodes have
_LOOK_AT_WORKERS = 60.0  # seconds between two looks at whether all that should run or end does
_AFTER_A_FAULT = 1.0  # seconds before a cycle that failed is tried again


@dataclass(slots=True)
class _Policies:
    """The policy in force, and the one to go back to when it fails."""

    now: Policy
    good: Policy  # the last that started a job; before there is one, the plainest
    fault: str = ""  # what was last said of a failure: it is said once, not in every cycle


class Scheduler:
    """Observe, apply, decide, reconcile, record, act: again and again."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        clock: Clock,
        lease: SchedulerLease,
        launcher: Launcher,
        progress: ProgressWatcher,
        node_manager: NodeManager | None = None,
        lost_after: float = 300.0,
        regrow_after: float = REGROW_AFTER,
        look_every: float = _LOOK_AT_WORKERS,
    ) -> None:
        """Without a node manager the nodes are those of the executor; `lost_after` seconds of silence give workers up.

        A job that lost a worker and went on may grow again after `regrow_after` seconds, doubled with each loss.
        Every `look_every` seconds it is asked what has become of all workers.
        """
        self._store, self._executor, self._clock = store, executor, clock
        self._lease, self._launcher, self._progress = lease, launcher, progress
        self._node_manager, self._lost_after, self._regrow_after = node_manager, lost_after, regrow_after
        self._look_every = look_every
        self._inbox: queue.SimpleQueue[ev.Event] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._remembered: dict[str, Any] = {}  # the policy's memory as the store has it
        self._facts, self._targets = LiveFacts(store, keeps=True), Targets(store)
        self._share_loops = ShareLoops(store, executor, clock, self.post)
        self._nodes_seen_at = self._workers_seen_at = 0.0
        self._wake_at: float | None = None
        self._astray = True  # what is in memory is not what the store says, or nothing yet

    # --- called from other threads ---

    def post(self, event: ev.Event) -> None:
        """Tell the scheduler what happened; executors call this."""
        if isinstance(event, ev.WorkerExited):
            self._progress.finish(event.worker)
        self._inbox.put(event)
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self.wake()

    def close(self) -> None:
        """End the threads that it has started, once no cycle will come any more."""
        self._share_loops.close()

    # --- the thread itself ---

    def run(self) -> None:
        """Cycle until told to stop, or until another scheduler has taken over."""
        try:
            self._cycles()
        finally:
            self.close()

    def _cycles(self) -> None:
        while not self._stopping.is_set():
            wait = self.turn()
            (self._stopping if self._astray else self._wake).wait(wait)

    def turn(self) -> float:
        """One cycle; before the first, and after a fault, it begins from what the store says.

        Returns the seconds to wait for the next, unless something happens before.
        """
        try:
            if self._astray:
                self.recover()
            self.cycle()
        except RoleTaken:
            raise
        except Exception:
            # Memory and store may now disagree. The store is the truth: begin again from there.
            log_fault(_LOG, "the cycle failed; going back to what the store says", level=logging.ERROR)
            self._astray = True
            return _AFTER_A_FAULT
        return self._until_next()

    def cycle(self) -> None:
        """One cycle: the numbered steps of the design."""
        self._wake.clear()
        now = self._clock.now()
        # 1. Observe
        requests = self._store.requests_after(0)
        targets = self._targets.look(self.state.jobs, now)
        events = [*self._requested(requests, now), *self._happened(), *self._nodes(now), *targets]
        # 2. Apply
        apply_all(self.state, events, now)
        # 3. Decide, 4. Reconcile
        self._plan(now)
        # 5. Record
        changes = self.state.take_changes()
        if changes or requests:
            self._record(changes, [r.serial for r in requests])
        self._lease.renew_if_due()
        # 6. Act; what comes of it arrives as events
        for command in to_each_worker(self.state, changes.commands):
            self._carry_out(command)
        self._look_again(now)
        if changes:
            self._share_loops.tell(self.state)
        self._learn(changes, now)
        self._wake_at = next_wake(self.state)

    def _until_next(self) -> float:
        if self._wake_at is None:
            return _POLL
        return min(_POLL, max(0.0, self._wake_at - self._clock.now()))

    # --- 1. observe ---

    def _requested(self, requests: list[Request], now: float) -> list[ev.Event]:
        events = []
        for request in requests:
            if request.kind == "policy":
                self._set_policy(request, now)
            elif request.kind == "node_add" and self._node_manager:
                self._node_manager.examine(request)
            elif event := to_event(request, self._store, self.state, now):
                events.append(event)
        return events

    def _happened(self) -> list[ev.Event]:
        events, later = list[ev.Event](), list[ev.Event]()
        while not self._inbox.empty():
            event = self._inbox.get()
            # Once more: a change of leader may just have begun to watch it, or the store may have been away.
            # If it still is, no other end is tried: each would wait for it.
            if isinstance(event, ev.WorkerExited) and (later or not self._progress.finish(event.worker)):
                later.append(event)
            elif isinstance(event, ev.NodeSeen | ev.NodeLost):
                self._nodes_seen_at = 0.0  # what is true of nodes is asked for: this may be old news
            elif not (isinstance(event, ev.LimitsSet) and self._share_loops.answered(event)):
                events.append(event)
            if isinstance(event, ev.Shared) and event.fault:
                self._note_fault(self._policies.now.preset, event.fault, event.at)
        for event in later:
            self._inbox.put(event)
        return events

    def _nodes(self, now: float) -> list[ev.Event]:
        if now - self._nodes_seen_at < _LOOK_AT_NODES:
            return self._given_up(now)
        self._nodes_seen_at = now
        events = [self._node_event(node, now) for node in self._executor.nodes()] + self._given_up(now)
        running = [self.state.jobs[number] for number in self.state.attempts]
        unseen = [job.id for job in running if not job.checkpointed and self._executor.has_checkpoint(job.id)]
        return events + [ev.CheckpointSeen(now, job) for job in unseen]

    def _node_event(self, node: Node, now: float) -> ev.Event:
        if node.state is NodeState.LOST:
            return ev.NodeLost(now if node.lost_at is None else node.lost_at, node.name, node.problem)
        return ev.NodeSeen(now, node)

    def _given_up(self, now: float) -> list[ev.Event]:
        """Nodes that have been lost for too long, and still are. One that was not asked yet may be there."""
        silent = [
            ledger.node
            for ledger in self.state.ledger
            if ledger.node.lost_at is not None and now - ledger.node.lost_at >= self._lost_after
        ]
        if not silent:
            return []
        lost = {node.name for node in self._executor.nodes() if node.state is NodeState.LOST}
        return [self._give_up(node, now) for node in silent if node.name in lost]

    def _give_up(self, node: Node, now: float) -> ev.Event:
        for attempt in self.state.attempts.values():
            for worker in attempt.running:
                if worker.node == node.name:
                    self._progress.finish(worker.id)
        silent = format_duration(now - (node.lost_at or now))
        return ev.NodeGone(now, node.name, f"node {node.name} has not answered for {silent}")

    # --- 3. decide, 4. reconcile ---

    def _plan(self, now: float) -> None:
        try:
            decision = plan(self.state, self._policies.now, now)
        except Exception as error:
            self._policy_failed(error, now)
            return
        if decision and decision.grants:  # an empty queue proves nothing
            self._policies.good = self._policies.now

    def _policy_failed(self, error: Exception, now: float) -> None:
        """The plan is refused, the last good policy stays, and the API shows why."""
        failed, good = self._policies.now, self._policies.good
        self._note_fault(failed.preset, f"{type(error).__name__}: {error}", now)
        if failed is good:  # it worked until now; the plainest is all that is left
            good = self._policies.good = build_policy()
        if (failed.stages, failed.params) != (good.stages, good.params):
            self._use(good, now)
            self.wake()

    def _note_fault(self, preset: str, text: str, now: float) -> None:
        if text == self._policies.fault:
            return
        self._policies.fault = text
        _LOG.error("policy %s failed: %s", preset, text)
        self._store.set_setting("policy_fault", {"at": now, "policy": preset, "error": text})
        self.state.record(now, "policy_fault", f"policy {preset} failed: {text}", data={"error": text})

    def _set_policy(self, request: Request, now: float) -> None:
        try:
            policy = policy_from(request.data)
        except SchedulearnError as error:  # the API checked it, but code may have changed since
            self.state.record(now, "policy_fault", f"policy not set: {error}")
            return
        self._store.set_setting("policy", dict(request.data))
        self._store.set_setting("policy_fault", None)
        self._policies.fault = ""
        self._use(policy, now)
        self.state.record(now, "policy_set", f"policy {policy.preset} set by {request.by}", data={**request.data})

    def _use(self, policy: Policy, now: float) -> None:
        self._policies.now = policy
        self.state.set_order(policy.order, now, counts_cores=policy.counts_cores)
        self._share_loops.use(policy)

    # --- 5. record ---

    def _record(self, changes: Changes, requests: list[int]) -> None:
        memory = dict(self.state.memory)
        remembered, self._remembered = self._remembered, deepcopy(memory)
        self._store.save_cycle(
            Cycle(
                fence=self._lease.fence,
                jobs=list(changes.jobs.values()),
                attempts=list(changes.attempts.values()),
                leases_added=[lease for worker in changes.leases_added if (lease := worker.lease)],
                leases_changed=[lease for worker in changes.leases_changed if (lease := worker.lease)],
                leases_ended=[worker.id for worker in changes.leases_ended],
                nodes=list(changes.nodes.values()),
                nodes_removed=changes.nodes_removed,
                events=changes.history,
                forgotten=changes.forgotten,
                requests_done=requests,
                memory=None if memory == remembered else memory,
                shares=changes.shares,
            )
        )

    def _learn(self, changes: Changes, now: float) -> None:
        ended = [job for job in changes.jobs.values() if job.state in FINISHED]
        for job in ended:
            self._facts.ended(job, now)
        self._facts.look(self.state.jobs, now)
        if any(job.state is JobState.SUCCEEDED for job in ended):
            self._facts.refresh()
            self._share_loops.refresh()
        self._facts.restarts.started(changes.attempts.values(), self.state.jobs)
        self._facts.restarts.look(self.state.jobs, now)
        state, batching = self.state, self._facts.batching
        news = [look(state.jobs, state.attempts, now) for look in (self._facts.scaling.look, batching.look)]
        for worker, batch in batching.orders(state.attempts, state.jobs):
            self._executor.set_batch(worker.id, worker.node, batch)
        if any(news):
            state.stale = True
            self.wake()

    # --- 6. act ---

    def _carry_out(self, command: cmd.Command) -> None:
        _ACTIONS[type(command)](self, command)

    def _look_again(self, now: float) -> None:
        """A command or an answer may have been lost on the way, to a shortage or a fault of ours: ask once more."""
        if now - self._workers_seen_at < self._look_every:
            return
        self._workers_seen_at = now
        for attempt in self.state.attempts.values():
            if now - attempt.created_at < self._look_every:
                continue
            job = self.state.jobs[attempt.id.job]
            for worker in attempt.running:
                self._executor.adopt(worker.id, worker.node)
                if job.state is JobState.STOPPING:
                    self._executor.stop(worker.id, worker.node, self._grace(job))

    def _start(self, id: AttemptId, ranks: Collection[int] | None = None) -> None:
        attempt = self.state.attempts.get(id.job)
        if attempt and attempt.id == id:
            self._launch(attempt, ranks)

    def _regroup(self, command: cmd.Regroup) -> None:
        job = self.state.jobs.get(command.worker.job)
        if job and command.group.members[:1] == (command.worker.rank,):
            self._progress.watch(command.worker, job.spec.metric, leads=True)
        self._executor.regroup(command.worker, command.node, command.group)

    def _launch(self, attempt: Attempt, ranks: Collection[int] | None = None) -> None:
        job = self.state.jobs[attempt.id.job]
        for launch in self._launcher.launches(job, attempt, self._clock.now(), ranks):
            self._progress.watch(launch.worker, job.spec.metric)
            self._executor.start(launch)

    def _set_limits(self, command: cmd.SetLimits) -> None:
        limits = self._share_loops.within(command.worker, command.node, command.limits)
        self._executor.set_limits(command.worker, command.node, limits)

    def _add_node(self, command: cmd.AddNode) -> None:
        ledger = self.state.ledger.node(command.node)
        if self._node_manager and ledger:
            self._node_manager.add(ledger.node, ledger.node)

    def _forget_node(self, command: cmd.ForgetNode) -> None:
        if self._node_manager:
            self._node_manager.remove(command.node)

    # --- recovery ---

    def recover(self) -> None:
        """Read the tables, find the workers again, and give every command that may have got lost once more."""
        saved = self._store.load_state()
        policy, problem = policy_or_plain(saved.policy)
        self._policies = _Policies(policy, build_policy())
        self._remembered = deepcopy(saved.memory)
        now = self._clock.now()
        # A job whose submission was not looked at yet comes in through its request: only there it is found out
        # what has become of the jobs that it depends on.
        new = {request.job for request in self._store.requests_after(0) if request.kind == "submit"}
        jobs = [job for job in saved.jobs if job.id not in new]
        self.state: State = restore(
            policy.order,
            self._facts,
            jobs,
            saved.attempts,
            saved.leases,
            saved.nodes,
            saved.memory,
            now,
            regrow_after=self._regrow_after,
            counts_cores=policy.counts_cores,
        )
        self._share_loops.use(policy)
        self._share_loops.restore(saved.shares)
        if problem:
            preset = str((saved.policy or {}).get("preset"))
            self._note_fault(preset, f"{type(problem).__name__}: {problem}", now)
        self._nodes_seen_at, self._workers_seen_at = 0.0, now  # the workers are asked below
        if self._node_manager:
            for event in self._node_manager.ensure(saved.nodes, {lease.node for lease in saved.leases}):
                self._inbox.put(event)
        for attempt in list(self.state.attempts.values()):
            self._find_again(attempt)
        self._share_loops.tell(self.state)
        self._facts.restarts.started(self.state.attempts.values(), self.state.jobs)
        self._astray = False
        self.wake()

    @staticmethod
    def _grace(job: Job) -> float:
        return 0.0 if job.forget else job.spec.grace

    def _find_again(self, attempt: Attempt) -> None:
        job = self.state.jobs[attempt.id.job]
        if job.state is JobState.STARTING:
            self._launch(attempt)
            return
        new = [worker.id.rank for worker in attempt.members if worker.started_at is None]
        if new and job.state is not JobState.STOPPING:
            self._launch(attempt, new)
        for worker in attempt.running:
            self._progress.watch(worker.id, job.spec.metric, leads=worker is attempt.crew[0])
            self._executor.adopt(worker.id, worker.node)
            self._tell_again(job, attempt, worker)

    def _tell_again(self, job: Job, attempt: Attempt, worker: Worker) -> None:
        """Whatever it may have been told in the last moment of an earlier life."""
        leaves = worker.left_at is not None
        if attempt.generation:
            self._executor.regroup(worker.id, worker.node, attempt.group)
        if job.cpus_limit is not None or job.cores:
            self._set_limits(cmd.SetLimits(worker.id, worker.node, Limits(cpus=job.cpus)))
        elif job.shape.least_cores and job.cpus > job.shape.slots:
            # Whole cores may have been given out before, and this the least of them.
            limits = self._share_loops.within(worker.id, worker.node, Limits(cpus=job.cpus))
            self._executor.set_limits(worker.id, worker.node, limits, automatic=True)
        if job.state is JobState.STOPPING or (leaves and worker.started_at is None):
            self._executor.stop(worker.id, worker.node, self._grace(job))
        elif job.state in (JobState.PAUSED, JobState.QUEUED) and not leaves:
            self._executor.pause(worker.id, worker.node)  # queued: it is suspended while others have their turn
        else:
            self._executor.resume(worker.id, worker.node)


_ACTIONS: dict[type, Callable[[Scheduler, Any], None]] = {
    cmd.StartAttempt: lambda self, command: self._start(command.attempt),
    cmd.StartWorkers: lambda self, command: self._start(command.attempt, command.ranks),
    cmd.Regroup: Scheduler._regroup,
    cmd.StopWorker: lambda self, command: self._executor.stop(command.worker, command.node, command.grace),
    cmd.PauseWorker: lambda self, command: self._executor.pause(command.worker, command.node),
    cmd.ResumeWorker: lambda self, command: self._executor.resume(command.worker, command.node),
    cmd.SetLimits: Scheduler._set_limits,
    cmd.ForgetJob: lambda self, command: self._executor.forget(command.job),
    cmd.AddNode: Scheduler._add_node,
    cmd.ForgetNode: Scheduler._forget_node,
}
