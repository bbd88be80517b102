"""Work moves to where it is done sooner."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from schedulearn.core.domain.ids import NodeName
from schedulearn.core.domain.job import Job
from schedulearn.core.policies.loads import Load, ends, loads_of
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.stages import Board, FreeNode, Memory, Moves

_MOVED = "balance.moved"
_TIMES = 3.0  # a move must bring so many times what it costs
_PART = 0.1  # and this part of what the job has left: estimates are not exact
_END = 5.0  # jobs: as much as these counts the end of all


@dataclass(frozen=True, slots=True)
class _Move:
    load: Load
    home: NodeName
    target: NodeName
    cost: float
    gain: float = 0.0  # seconds by which it shortens the sum of completion times, the end of all counted in

    @property
    def least_gain(self) -> float:
        return _TIMES * self.cost + _PART * self.load.alone


class Balance:
    """Looks, `balance_every` seconds apart and whenever somebody has come or gone, for the one move to the machine with
    the least to do (of those that could run the job) that most shortens the sum of all completion times, if on each
    machine the shortest job goes first. It is made if it brings three times what it costs and a tenth of what the job
    has left, and if neither of the two machines ends later than the later one would have. When nobody has come for
    `balance_rest`, the end of all counts, too: until then newcomers fill the machines that have less to do.

    One job moves at a time, and none again within `balance_rest`, twice as long after each time. A job moves only if it
    is known what it has left; others count as much as the usual one.
    """

    def __init__(self, balance_every: float = 30.0, balance_rest: float = 60.0) -> None:
        self._every, self._rest = balance_every, balance_rest

    def migrate(self, board: Board, memory: Memory) -> Moves:
        loads = loads_of(board, memory)
        here = {str(load.job.id): load.job for there in loads.values() for load in there}
        moved: dict[str, list[float]] = {key: when for key, when in memory.get(_MOVED, {}).items() if key in here}
        memory[_MOVED] = moved
        if len(loads) < 2 or not here:
            return Moves()
        wake = board.now + self._every
        if any(job.move for job in here.values()):
            return Moves(wake_at=wake)
        quiet = board.now >= max(job.submitted_at for job in here.values()) + self._rest
        found = max(self._moves(board, loads, moved, _END if quiet else 0.0), key=lambda move: move.gain, default=None)
        if found is None:
            return Moves(wake_at=wake)
        job = found.load.job
        memory[_MOVED] = {**moved, str(job.id): [board.now, moved.get(str(job.id), (0.0, 0))[1] + 1]}
        to, why = {job.id: [found.target] * job.workers}, f"all together end {found.gain:.0f} s sooner"
        return Moves(to, wake, why, (_note(found, loads),))

    def _moves(
        self,
        board: Board,
        loads: Mapping[NodeName, Sequence[Load]],
        moved: Mapping[str, Sequence[float]],
        end: float,
    ) -> Iterator[_Move]:
        """Those that pay. `end`: how many jobs the end of all counts for."""
        nodes = {node.name: node for node in board.nodes()}
        least_first = sorted(loads, key=lambda name: (sum(load.work for load in loads[name]), len(loads[name])))
        before = {name: ends(there) for name, there in loads.items()}
        for home, there in loads.items():
            for load in there:
                target = next((name for name in least_first if _could_go(load.job, nodes[home], nodes[name])), home)
                if target == home or not self._may_go(board, load, moved):
                    continue
                others = [last for name, (_, last) in before.items() if name not in (home, target)]
                move = _Move(load, home, target, board.facts.restart_cost(load.job))
                gain = _gain(move, loads, (before[home], before[target]), max(others, default=0.0), end)
                if gain > move.least_gain and board.fits({load.job.id: [target] * load.job.workers}):
                    yield replace(move, gain=gain)

    def _may_go(self, board: Board, load: Load, moved: Mapping[str, Sequence[float]]) -> bool:
        if (
            not load.known
            or not board.may_move(load.job)
            or len({placement.node for placement in load.job.placements}) > 1
        ):
            return False
        at, times = moved.get(str(load.job.id), (-math.inf, 1))
        return bool(board.now >= at + self._rest * 2.0 ** (min(times, 32) - 1))


def _could_go(job: Job, home: FreeNode, node: FreeNode) -> bool:
    return node.could_hold(job.shape) and (job.shape.own_image or node.surroundings == home.surroundings)


def _gain(
    move: _Move,
    loads: Mapping[NodeName, Sequence[Load]],
    before: tuple[tuple[float, float], tuple[float, float]],
    others: float,
    end: float,
) -> float:
    """`before`: how the two machines would end; `others`: the last of the others. 0 where the two would end later."""
    load, cost = move.load, move.cost
    left = ends([other for other in loads[move.home] if other is not load])
    joined = ends([*loads[move.target], Load(load.job, load.alone + cost, load.work + cost)])
    was, will = max(last for _, last in before), max(left[1], joined[1])
    if will > was:
        return 0.0
    sooner = max(was, others) - max(will, others)
    return sum(total for total, _ in before) - left[0] - joined[0] + end * sooner


def _note(move: _Move, loads: Mapping[NodeName, Sequence[Load]]) -> Note:
    work = {name: round(sum(load.work for load in there), 3) for name, there in loads.items()}
    listed = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in work.items())
    words = (
        f"left to do: {listed}; with it on {move.target} all together end {move.gain:.0f} s sooner; "
        f"the move costs {move.cost:g} s"
    )
    numbers = {"work": work, "gain": move.gain, "cost": move.cost, "left": move.load.alone}
    return Note("balanced", words, move.load.job.id, move.home, {**numbers, "home": move.home, "target": move.target})
