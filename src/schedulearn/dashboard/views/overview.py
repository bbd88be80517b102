"""The overview: totals, servers as a map of who holds what, running jobs, the queue, what has just ended."""

from collections.abc import Sequence
from datetime import UTC, datetime

from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.parts import (
    START,
    bar,
    bytes_of,
    cores,
    empty,
    job_link,
    panel,
    percent,
    pill,
    since,
    spark,
    steps,
    table,
)
from schedulearn.dashboard.views.servers import Words, by_job, core_words, used_of
from schedulearn.wire import types
from schedulearn.wire.words import duration, instant, nodes_of, number, why

RUNNING = [
    ("Job", "grow"), ("User", "w1"), ("Progress", ""), ("Metric", "num"), ("Curve", "w2"), ("Workers", "num w2"),
    ("Cores", "num"), ("Memory", "num w1"), ("Where", "w1"), ("Ran", "num w2"), ("Left", "num"),
]  # fmt: skip
QUEUE = [
    ("#", "key"), ("Job", "grow"), ("User", "w1"), ("Priority", "num w2"), ("Waits", "num w2"), ("Starts in", "num"),
    ("Why", "why"),
]  # fmt: skip
FINISHED = [
    ("Job", "grow"), ("User", "w1"), ("State", ""), ("Metric", "num w2"), ("Curve", "w2"), ("Ran", "num"),
    ("Ended", "num w2"), ("Result", "why w1"),
]  # fmt: skip


def now_of(seen: types.Overview) -> datetime:
    return instant(seen["at"]) or datetime.now(UTC)


# --- totals


def totals(seen: types.Overview) -> Safe:
    counts, nodes = seen["counts"], [node for node in seen["nodes"] if node["state"] != "lost"]
    active = sum(counts.get(state, 0) for state in ("starting", "running", "paused", "stopping"))
    tiles = [
        _tile("Running", active, "/jobs?state=running"),
        _tile("Queued", counts.get("queued", 0), "/jobs?state=queued"),
        _tile("Succeeded", counts.get("succeeded", 0), "/jobs?state=succeeded"),
        _tile("Failed", counts.get("failed", 0), "/jobs?state=failed", "bad" if counts.get("failed") else ""),
        _amount("Cores leased", _leased(nodes, "cpus"), nodes, "cpus", cores),
        _amount("GPUs leased", _leased(nodes, "gpus"), nodes, "gpus", cores),
        _amount("Memory used", sum(held["memory"] or 0 for held in seen["holders"]), nodes, "memory", _short),
        _policy(seen["policy"]),
    ]
    return el("div", [tile for tile in tiles if tile], class_="tiles")


def _tile(title: str, value: Child, href: str, kind: str = "") -> Safe:
    return el("a", el("span", title), el("b", value), class_=f"tile {kind}".strip(), href=href)


def _amount(title: str, amount: float, nodes: Sequence[types.Node], name: str, words: Words) -> Safe | None:
    total = sum(node["capacity"].get(name, 0) for node in nodes)
    if not total:
        return None
    value = el("b", words(amount), el("small", f" of {words(total)}"))
    return el("div", el("span", title), value, bar(amount / total), class_="tile amount")


def _short(amount: float) -> str:
    """Bytes in few letters: what is over ten has no decimals."""
    figure, _, unit = bytes_of(amount).partition(" ")
    return f"{float(figure):.2g} {unit}" if float(figure) < 10 else f"{float(figure):.0f} {unit}"


def _leased(nodes: Sequence[types.Node], name: str) -> float:
    return sum(node["leased"].get(name, 0) for node in nodes)


def _policy(policy: types.PolicyInForce) -> Safe:
    stages = " · ".join(f"{stage} {name}" for stage, name in policy["stages"].items())
    return el("div", el("span", "Policy"), el("b", policy["preset"]), el("small", stages), class_="tile policy")


