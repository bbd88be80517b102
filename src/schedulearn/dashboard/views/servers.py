"""Servers as a map: which job holds which devices, cores and memory, and how much of it is really used."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from schedulearn.dashboard.views.markup import Safe, el, join
from schedulearn.dashboard.views.parts import colour, cores, empty, hue, job_link, panel, pill
from schedulearn.wire import types
from schedulearn.wire.words import size

Words = Callable[[float], str]  # how an amount is written
Holders = dict[int, list[types.Holder]]  # by job


def servers(seen: types.Overview) -> Safe:
    if not seen["nodes"]:
        return panel("Servers", empty("No server yet. Add one: ", el("code", "schedulearn nodes add ssh://HOST")))
    names = {job["id"]: job["name"] for job in seen["running"]}
    by_node: dict[str, list[types.Holder]] = defaultdict(list)
    for holder in seen["holders"]:
        by_node[holder["node"]].append(holder)
    cards = [_server(node, by_node[node["name"]], names) for node in seen["nodes"]]
    return panel("Servers", el("div", cards, class_="servers"), note=len(cards) if len(cards) > 1 else None)


def _server(node: types.Node, held: Sequence[types.Holder], names: dict[int, str]) -> Safe:
    jobs = by_job(held)
    head = el(
        "div",
        el("b", node["name"], class_="name"),
        el("span", node["executor"], class_="note"),
        None if node["state"] == "up" else pill(node["state"]),
        class_="head",
    )
    return el(
        "article",
        head,
        _devices(node, names),
        _resource("Cores", node, jobs, "cpus", cores),
        _resource("Memory", node, jobs, "memory", size),
        _jobs_here(jobs, names),
        class_=f"server {node['state']}",
        aria_label=f"server {node['name']}",
    )


def by_job(holders: Iterable[types.Holder]) -> Holders:
    found: Holders = defaultdict(list)
    for holder in holders:
        found[holder["job"]].append(holder)
    return dict(sorted(found.items()))


def _devices(node: types.Node, names: dict[int, str]) -> Safe | None:
    if not node["devices"]:
        return None
    return el("div", [_device(device, names) for device in node["devices"]], class_="devices", aria_label="devices")


def _device(device: types.Device, names: dict[int, str]) -> Safe:
    about = f"{device['id']} {device['model']}".strip()
    if job := device["job"]:
        label = f"{about}: job {job} {names.get(job, '')}"
        return el("a", job, class_="device held", style=f"background:{colour(job)}", href=f"/jobs/{job}", title=label)
    if device["outside_use"]:
        return el("span", "×", class_="device outside", title=f"{about}: in use from outside, {device['outside_use']}")
    return el("span", "free", class_="device", title=f"{about}: free")


def _resource(title: str, node: types.Node, jobs: Holders, name: str, words: Words) -> Safe:
    """Two bars: how much each job has leased, and below how much it uses now."""
    capacity = node["capacity"].get(name, 0) or 1
    leased = {job: sum(h["leased"].get(name, 0) for h in held) for job, held in jobs.items()}
    used = {job: used_of(held, name) for job, held in jobs.items()}
    total = sum(amount or 0 for amount in used.values())
    text = join(
        el("b", words(sum(leased.values())), class_="leased"), f" of {words(capacity)} leased",
        f" · {words(total)} used" if any(amount is not None for amount in used.values()) else "",
    )  # fmt: skip
    return el(
        "div",
        el("div", el("span", title), el("span", text), class_="line"),
        el("div", [_part(job, amount / capacity) for job, amount in leased.items()], class_="stack"),
        el("div", [_part(job, (amount or 0) / capacity) for job, amount in used.items()], class_="stack use"),
        class_="resource",
    )


def _part(job: int, share: float) -> Safe:
    return el("i", style=f"{hue(job)};width:{100 * min(1.0, share):.2f}%", title=f"job {job}")


def used_of(held: Sequence[types.Holder], name: str) -> float | None:
    known = [h["cpus"] if name == "cpus" else h["memory"] for h in held]
    amounts = [float(amount) for amount in known if amount is not None]
    return sum(amounts) if amounts else None


def _limit(held: Sequence[types.Holder]) -> float | None:
    limits = [h["cpus_limit"] for h in held]
    return None if None in limits or not limits else sum(limit or 0 for limit in limits)


def _jobs_here(jobs: Holders, names: dict[int, str]) -> Safe:
    if not jobs:
        return el("p", "No jobs.", class_="empty")
    rows = [
        el(
            "li",
            job_link(job, names.get(job, "")),
            el("span", f"×{len(held)}" if len(held) > 1 else "", class_="times"),
            el("span", core_words(held), class_="num"),
            el("span", size(used_of(held, "memory")), class_="num mem"),
        )
        for job, held in jobs.items()
    ]
    return el("ul", rows, class_="jobs-here")


def core_words(held: Sequence[types.Holder]) -> Safe:
    """`0.93 / 1.5`: cores in use, and the limit."""
    used, limit = used_of(held, "cpus"), _limit(held)
    return join(
        el("b", cores(used) or "–"), el("small", f" / {cores(limit)}" if limit is not None else " cores", title="limit")
    )
