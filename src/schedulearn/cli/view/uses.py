"""What `describe` says of what a job uses."""

from collections.abc import Iterable, Sequence

from schedulearn.wire.words import FINISHED, Json, duration, size, sparkline


def facts(job: Json, workers: Sequence[Json]) -> list[tuple[str, str]]:
    """Label and value, all workers together; what no machine could tell is left out."""
    if not workers:
        return []
    latest = [worker["latest"] for worker in workers]
    over = job["state"] in FINISHED
    lines = [
        ("cpu", "" if over else _cores(workers, latest)),
        ("cpu time", duration(_sum(latest, "cpu_seconds"))),
        ("memory", _memory(workers, latest, over)),
        ("disk", _pair(latest, "read_bytes", "read", "written_bytes", "written")),
        ("network", _pair(latest, "received_bytes", "received", "sent_bytes", "sent")),
        ("energy", _energy(_sum(latest, "energy"))),
    ]
    return [(label, value) for label, value in lines if value]


def _sum(looks: Iterable[Json], field: str) -> float | None:
    known = [look[field] for look in looks if look.get(field) is not None]
    return sum(known) if known else None


def _cores(workers: Sequence[Json], latest: Sequence[Json]) -> str:
    """`▃▅▇ 0.93 of 1.5 cores`"""
    used, limit = _sum(latest, "cpus"), _sum(latest, "cpus_limit")
    if used is None:
        return ""
    curve = sparkline([point["cpus"] for point in workers[0].get("points") or ()], 32)
    of = "" if limit is None else f" of {limit:g}"
    return f"{curve}  {used:.2f}{of} core{'' if limit == 1 else 's'}".strip()


def _memory(workers: Sequence[Json], latest: Sequence[Json], over: bool) -> str:
    now, most, limit = _sum(latest, "memory"), _sum(workers, "memory_peak"), _sum(latest, "memory_limit")
    if now is None or most is None:
        return ""
    of = "" if limit is None else f" of {size(limit)}"
    return f"{size(most)}{of} peak" if over else f"{size(now)}{of} (peak {size(most)})"


def _pair(latest: Sequence[Json], first: str, verb: str, second: str, other_verb: str) -> str:
    one, other = _sum(latest, first), _sum(latest, second)
    return "" if one is None or other is None else f"{size(one)} {verb}, {size(other)} {other_verb}"


def _energy(joules: float | None) -> str:
    if joules is None:
        return ""
    return f"{joules / 3.6e6:.3g} kWh" if joules >= 3.6e5 else f"{joules / 1e3:.3g} kJ"
