"""10,000 queued jobs: a scheduling cycle, `ls`, `explain`, and starting again, beside 100 queued jobs."""

from collections.abc import Callable

from bench.figures import Figures, median, timed
from bench.world import Statements, World, world
from schedulearn.control.restore import restore
from schedulearn.policies.presets import build_policy
from schedulearn.service.explainer import Explainer

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
    return figures


def _samples(queued: int, figures: Figures) -> Samples:
    with world(queued) as there:
        return {**_cycles(there, figures if queued == MANY else None), **_reading(there)}


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
    restore(build_policy().order, saved.jobs, saved.attempts, saved.leases, saved.nodes, there.clock.now())
