"""The overview: totals, servers as a map of which job holds what, running jobs, the queue, what has just ended."""

from collections.abc import Sequence
from datetime import UTC, datetime

from schedulearn.dashboard.views.columns import FINISHED, QUEUE, RUNNING, Shown
from schedulearn.dashboard.views.markup import Child, Safe, el, join
from schedulearn.dashboard.views.parts import START, bar, cores, empty, panel
from schedulearn.dashboard.views.servers import Words, by_job
from schedulearn.dashboard.views.table import table
from schedulearn.wire import types
from schedulearn.wire.words import WITH_WORKERS, instant, size


def now_of(seen: types.Overview) -> datetime:
    return instant(seen["at"]) or datetime.now(UTC)


# --- totals


def totals(seen: types.Overview) -> Safe:
    counts, nodes = seen["counts"], [node for node in seen["nodes"] if node["state"] != "lost"]
    active = sum(counts.get(state, 0) for state in WITH_WORKERS)
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
    figure, _, unit = size(amount).partition(" ")
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
    jobs, total = seen["running"], sum(seen["counts"].get(state, 0) for state in WITH_WORKERS)
    if not jobs:
        return panel("Running", empty("No job is running. Start one: ", START))
    rows = [Shown(job, now_of(seen), held.get(job["id"], ())) for job in jobs]
    return panel("Running", table(RUNNING, rows, "Running jobs"), note=_more(len(jobs), total))


def queue(seen: types.Overview) -> Safe:
    waiting, total = seen["waiting"], seen["counts"].get("queued", 0)
    if not waiting:
        return panel("Queue", empty("The queue is empty."))
    rows = [Shown(one["job"], now_of(seen), place=one["why"]) for one in waiting]
    return panel("Queue", table(QUEUE, rows, "Queue"), note=_more(len(waiting), total))


def finished(seen: types.Overview) -> Safe:
    if not seen["finished"]:
        return Safe("")
    rows = [Shown(job, now_of(seen)) for job in seen["finished"]]
    return panel(
        "Finished", table(FINISHED, rows, "Finished jobs"), note=el("a", "all jobs", href="/jobs?state=finished")
    )


def _more(shown: int, total: int) -> str:
    return f"the first {shown} of {total}" if total > shown else str(total)
