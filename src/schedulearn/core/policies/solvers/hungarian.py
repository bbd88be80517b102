"""Pack anew, then bind the packed nodes to real ones so that as few workers as possible move."""

from collections.abc import Sequence

from schedulearn.core.policies.solvers.problem import Assignment, Problem, best_fit_decreasing


def solve(problem: Problem) -> Assignment | None:
    """Best-fit-decreasing onto anonymous nodes, then the binding that keeps most workers where they are."""
    packed = best_fit_decreasing(problem)
    if packed is None or not any(job.now for job in problem.jobs):
        return packed  # where nobody is anywhere yet, any binding will do, and the large library is not loaded
    binding = list(range(len(problem.capacity)))
    for group in _equal_nodes(problem):
        for anonymous, real in zip(group, _bind(problem, packed, group), strict=True):
            binding[anonymous] = real
    return tuple({binding[node]: n for node, n in spread.items()} for spread in packed)


def _equal_nodes(problem: Problem) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for node, capacity in enumerate(problem.capacity):
        groups.setdefault(capacity, []).append(node)
    return list(groups.values())


def _bind(problem: Problem, packed: Assignment, group: Sequence[int]) -> list[int]:
    """For each anonymous node of a group of equal ones the real node that it becomes."""
    at = {node: i for i, node in enumerate(group)}
    kept = [[0] * len(group) for _ in group]  # workers that stay if this anonymous node becomes that real one
    for job, spread in zip(problem.jobs, packed, strict=True):
        for anonymous in spread.keys() & at.keys():
            for real in job.now.keys() & at.keys():
                kept[at[anonymous]][at[real]] += min(spread[anonymous], job.now[real])
    from scipy.optimize import linear_sum_assignment

    _, columns = linear_sum_assignment(kept, maximize=True)
    return [group[int(column)] for column in columns]
