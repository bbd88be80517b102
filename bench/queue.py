"""10,000 queued jobs: a scheduling cycle, `ls`, `explain`, and starting again, beside 100 queued jobs."""

import time
from collections.abc import Callable
from pathlib import Path
from subprocess import run

from bench.figures import Figures, median, timed
from bench.service import Service, command, environment, folder
from bench.world import Statements, World, fill, world
from schedulearn.cli.top import gather
from schedulearn.core.control.restore import restore
from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.node import Node, NodeState
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.service.gateway.explainer import Explainer
from schedulearn.service.learn.facts import LiveFacts
from schedulearn.store import Cycle, open_store

MANY, FEW = 10_000, 100
_ROUNDS = 200
Samples = dict[str, list[float]]


def measure() -> Figures:
    figures = Figures(f"{MANY:,} queued jobs on one node")
    few, many = _samples(FEW, figures), _samples(MANY, figures)
    for name, seconds in many.items():
        than = f"with {FEW} queued"
        if len(seconds) >= _ROUNDS:
            figures.add_times(name, seconds, against=few[name], than=than)
        else:
            ratio = f"{median(seconds) / median(few[name]):.1f} × as {than}"
            figures.add(name, median(seconds) * 1e3, "ms", against=ratio)
    _through_the_service(figures)
    return figures


def _through_the_service(figures: Figures) -> None:
    """As a person sees it: the service's own process, with a node that takes no jobs."""
    waits = {}
    for queued in (FEW, MANY):
        with folder() as root:
            data = root / "data"
            prepare(data, queued)
            service = Service(data)
            try:
                waits[queued] = {"start to healthy": [service.seconds], **_asked(service, queued)}
            finally:
                service.stop()
    for name, seconds in waits[MANY].items():
        ratio = f"{median(seconds) / median(waits[FEW][name]):.1f} × as with {FEW} queued"
        figures.add(f"service: {name}", median(seconds) * 1e3, "ms", against=ratio)


def prepare(data: Path, queued: int) -> None:
    data.mkdir()
    with open_store(data / "schedulearn.db") as store:
        fence = store.take_role("scheduler", "bench", time.time(), 1.0, steal=True)
        store.save_cycle(Cycle(fence, nodes=[Node(NodeName("local"), state=NodeState.DRAINING)]))
        fill(store, fence, queued, time.time())


def _asked(service: Service, queued: int) -> Samples:
    env = environment(service.data)
    with service.client() as client:
        return {
            "GET /jobs, 100 of them": [timed(lambda: client.jobs(limit=100)) for _ in range(20)],
            "GET /jobs, the last 100": [timed(lambda: client.jobs(limit=100, offset=queued - 100)) for _ in range(20)],
            "explain the last job": [timed(lambda: client.explain(queued)) for _ in range(5)],
            "all that one frame of `top` asks for": [timed(lambda: gather(client)) for _ in range(5)],
            "`schedulearn ls`": [timed(lambda: run(command("ls"), env=env, capture_output=True)) for _ in range(5)],
        }


def _samples(queued: int, figures: Figures) -> Samples:
    with world(queued) as there:
        # Reading comes first: the jobs that the cycles end have run for no time, so they tell nothing about others.
        return {**_reading(there), **_cycles(there, figures if queued == MANY else None)}


def _cycles(there: World, figures: Figures | None) -> Samples:
    def nothing() -> None: ...

    prepared: dict[str, Callable[[], object]] = {
        "cycle: nothing to do": nothing,
        "cycle: one ends, the next starts": there.one_ends,
        "cycle: a new submission": there.submit,
    }
    samples = {}
    statements = Statements(there.store)
    for name, prepare in prepared.items():
        seconds, counted = [], 0
        for _ in range(_ROUNDS):
            prepare()
            before = statements.count
            seconds.append(timed(there.scheduler.cycle))
            counted += statements.count - before
        samples[name] = seconds
        if figures:
            figures.add(f"SQL statements of a {name}", counted / _ROUNDS)
    return samples


def _reading(there: World) -> Samples:
    store, explainer = there.store, Explainer(there.store, there.clock)
    waiting = sorted(job.id for job in there.scheduler.state.queue)
    tenth, last = waiting[9], waiting[-1]
    first = timed(lambda: explainer.explain(last))
    again = [timed(lambda: explainer.explain(last)) for _ in range(5)]
    changed = []
    for _ in range(5):
        there.submit()
        there.scheduler.cycle()
        changed.append(timed(lambda: explainer.explain(last)))
    return {
        "list_jobs, a page of 100": [timed(store.list_jobs) for _ in range(_ROUNDS)],
        "explain the last job, the first time": [first],
        "explain it again, nothing happened": again,
        "explain it after a change": changed,
        "explain the tenth job": [timed(lambda: explainer.explain(tenth)) for _ in range(5)],
        "read the state (load_state)": [timed(store.load_state) for _ in range(3)],
        "recovery (load_state and restore)": [timed(lambda: _recover(there)) for _ in range(3)],
    }


def _recover(there: World) -> None:
    saved = there.store.load_state()
    order, facts = build_policy().order, LiveFacts(there.store)
    restore(order, facts, saved.jobs, saved.attempts, saved.leases, saved.nodes, {}, there.clock.now())
