"""What the nodes have, what of it is in use, and what the storage takes."""

from collections.abc import Sequence
from datetime import datetime

from schedulearn.cli.view.table import Cell, Column, Row
from schedulearn.wire.clean import clean
from schedulearn.wire.words import STATE_STYLE, Json, ago, bar, size

COLUMNS = (
    Column("NODE", flex=True),
    Column("STATE"),
    Column("CPUS USED"),
    Column("MEMORY USED", need=70),
    Column("GPUS USED"),
    Column("EXECUTOR", need=90),
    Column("JOBS", flex=True, need=60, keep=8),
)
SERVER_COLUMNS = (
    Column("NODE", flex=True),
    Column("ADDRESS", flex=True),
    Column("VERSION", need=90),
    Column("DEFAULT IMAGE", flex=True, need=80),
    Column("LABELS", flex=True, need=70),
    Column("PROBLEM", flex=True, wrap=True),
)
DEVICE_COLUMNS = (
    Column("DEVICE", flex=True),
    Column("NODE", flex=True),
    Column("MODEL", flex=True),
    Column("MEMORY", right=True, need=60),
    Column("USED BY", flex=True),
)


def used_of(node: Json, name: str) -> tuple[float, float]:
    """How much of a resource is leased, and how much may be leased in all."""
    usable = float(node["capacity"].get(name) or 0) - float((node.get("reserved") or {}).get(name) or 0)
    free = float((node.get("free") or {}).get(name) or 0)
    return max(0.0, usable - free), max(0.0, usable)


def _use(node: Json, name: str, width: int) -> Cell:
    used, usable = used_of(node, name)
    if not usable:
        return Cell("none", "dim")
    share = used / usable
    words = f"{size(used)} of {size(usable)}" if name == "memory" else f"{used:g} of {usable:g}"
    style = "red" if share > 0.95 else "yellow" if share > 0.7 else "green"
    return Cell(f"{bar(share, width)} {words}" if width else words, style)


def rows(nodes: Sequence[Json], bars: int = 0) -> list[Row]:
    """One row a node; with `bars` > 0 each use begins with a bar of this width."""
    return [
        (
            Cell(node["name"], "bold"),
            Cell(node["state"], STATE_STYLE.get(node["state"], "")),
            _use(node, "cpus", bars),
            _use(node, "memory", bars),
            _use(node, "gpus", bars),
            node.get("executor") or "",
            ", ".join(str(job) for job in node.get("jobs") or ()),
        )
        for node in nodes
    ]


def server_rows(nodes: Sequence[Json], now: datetime) -> list[Row]:
    """One row for each node that has more to tell: an engine, labels, or a problem."""
    return [
        (
            Cell(node["name"], "bold"),
            node.get("address") or "",
            node.get("version") or "",
            node.get("default_image") or "",
            ", ".join(f"{key}={value}" for key, value in (node.get("labels") or {}).items()),
            Cell(_problem(node, now), "red"),
        )
        for node in nodes
        if node.get("address") or node.get("labels") or node.get("problem")
    ]


def _problem(node: Json, now: datetime) -> str:
    since = f"lost {ago(node['lost_at'], now)}: " if node.get("lost_at") else ""
    return f"{since}{node['problem']}" if node.get("problem") else ""


def device_rows(nodes: Sequence[Json]) -> list[Row]:
    return [
        (
            Cell(device["id"], "bold"),
            node["name"],
            device.get("model") or device.get("kind") or "",
            size(device.get("memory")) if device.get("memory") else "",
            _device_use(device),
        )
        for node in nodes
        for device in node.get("devices") or ()
    ]


def _device_use(device: Json) -> Cell:
    if device.get("job") is not None:
        return Cell(f"job {device['job']}", "green")
    if device.get("outside_use"):
        return Cell(f"outside: {device['outside_use']}", "yellow")
    return Cell("free", "dim")


def sharing_words(sharing: Json | None) -> str:
    """`flowcon limits job 17 to 0.25 cores`; nothing where all jobs share equally, as usual."""
    if not sharing:
        return ""
    if sharing["problem"]:
        return f"shared fairly: {clean(sharing['problem'])}"
    held = ", ".join(f"job {job} to {cores:.3g} cores" for job, cores in sharing["limits"].items())
    return f"{clean(sharing['stage'])} limits {held or 'no job'}"


def storage_words(storage: Json | None) -> str:
    """`1.2 GB used: jobs 1 GB (logs 50 MB), snapshots 150 MB, database 1 MB; 200 GB free`"""
    if not storage:
        return ""
    parts = [f"jobs {size(storage.get('jobs_bytes') or 0)}"]
    if storage.get("logs_bytes"):
        parts[0] += f" (logs {size(storage['logs_bytes'])})"
    parts += [f"{k} {size(storage[f'{k}_bytes'])}" for k in ("snapshots", "database") if f"{k}_bytes" in storage]
    total = sum(storage.get(f"{k}_bytes") or 0 for k in ("jobs", "snapshots", "database"))
    free = f"; {size(storage['free_bytes'])} free" if "free_bytes" in storage else ""
    return f"{size(total)} used: {', '.join(parts)}{free}"
