"""SpeCon's second part: when every job has converged, nodes that ran empty take jobs from full ones."""

from collections.abc import Sequence

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.policies.migrate.categories import CONVERGED, Record
from schedulearn.core.policies.migrate.round import Round
from schedulearn.core.policies.notes import Note

To = dict[JobId, list[NodeName]]


def rebalance(here: Round, filling: Sequence[NodeName]) -> tuple[To, str, list[NodeName]]:
    """Who moves, why, and which nodes were idle and are not full yet. `filling`: those of the last time."""
    if not here.records or not all(_settled(record) for record in here.records.values()):
        return {}, "", []
    fair = max(1, len(here.records) // len(here.nodes)) if here.nodes else 1
    names = [node.name for node in here.nodes]
    idle = [name for name in names if not here.jobs[name] or (name in filling and len(here.jobs[name]) < fair)]
    takers = idle or [name for name in names if len(here.jobs[name]) < fair - 1]
    for taker in takers:
        if job := _latest(here, taker, takers):
            return {job.id: [taker] * job.workers}, _note(here, job, taker, fair), idle
    return {}, "", idle


def _settled(record: Record) -> bool:
    """Converged is enough: where nobody else learns, nobody asks to be moved, and so nobody is marked."""
    return bool(record["marked"]) or record["category"] == CONVERGED


def _latest(here: Round, taker: NodeName, takers: Sequence[NodeName]) -> Job | None:
    """The job with most left to do, as far as anybody knows: the last one to converge."""
    full = [n for n, jobs in here.jobs.items() if n not in takers and len(jobs) >= len(here.jobs[taker]) + 2]
    able = [job for name in full for job in here.jobs[name] if _may_go(here, job) and here.fits(job, taker)]
    return max(able, key=lambda job: (here.records[job.id]["settled"], job.id), default=None)


def _may_go(here: Round, job: Job) -> bool:
    return here.home(job) is not None and here.board.may_move(job) and not here.records[job.id]["rebalanced"]


def _note(here: Round, job: Job, taker: NodeName, fair: int) -> str:
    home, settled = here.home(job), float(here.records[job.id]["settled"])
    here.change(job, marked=True, rebalanced=True, asks=False)
    counts = {name: len(jobs) for name, jobs in here.jobs.items()}
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    words = (
        f"all have converged; jobs: {listed}; {taker} takes it: it converged last, {here.board.now - settled:g} s ago"
    )
    data = {"jobs": counts, "balance_factor": fair, "settled": settled, "home": home, "target": taker}
    here.notes.append(Note("rebalanced", words, job.id, home, data))
    return f"rebalanced: {counts[home] if home else 0} jobs on {home}, {counts[taker]} there"
