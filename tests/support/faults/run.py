"""One run: a schedule is played in virtual time; then the faults end, time goes on, and all must come right."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from schedulearn.core.domain.errors import InvalidSpec, SchedulearnError, StoreError
from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.core.domain.spec import JobSpec, Launcher, Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.service.common import clock
from schedulearn.service.common.config import DataFolder
from schedulearn.service.gateway.gateway import Gateway
from schedulearn.service.share import loops
from schedulearn.store import open_store
from support.builders import spec
from support.faults.effects import Crash, Effects
from support.faults.life import ANN, Life, VirtualLoop
from support.faults.schedule import LASTS, Event, Schedule
from support.faults.world import BEGIN, Machines

SETTLED_WITHIN = 1500.0  # seconds after the last fault
_KILLED = Outcome(Ending.SIGNALLED, signal=9)


class Run:
    """Holds what outlives the service: the folder, the machines, and the people with what they were told."""

    def __init__(self, schedule: Schedule, root: Path) -> None:
        self.schedule, self.folder = schedule, DataFolder(root)
        self.world, self.effects = Machines(schedule.seed, root), Effects()
        self.life: Life | None = None
        self.jobs: dict[int, JobId] = {}  # by the key of its submission
        self.specs: dict[int, dict[str, Any]] = {}
        self.told: dict[JobId, dict[str, float]] = {}  # what people were promised, and when by the service's clock
        self.tried: dict[JobId, set[str]] = {}  # what they tried: it may have been taken all the same
        self.held: dict[JobId, bool] = {}  # whether its user wants it to stand still, as was last said and answered
        self.refused: list[str] = []
        self._turn_at = BEGIN
        self._down, self._torn = 1.0, ""
        self.crashes = 0

    @property
    def problems(self) -> list[str]:
        return self.world.problems

    def play(self) -> None:
        """To the end: until all jobs are over, or it is clear that something is stuck."""
        with _virtual(self.world):
            self._make()
            self._up()
            for event in self.schedule.events:
                self.world.later(event.at, partial(self._happen, event))
            self.world.later(LASTS, self._calm)
            end = BEGIN + LASTS + SETTLED_WITHIN
            while self.world.now() < end and not self._settled():
                self._step()
            quiet = self.world.now() + 15.0
            while self.world.now() < quiet:
                self._step()

    def close(self) -> None:
        if self.life:
            self.life.drop()

    def _make(self) -> None:
        self.folder.root.mkdir()
        with open_store(self.folder.database) as store:
            store.add_user("ann", "admin")

    # --- time

    def _step(self) -> None:
        until = min(self.world.due_at(), self._turn_at if self.life else self.world.now() + 1.0)
        try:
            self.world.advance(max(0.0, until - self.world.now()))
            if self.life and self.world.now() >= self._turn_at:
                self._turn_at = self.world.now() + max(0.05, self.life.scheduler.turn())
        except Crash:
            self._crash()

    def _wake(self) -> None:
        self._turn_at = min(self._turn_at, self.world.now() + 0.01)

    def _settled(self) -> bool:
        if self.world.now() < BEGIN + LASTS + 1.0 or self.life is None or len(self.jobs) < len(self.specs):
            return False
        return not self.life.scheduler.state.jobs and not self.life.store.requests_after(0)

    # --- the service

    def _up(self) -> None:
        if self.life:
            return
        try:
            self.life = Life(self.folder, self.world, self.effects, self._wake)
            self._turn_at = self.world.now()
        except StoreError:
            self.world.later(2.0, self._up)
        except Crash:
            self._crash()

    def _crash(self) -> None:
        self.crashes += 1
        if self.life:
            self.life.drop()
        self.life = None
        file = self.folder.clock
        if self._torn and file.exists():
            self.world.clock_lost = True
            if self._torn == "clock gone":
                file.unlink()
            else:
                file.write_text(file.read_text()[: len(file.read_text()) // 2])
        self.world.later(self._down, self._up)

    # --- what happens

    def _happen(self, event: Event) -> None:
        data = event.data
        match event.kind:
            case "submit":
                self.specs[data["key"]] = data
                self.world.jobs_do[f"j{data['key']}"] = data
                self._ask(partial(self._submit, data))
            case "crash":
                self._down, self._torn = data["seconds"], data["torn"]
                self.effects.crash_after(data["effects"])
            case "outage":
                self.effects.fail_after(self.world.draw("outage", event.at).randrange(8), data["how"])
                self.world.later(data["seconds"], self.effects.work_again)
            case "cut" | "reboot":
                getattr(self.world, event.kind)(data["node"])
                self.world.later(data["seconds"], partial(self.world.back, data["node"]))
            case "short":
                machine = self.world.machines[data["node"]]
                machine.short = True
                self.world.later(data["seconds"], partial(setattr, machine, "short", False))
            case "slow":
                self.world.slowness = data["by"]
                self.world.later(data["seconds"], partial(setattr, self.world, "slowness", 1.0))
            case "clock":
                self.world.off += data["by"]
            case "kill":
                running = self.world.all_running()
                if running:
                    self.world.kill(running[data["nth"] % len(running)], _KILLED)
            case "policy":
                self._ask(lambda gateway: gateway.set_policy(ANN, data["preset"], {}, {}))
            case "drain":
                name = NodeName(data["node"])
                self._ask(lambda gateway: gateway.servers.drain(ANN, name, True))
                again = partial(self._ask, lambda gateway: gateway.servers.drain(ANN, name, False))
                self.world.later(data["seconds"], again)
            case _:
                self._act(event.kind, data)

    def _calm(self) -> None:
        """No more faults. People let go on what they held back."""
        self.effects.defuse()
        self.world.slowness = 1.0
        for name, machine in self.world.machines.items():
            self.world.back(name)
            machine.short = False
        self.world.later(10.0, self._release)

    def _release(self) -> None:
        self._ask(self._resume_all)
        for name in self.world.machines:  # a drain may have been asked for again after its end was
            self._ask(lambda gateway, name=name: gateway.servers.drain(ANN, NodeName(name), False))
        self.world.later(20.0, self._release)

    def _resume_all(self, gateway: Gateway) -> None:
        for job in self.jobs.values():
            try:
                if gateway.job(job).job.state is JobState.PAUSED:
                    if not self.held.get(job):
                        self.problems.append(f"job {job} is paused although its user wants it to go on")
                    gateway.resume(ANN, job)
                    self.held[job] = False
            except SchedulearnError:
                continue

    # --- people: they ask until they are answered

    def _ask(self, what: Callable[[Gateway], object]) -> None:
        try:
            if self.life is None:
                raise StoreError("nobody is there")
            what(self.life.gateway)
        except StoreError:
            self.world.later(2.0, partial(self._ask, what))
        except SchedulearnError as error:
            self.refused.append(str(error))
        except Crash:
            self.world.later(2.0, partial(self._ask, what))
            raise

    def _submit(self, data: dict[str, Any], gateway: Gateway) -> None:
        key = f"key {data['key']}"
        depends = () if data["depends"] is None else (data["depends"],)
        others = tuple(self.jobs[other] for other in depends if other in self.jobs)
        others = tuple(other for other in others if "delete" not in self.tried.get(other, ()))
        try:
            row = gateway.submitted(ANN, key, key) or gateway.submit(ANN, _spec(data, others), key, key)
        except InvalidSpec:  # no server that was ever seen could run it
            self.world.later(10.0, partial(self._ask, partial(self._submit, data)))
            raise
        self.jobs[data["key"]] = row.job.id

    def _act(self, kind: str, data: dict[str, Any]) -> None:
        job = self.jobs.get(data["key"])
        if job is not None:
            self._ask(partial(self._act_on, job, kind, data))

    def _act_on(self, job: JobId, kind: str, data: dict[str, Any], gateway: Gateway) -> None:
        self.tried.setdefault(job, set()).add(kind)
        if kind in ("pause", "resume"):
            self.held[job] = kind == "pause"
        match kind:
            case "update":
                gateway.update(ANN, job, _fields(data))
            case "migrate":
                gateway.migrate(ANN, job, NodeName(data["node"]))
            case _:
                getattr(gateway, kind)(ANN, job)
        self.told.setdefault(job, {})[kind] = gateway.now()
        if kind == "pause":
            self.world.later(data["seconds"], partial(self._act, "resume", data))


def _spec(data: dict[str, Any], others: tuple[JobId, ...]) -> JobSpec:
    return spec(
        name=f"j{data['key']}",
        gpus=data["gpus"],
        cpus=data["cpus"],
        cpus_max=data["cpus_max"],
        memory=data["memory"],
        workers=tuple(data["workers"]),
        launcher=Launcher.ELASTIC if data["hot"] else Launcher.COMMAND,
        max_restarts=data["restarts"],
        time_limit=data["limit"],
        grace=data["grace"],
        preemptible=Preemptible(data["preemptible"]),
        priority=data["priority"],
        depends_on=others,
    )


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    to = data["to"]
    match data["what"]:
        case "priority":
            return {"priority": to}
        case "time_limit":
            return {"time_limit": 15.0 * to}
        case "cpus_limit":
            return {"cpus_limit": float(min(to, 2))}
        case _:
            return {"workers": {"want": min(to, 3)}}


@contextmanager
def _virtual(world: Machines) -> Iterator[None]:
    """The machine's clocks are the world's, and share loops need no threads."""
    with (
        _silence(),
        mock.patch.object(clock, "steady_time", world.now),
        mock.patch.object(clock, "time", SimpleNamespace(time=world.wall)),
        mock.patch.object(loops, "ShareThread", partial(VirtualLoop, world)),
    ):
        yield


@contextmanager
def _silence() -> Iterator[None]:
    """What goes wrong here is meant to."""
    log = logging.getLogger("schedulearn")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
