"""One seed from its beginning to the verdict."""

import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedulearn.client import ApiError, Client
from support.outside import diary
from support.outside.plan import CHAOS, ENDLESS, make_plan
from support.outside.users import Users
from support.outside.verdict import Ending, problems
from support.outside.world import World
from support.outside.worlds import Ground, Missing
from support.waiting import wait_until

_TICK = 0.05  # seconds between two looks at what is due
# A full disk has no room for it. What is written while an engine is away is gone if its container has ended by then.
_LOSE_OUTPUT = ("fill disk", "stop engine", "kill engine")
SETTLE = 90.0  # seconds after the last fault; a job that is not over by then is stuck


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    variant: str
    done: dict[str, int]  # faults, how often each
    problems: list[str]  # empty if all is well
    story: list[str]  # what was done when, and the last of the service's own log
    seconds: float
    left_out: str = ""  # why it was not run


def run_seed(seed: int, ground: Ground, variant: str | None = None) -> Outcome:
    plan, began = make_plan(seed, variant), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sl-outside-", ignore_cleanup_errors=True) as folder:
        try:
            world = ground.world(Path(folder), plan)
        except Missing as why:
            return Outcome(seed, plan.variant, {}, [], [], 0.0, str(why))
        try:
            world.open()
            run = _Run(world)
            found = run.all()
            log = world.service.output().splitlines()[-60:] if found else []
        finally:
            world.close()
    return Outcome(seed, plan.variant, dict(world.counted), found, run.told + log, time.monotonic() - began)


class _Run:
    def __init__(self, world: World) -> None:
        self.world, self.plan = world, world.plan
        began = time.monotonic()
        self._clock = lambda: time.monotonic() - began
        self.users = Users(self.plan, world.diaries, lambda timeout: world.service.client(timeout=timeout), self._clock)
        self._told: list[str] = []
        self._history: list[str] = []  # of jobs with which something is wrong

    @property
    def told(self) -> list[str]:
        return sorted(self._told + self.users.told) + self._history

    def all(self) -> list[str]:
        self.users.start()
        try:
            self._break_things()
            well = self._is_well_again()
        finally:
            self.users.end()
        if not well:
            return ["the service is not well again"]
        with self.world.service.client() as client:
            found = self._settle(client)
            endings = self._endings(client)
            for number, job in enumerate(self.plan.jobs):
                of_job = endings.get(job.name, [])
                lines = diary.read(self.world.diaries / job.name)
                if wrong := problems(job, self.users.known[number], of_job, lines):
                    self._history += [line for one in of_job for line in _story(client, one.id)]
                    self._history += [f"diary of {job.name}: {line}" for line in lines]
                    found += wrong
        return found + self.world.left()

    def _break_things(self) -> None:
        faults = list(self.plan.faults)
        while self._clock() < CHAOS:
            time.sleep(_TICK)
            self.world.mend(self._clock())
            while faults and faults[0].at <= self._clock():
                fault = faults.pop(0)
                known = self.users.known
                if self.world.inflict(fault, [*known[fault.job :], *known[: fault.job]]):
                    self._told.append(f"{self._clock():5.1f} ** {fault.what} ({fault.seconds:.1f} s)")

    def _is_well_again(self) -> bool:
        """All faults are over, and it answers before those who wait for it lose their patience."""
        self.world.mend()
        with suppress(AssertionError):
            return wait_until(self._healthy, SETTLE)
        return False

    def _healthy(self) -> bool:
        self.world.mend()
        with suppress(Exception), self.world.service.client(timeout=5.0) as client:
            return bool(client.health()["scheduler"] == "running")
        return False

    def _settle(self, client: Client) -> list[str]:
        """People put right what they left behind; then everything comes to its end."""
        for job, known in zip(self.plan.jobs, self.users.known, strict=True):
            with suppress(ApiError):  # it is over, or gone
                if known.id and known.paused:
                    client.resume(known.id)
            with suppress(ApiError):
                for one in client.jobs(name=job.name)["jobs"]:
                    if job.seconds == ENDLESS and not job.time_limit:
                        known.cancel_tried = True
                        client.cancel(one["id"])
        with suppress(AssertionError):
            wait_until(lambda: not client.jobs(state=["active"], limit=1)["total"], SETTLE)
        return [f"job {one['id']} ({one['name']}) is stuck: {one['state']}, {one['reason']}"
                for one in client.jobs(state=["active"])["jobs"]]  # fmt: skip

    def _endings(self, client: Client) -> dict[str, list[Ending]]:
        found: dict[str, list[Ending]] = {}
        for job in client.jobs(limit=1000)["jobs"]:
            found.setdefault(job["name"], []).append(self._ending(client, job))
        return found

    def _ending(self, client: Client, job: Any) -> Ending:
        output = None
        if job["attempt"] and not any(self.world.counted[fault] for fault in _LOSE_OUTPUT):
            output = b"".join(client.logs(job["id"], attempt=job["attempt"])).decode()
        return Ending(job["id"], job["state"], job["attempt"], output)


def _story(client: Client, job: int) -> list[str]:
    return [f"job {job}: {event['at']} {event['kind']}: {event['cause']}" for event in client.job_events(job)]
