"""What will happen in one run, drawn by a seed before it begins: jobs, what users do to them, and what breaks when."""

import random
from dataclasses import dataclass
from typing import NamedTuple

from support.outside.diary import FAILED

CHAOS = 15.0  # seconds in which things break
ENDLESS = 3600.0
_JOBS = 14
_ACTS = 12
_FAULTS = 9


class JobPlan(NamedTuple):
    """One job; by its name it is found again."""

    name: str
    at: float  # seconds from the beginning to its submission
    seconds: float = 0.5
    code: int = 0
    stubborn: bool = False  # it ignores SIGTERM
    restarts: int = 0
    time_limit: float | None = None
    workers: int = 1

    @property
    def natural(self) -> str:
        """How it ends if nobody disturbs it. Whoever has no end of its own is cancelled when all the rest is over."""
        if self.code or self.time_limit:
            return "failed"
        return "cancelled" if self.seconds == ENDLESS else "succeeded"


class Act(NamedTuple):
    """What a user does to a job: cancel, pause, resume, update or rm."""

    at: float
    what: str
    job: int  # its place in the plan


class Fault(NamedTuple):
    """What breaks, and for how long if it is mended again."""

    at: float
    what: str
    seconds: float
    job: int  # whose worker, if it is about one


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    variant: str  # "process", "postgresql" or "docker"
    jobs: list[JobPlan]
    acts: list[Act]
    faults: list[Fault]


_EVERYWHERE = ("kill service", "kill service", "stop service", "freeze service")
_WORKERS = ("kill supervisor", "kill program", "kill group", "freeze program", "freeze supervisor")
_FAULTS_OF = {
    "process": (*_EVERYWHERE, *_WORKERS, "lock database", "fill disk"),
    "postgresql": (*_EVERYWHERE, *_WORKERS, "restart database", "stop database", "stall database"),
    "docker": (*_EVERYWHERE, "lock database", "kill container", "remove container", "stop engine", "kill engine",
               "freeze engine"),
}  # fmt: skip
VARIANTS = tuple(_FAULTS_OF)
_TURNS = ("process", "postgresql", "process", "docker", "process")  # which seeds have what


def variant_of(seed: int) -> str:
    return _TURNS[seed % len(_TURNS)]


def make_plan(seed: int, variant: str | None = None) -> Plan:
    rng = random.Random(seed)
    variant = variant or variant_of(seed)
    jobs = sorted((_job(rng, number) for number in range(_JOBS)), key=lambda job: job.at)
    acts = sorted(act for _ in range(_ACTS) for act in _acts(rng, jobs))
    kinds = _FAULTS_OF[variant]
    faults = [Fault(rng.uniform(1.0, CHAOS - 3.0), rng.choice(kinds), rng.uniform(0.3, 4.0), rng.randrange(_JOBS))
              for _ in range(_FAULTS)]  # fmt: skip
    return Plan(seed, variant, jobs, acts, sorted(faults))


def _job(rng: random.Random, number: int) -> JobPlan:
    at, seconds = rng.uniform(0.0, rng.choice((1.5, CHAOS * 0.6))), rng.uniform(0.0, 4.0)
    restarts, workers = rng.choice((0, 0, 1)), rng.choice((1, 1, 1, 2))
    kind = rng.choices(("short", "fails", "limited", "endless"), (6, 2, 1, 2))[0]
    name = f"{kind}-{number}"
    if kind == "fails":
        return JobPlan(name, at, seconds / 4, FAILED, restarts=restarts)
    if kind == "limited":
        return JobPlan(name, at, ENDLESS, time_limit=rng.uniform(1.0, 3.0), stubborn=rng.random() < 0.5)
    if kind == "endless":
        return JobPlan(name, at, ENDLESS, stubborn=rng.random() < 0.3, workers=workers)
    return JobPlan(name, at, seconds, restarts=restarts, workers=workers)


def _acts(rng: random.Random, jobs: list[JobPlan]) -> list[Act]:
    """Something that a user does some time after the submission. Whoever pauses a job wants it to go on later."""
    number = rng.randrange(len(jobs))
    at = jobs[number].at + rng.uniform(0.0, 3.0)
    what = rng.choices(("cancel", "pause", "update", "rm"), (2, 4, 3, 1))[0]
    later = [Act(at + rng.choice((0.0, rng.uniform(0.0, 3.0))), "resume", number)] if what == "pause" else []
    return [Act(at, what, number), *later]
