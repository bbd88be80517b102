"""What the solvers of `consolidate` make of the same workload, and of the same problems. Writes docs/results.md."""

import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figures, between_marks
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.migrate import consolidate
from schedulearn.core.policies.solvers.branch_and_bound import Answer
from schedulearn.core.policies.solvers.problem import Problem, score
from schedulearn.lab.sim.cluster import parse_cluster
from schedulearn.lab.sim.engine import SimOptions, Simulation
from schedulearn.lab.traces.registry import load

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
_BEGIN, _END = "<!-- table: python -m bench solvers -->\n", "<!-- end of table: solvers -->"
_SOLVERS = (consolidate.HUNGARIAN, consolidate.BRANCH_AND_BOUND, consolidate.GENETIC)
_TRACE = "synthetic:philly?jobs=300&load=1.0&gpus=64&seed={seed}"
_CLUSTER, _SEEDS = "8x8", 10
_OPTIONS = SimOptions(restart_cost=30.0, locality_penalty=0.3)


class _Solved:
    """Calls a solver of `consolidate`, and remembers the problems and how long they took."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.seconds = 0.0
        self._solved = consolidate.Consolidate._solved

    def __call__(self, stage: consolidate.Consolidate, problem: Problem) -> Answer:
        start = time.process_time()
        answer = self._solved(stage, problem)
        self.seconds += time.process_time() - start
        self.problems.append(problem)
        return answer


def measure() -> Figures:
    figures = Figures("consolidate: average completion time by solver")
    lines = [
        "| solver | average JCT (s) | moves | pairs across nodes | workers moved | proven | CPU of a problem |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    problems: list[Problem] = []
    for solver in ("", *_SOLVERS):
        solved, average, moves = _simulated(solver)
        figures.add(solver or "no moves", average, "s", against=f"{moves} moves")
        problems = problems or solved.problems
        cells = [f"{average:,.0f}", f"{moves:,}", *(_cost(solver, problems) if solver else ["", "", "", ""])]
        lines.append(f"| {solver or 'none: nobody moves'} | {' | '.join(cells)} |")
    between_marks(PAGE, _BEGIN, _END, "\n".join(lines))
    figures.note(f"{len(problems)} problems, those that hungarian met")
    return figures


def _simulated(solver: str) -> tuple[_Solved, float, int]:
    """Over all seeds."""
    solved, ends, moves = _Solved(), [], 0
    before = consolidate.Consolidate._solved
    consolidate.Consolidate._solved = lambda stage, problem: solved(stage, problem)  # type: ignore[method-assign]
    try:
        for seed in range(_SEEDS):
            stages = {"place": "k8s-default", "migrate": "consolidate" if solver else "none"}
            policy = build_policy("fifo", stages, {"solver": solver, "seed": seed} if solver else {})
            workload = load(_TRACE.format(seed=seed))
            result = Simulation(workload, parse_cluster(_CLUSTER), policy, _OPTIONS).run()
            ends += [job.jct for job in result.jobs]
            moves += sum(job.migrations for job in result.jobs)
    finally:
        consolidate.Consolidate._solved = before  # type: ignore[method-assign]
    return solved, sum(ends) / len(ends), moves


def _cost(solver: str, problems: Sequence[Problem]) -> list[str]:
    """Of its answers to the same problems: means, and CPU time."""
    asked = consolidate.Consolidate(solver=solver)
    start = time.process_time()
    answers = [asked._solved(problem) for problem in problems]
    seconds = time.process_time() - start
    scores = [
        score(problem, each.assignment) for problem, each in zip(problems, answers, strict=True) if each.assignment
    ]
    mean = [sum(each) / len(scores) for each in zip(*scores, strict=True)]
    proven = sum(each.proven for each in answers) if solver == consolidate.BRANCH_AND_BOUND else None
    words = "" if proven is None else f"{proven} of {len(problems)}"
    return [f"{mean[0]:.2f}", f"{mean[1]:.2f}", words, f"{1e3 * seconds / len(problems):.1f} ms"]
