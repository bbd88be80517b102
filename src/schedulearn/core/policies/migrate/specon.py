"""SpeCon: jobs whose training has converged make room for those that still learn."""

from collections.abc import Callable, Mapping, Sequence

from schedulearn.core.domain.ids import JobId, NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.domain.resources import CPUS, GPUS
from schedulearn.core.policies.migrate.categories import (
    CONVERGED,
    GROWING,
    PROGRESSING,
    WATCHING,
    Record,
    category_note,
    looked_at,
    new_record,
)
from schedulearn.core.policies.migrate.rebalance import rebalance
from schedulearn.core.policies.migrate.round import Round
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.stages import Board, FreeNode, Memory, Moves

_RECORDS, _FILLING = "specon.jobs", "specon.filling"
_WEIGHTS = {PROGRESSING: 2.0, WATCHING: 1.5, CONVERGED: 1.0}


class Specon:
    """Each interval tells how much a job's metric still changes. One that has slowed down twice has converged; if it
    slows further, and more than `others` jobs beside it still learn, it goes to the node with the least score. A job
    is judged until it has been moved or been found to be well where it is. When all have converged, nodes that ran
    empty are filled again. One job moves at a time, each at most once for each of the two reasons.
    """

    def __init__(self, specon_alpha: float = 0.01, specon_interval: float = 30.0, specon_others: int = 1) -> None:
        """`specon_alpha`: the part of its range by which a metric changes at least while the job learns."""
        self._alpha, self._interval, self._others = specon_alpha, specon_interval, specon_others

    def migrate(self, board: Board, memory: Memory) -> Moves:
        here = self._look(board, memory)
        self._withdraw(here)
        to: dict[JobId, list[NodeName]] = {}
        why = ""
        if not any(job.move for job in board.jobs()):
            to, why = self._move_one(here)
            if not to:
                filling = [NodeName(name) for name in memory.get(_FILLING, ())]
                to, why, memory[_FILLING] = rebalance(here, filling)
        memory[_RECORDS] = {str(number): record for number, record in here.records.items()}
        waking = [float(record["due"]) for record in here.records.values() if not record["marked"]]
        looked = {number: record for number, record in here.records.items() if record["read"] == board.now}
        grown = {number: float(record["growth"]) for number, record in looked.items() if record["growth"] is not None}
        return Moves(to, min(waking, default=None), why, tuple(here.notes), grown)

    # --- who has converged

    def _look(self, board: Board, memory: Memory) -> Round:
        before: Mapping[str, Record] = memory.get(_RECORDS, {})
        jobs = board.jobs()
        shapes = {job.shape for job in jobs}
        # A node that none of the jobs can run on is neither idle nor a part of the cluster for them.
        nodes = [node for node in board.nodes() if any(node.could_hold(shape) for shape in shapes)]
        here = Round(board, {}, nodes, {node.name: [] for node in nodes})
        for job in jobs:
            for name in sorted({placement.node for placement in job.placements} & here.jobs.keys()):
                here.jobs[name].append(job)
            record = before.get(str(job.id))
            here.records[job.id] = self._judged(here, job, record) if record else self._new(job, board)
        return here

    def _new(self, job: Job, board: Board) -> Record:
        return new_record(job, board.now, self._interval, board.facts)

    def _judged(self, here: Round, job: Job, record: Record) -> Record:
        now = here.board.now
        if record["marked"] or now < record["due"]:
            return record
        after = looked_at(record, job, now, self._interval, self._alpha, here.board.facts)
        if note := category_note(job, record, after, self._alpha):
            here.notes.append(note)
        return after

    # --- who makes room

    def _move_one(self, here: Round) -> tuple[dict[JobId, list[NodeName]], str]:
        """The first of those who ask that has somewhere better to be; those found to be well where they are stay."""
        for job in here.board.jobs():
            record = here.records[job.id]
            if record["asks"] and here.board.may_move(job):
                target, why = self._decided(here, job)
                if target is not None:
                    return {job.id: [target] * job.workers}, why
        return {}, ""

    def _withdraw(self, here: Round) -> None:
        """Who asks, but disturbs nobody, asks no longer; it may do so again after the next interval."""
        for job in here.board.jobs():
            if here.records[job.id]["asks"] and not self._disturbs(here, job):
                here.change(job, asks=False)

    def _disturbs(self, here: Round, job: Job) -> bool:
        home = here.home(job)
        beside = here.jobs.get(home, []) if home is not None else []
        return sum(here.category(other) in GROWING for other in beside) > self._others

    def _decided(self, here: Round, job: Job) -> tuple[NodeName | None, str]:
        """Where it goes, None: nowhere; in both cases it is marked."""
        home, scores = here.home(job), scored(here.jobs, here.category)
        open_nodes = [node for node in here.nodes if node.name == home or here.fits(job, node.name)]
        least = min(scores[node.name] for node in open_nodes)
        candidates = [node for node in open_nodes if scores[node.name] == least]
        stays = home in {node.name for node in candidates}
        target = None if stays else min(candidates, key=lambda node: in_use(node, job)).name
        here.change(job, marked=True, asks=False, settled=here.board.now)
        listed = ", ".join(f"{name} {score:g}" for name, score in scores.items())
        words = f"converged on {home}; scores: {listed}; " + ("it stays" if stays else f"it goes to {target}")
        numbers = {"scores": dict(scores), "home": home, "candidates": [node.name for node in candidates]}
        here.notes.append(Note("marked", words, job.id, home, {**numbers, "target": target or home}))
        return target, f"converged; score {scores[home]:g} on {home}, {least:g} there" if home else ""


def scored(jobs: Mapping[NodeName, Sequence[Job]], category: Callable[[Job], str]) -> dict[NodeName, float]:
    """How much is being learned on each node."""
    return {name: sum(_WEIGHTS[category(job)] for job in there) for name, there in jobs.items()}


def in_use(node: FreeNode, job: Job) -> float:
    """The part of the node that is leased, of what the job is after: utilisation is nobody's promise."""
    usable, free = node.amounts(GPUS if job.shape.gpus else CPUS)
    return round((usable - free) / usable, 9) if usable > 0 else 0.0
