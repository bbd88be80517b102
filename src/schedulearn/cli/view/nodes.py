"""What the nodes have, what of it is in use, and what the storage takes."""

from collections.abc import Sequence
from datetime import datetime

from schedulearn.cli.view.table import Cell, Column, styled
from schedulearn.wire.clean import clean
from schedulearn.wire.words import Json, ago, bar, size


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


def node_columns(bars: int = 0) -> tuple[Column, ...]:
    """With `bars` > 0 each use begins with a bar of this width."""
    return (
        _NAME,
        Column("STATE", lambda node: styled(node["state"])),
        Column("CPUS USED", lambda node: _use(node, "cpus", bars)),
        Column("MEMORY USED", lambda node: _use(node, "memory", bars), need=70),
        Column("GPUS USED", lambda node: _use(node, "gpus", bars)),
        Column("EXECUTOR", lambda node: node.get("executor") or "", need=90),
        Column("JOBS", lambda node: ", ".join(map(str, node.get("jobs") or ())), flex=True, need=60, keep=8),
    )


def server_columns(now: datetime) -> tuple[Column, ...]:
    return (
        _NAME,
        Column("ADDRESS", lambda node: node.get("address") or "", flex=True),
        Column("VERSION", lambda node: node.get("version") or "", need=90),
        Column("DEFAULT IMAGE", lambda node: node.get("default_image") or "", flex=True, need=80),
        Column("LABELS", _labels, flex=True, need=70),
        Column("PROBLEM", lambda node: Cell(_problem(node, now), "red"), flex=True, wrap=True),
    )


def servers(nodes: Sequence[Json]) -> list[Json]:
    """The nodes that have more to tell: an engine, labels, or a problem."""
    return [node for node in nodes if node.get("address") or node.get("labels") or node.get("problem")]


def devices(nodes: Sequence[Json]) -> list[Json]:
    """Of all nodes, each with the name of its own."""
    return [{**device, "node": node["name"]} for node in nodes for device in node.get("devices") or ()]


def _labels(node: Json) -> str:
    return ", ".join(f"{key}={value}" for key, value in (node.get("labels") or {}).items())


def _problem(node: Json, now: datetime) -> str:
    since = f"lost {ago(node['lost_at'], now)}: " if node.get("lost_at") else ""
    return f"{since}{node['problem']}" if node.get("problem") else ""


def _device_use(device: Json) -> Cell:
    if device.get("job") is not None:
        return Cell(f"job {device['job']}", "green")
    if device.get("outside_use"):
        return Cell(f"outside: {device['outside_use']}", "yellow")
    return Cell("free", "dim")


_NAME = Column("NODE", lambda node: Cell(node["name"], "bold"), flex=True)
DEVICE_COLUMNS = (
    Column("DEVICE", lambda device: Cell(device["id"], "bold"), flex=True),
    Column("NODE", lambda device: device["node"], flex=True),
    Column("MODEL", lambda device: device.get("model") or device.get("kind") or "", flex=True),
    Column("MEMORY", lambda device: size(device.get("memory")) if device.get("memory") else "", right=True, need=60),
    Column("USED BY", _device_use, flex=True),
)


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
