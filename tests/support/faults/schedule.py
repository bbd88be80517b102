"""What happens in one run: a list of events that a seed makes. It can be printed, cut down and run again."""

import random
from dataclasses import dataclass, field
from typing import Any

NODES = {"a": (3, 2), "b": (3, 0), "c": (2, 1)}  # cores and GPUs
LASTS = 150.0  # seconds in which things happen
PRESETS = (
    "fifo", "round-robin", "srtf", "srsf", "tiresias", "gandiva", "elastic-fifo", "elastic-tiresias", "afs-l", "ffdl",
    "cores-strict", "cores-attend", "cores-proportional", "flowcon", "schedulearn",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    at: float  # seconds from the beginning
    kind: str
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:7.2f}  {self.kind:8}" + " ".join(f"{key}={value}" for key, value in self.data.items())


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int  # also of all delays, which do not depend on the events
    events: tuple[Event, ...]

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}, {len(self.events)} events", *map(str, self.events)])


def made(seed: int) -> Schedule:
    rng = random.Random(seed)
    jobs = rng.randint(4, 10)
    events = [Event(0.0, "policy", {"preset": rng.choice(PRESETS)})]
    part = rng.choice((0.05, 0.05, 0.3, 0.6))  # of the time in which they come: the sooner, the more they contend
    events += [Event(_at(rng, part), "submit", _job(rng, number)) for number in range(jobs)]
    at = 0.0
    for _ in range(rng.randint(8, 24)):
        kind = rng.choices(list(_KINDS), [_OFTEN.get(kind, 1) for kind in _KINDS])[0]
        at = _soon(rng, at) if rng.random() < 0.5 else _at(rng)
        events.append(Event(at, kind, _KINDS[kind](rng, jobs)))
    return Schedule(seed, tuple(sorted(events, key=lambda event: event.at)))


def _at(rng: random.Random, part: float = 1.0) -> float:
    return round(rng.uniform(0.0, LASTS * part), 2)


def _soon(rng: random.Random, at: float) -> float:
    """Faults are worst when they come together."""
    return round(min(LASTS, at + rng.choice((0.0, 0.1, rng.uniform(0.0, 2.0)))), 2)


def _job(rng: random.Random, number: int) -> dict[str, Any]:
    gpus = rng.choice((0, 0, 0, 1, 1, 2))
    hot = rng.random() < 0.3
    most = rng.choice((1, 1, 2, 3)) if hot else rng.choice((1, 1, 1, 2))
    endless = rng.random() < 0.1  # such a one ends only if it is told to
    return {
        "key": number,
        "gpus": gpus if most == 1 else min(gpus, 1),
        "cpus": rng.choice((1, 1, 2)) if most == 1 else 1,
        "cpus_max": rng.choice((2, 3, 4)),
        "workers": (1, most, most) if hot or rng.random() < 0.3 else (most, most, most),
        "hot": hot,
        "runs": 1e9
        if endless
        else round(rng.choice((rng.uniform(0.1, 3), rng.uniform(3, 20), rng.uniform(20, 60))), 2),
        "codes": rng.choice(((0,), (0,), (0,), (1, 0), (1, 1, 0), (3,))),
        "memory": rng.choice((None, None, 10_000_000_000, 40_000_000_000 if most == 1 else None)),
        "problems": rng.choice((0,) * 9 + (1, 9)),  # so many attempts cannot be started
        "saves": rng.random() < 0.6,
        "term_takes": rng.choice((0.0, 0.5, 3.0, 1e9)),
        "restarts": rng.choice((0, 0, 1, 2)),
        "limit": 25.0 if endless else rng.choice((None, None, None, 5.0, 25.0)),
        "grace": rng.choice((0.0, 1.0, 5.0)),
        "depends": rng.randrange(number) if number and rng.random() < 0.15 else None,
        "preemptible": rng.choice(("auto", "true", "true", "false")),
        "priority": rng.choice((10, 50, 50, 90)),
        "prints": number % 3 == 0,  # its metric, for the service to find
    }


def _on_job(**more: Any) -> Any:
    return lambda rng, jobs: (
        {"key": rng.randrange(jobs)} | {name: rng.choice(choices) for name, choices in more.items()}
    )


def _for(longest: float, **more: Any) -> Any:
    def make(rng: random.Random, _: int) -> dict[str, Any]:
        return {name: rng.choice(choices) for name, choices in more.items()} | {
            "seconds": round(rng.uniform(0.2, longest), 2)
        }

    return make


_KINDS: dict[str, Any] = {
    "crash": _for(12.0, effects=(*range(12), *range(12), 20, 35), torn=("", "", "", "clock", "clock gone")),
    "cut": _for(70.0, node=tuple(NODES)),
    "reboot": _for(60.0, node=tuple(NODES)),
    "short": _for(30.0, node=tuple(NODES)),
    "slow": _for(20.0, by=(2.0, 8.0)),
    "outage": _for(8.0, how=("refuses", "refuses", "forgets")),
    "clock": lambda rng, _: {"by": rng.choice((-3600.0, -20.0, 20.0, 3600.0))},
    "kill": lambda rng, _: {"nth": rng.randrange(6)},
    "cancel": _on_job(),
    "pause": _on_job(seconds=(0.0, 0.0, 2.0, 15.0)),
    "resume": _on_job(),
    "delete": _on_job(),
    "update": _on_job(what=("priority", "time_limit", "cpus_limit", "workers"), to=(1, 2, 3, 80)),
    "migrate": _on_job(node=tuple(NODES)),
    "drain": _for(30.0, node=tuple(NODES)),
    "policy": lambda rng, _: {"preset": rng.choice(PRESETS)},
}
_OFTEN = {"crash": 5, "outage": 2, "pause": 2, "cancel": 2}