def trouble(seen: types.Overview) -> Safe:
    """What an administrator should see at once."""
    said: list[Child] = []
    if seen["scheduler"] == "absent":
        said.append(
            el(
                "p",
                el("b", "No scheduler is running."),
                " Running jobs continue, but no new ones start.",
                class_="problem",
            )
        )
    if fault := seen["policy"]["fault"]:
        words = f" The last working one is used: {fault.get('error') or ''}"
        said.append(el("p", el("b", "The policy has failed."), words, class_="problem"))
    lost = [node for node in seen["nodes"] if node["state"] == "lost"]
    said += [
        el("p", el("b", f"{node['name']} does not answer."), f" {node['problem']}", class_="problem") for node in lost
    ]
    return join(said)


# --- jobs


def running(seen: types.Overview) -> Safe:
    held = by_job(seen["holders"])
    jobs, total = seen["running"], sum(seen["counts"].get(s, 0) for s in ("starting", "running", "paused", "stopping"))
    if not jobs:
        return panel("Running", empty("No job is running. Start one: ", START))
    rows = [_running(job, held.get(job["id"], [])) for job in jobs]
    return panel("Running", table(RUNNING, rows, "Running jobs"), note=_more(len(jobs), total))


def _running(job: types.Job, held: Sequence[types.Holder]) -> Sequence[Child]:
    progress = job["progress"]
    return (
        join(job_link(job["id"], job["name"]), None if job["state"] == "running" else pill(job["state"])),
        job["user"],
        progress_of(job),
        metric_of(job),
        spark(progress["spark"], job["id"]) if progress else "",
        job["workers"] or "",
        core_words(held) if held else "",
        bytes_of(used_of(held, "memory")),
        nodes_of(job),
        duration(round(job["run_seconds"])) if job["started_at"] else "",
        duration(progress["eta_seconds"]) if progress and progress["eta_seconds"] is not None else "",
    )


def progress_of(job: types.Job) -> Safe:
    done, progress = steps(job), job["progress"]
    if done is not None:
        return el("span", bar(done, "done"), el("span", percent(done), class_="num"), class_="progress")
    return el("span", f"step {progress['step']}" if progress else "", class_="note")


def metric_of(job: types.Job) -> Safe:
    progress = job["progress"]
    if not progress:
        return Safe("")
    value = number(progress["value"]) or "not a number"
    return join(el("b", value), el("small", f" {progress['metric']}") if progress["metric"] != "loss" else None)


def queue(seen: types.Overview) -> Safe:
    waiting, total = seen["waiting"], seen["counts"].get("queued", 0)
    if not waiting:
        return panel("Queue", empty("The queue is empty."))
    rows = [_waiting(one, now_of(seen)) for one in waiting]
    return panel("Queue", table(QUEUE, rows, "Queue"), note=_more(len(waiting), total))


def _waiting(one: types.Waiting, now: datetime) -> Sequence[Child]:
    job, reason = one["job"], one["why"]
    start = reason["estimate"]["start_seconds"] if reason["estimate"] else None
    return (
        reason["position"] or "",
        job_link(job["id"], job["name"]),
        job["user"],
        job["priority"],
        since(job["queued_at"], now),
        duration(start) if start is not None else "–",
        el("span", reason["text"], class_="clamp", title=reason["text"]),
    )


def finished(seen: types.Overview) -> Safe:
    if not seen["finished"]:
        return Safe("")
    rows = [_finished(job, now_of(seen)) for job in seen["finished"]]
    return panel(
        "Finished", table(FINISHED, rows, "Finished jobs"), note=el("a", "all jobs", href="/jobs?state=finished")
    )


def _finished(job: types.Job, now: datetime) -> Sequence[Child]:
    progress = job["progress"]
    return (
        job_link(job["id"], job["name"]),
        job["user"],
        pill(job["state"]),
        metric_of(job),
        spark(progress["spark"], job["id"]) if progress else "",
        duration(round(job["run_seconds"])) if job["started_at"] else "",
        f"{since(job['finished_at'], now)} ago",
        el("span", why(job), class_="clamp", title=why(job)),
    )


def _more(shown: int, total: int) -> str:
    return f"the first {shown} of {total}" if total > shown else str(total)
