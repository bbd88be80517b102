"""`specon`: the categories by a table, the scores by the published example, and what must hold whatever jobs report."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.core.control.migrate import Board, migrate
from schedulearn.core.control.moves import arrived
from schedulearn.core.control.state import State
from schedulearn.core.domain.errors import InvalidSpec
from schedulearn.core.domain.ids import JobId, NodeName, WorkerId
from schedulearn.core.domain.job import Attempt, Job, Placement, Worker
from schedulearn.core.domain.spec import Preemptible
from schedulearn.core.domain.states import JobState
from schedulearn.core.policies.catalogue.presets import build_policy
from schedulearn.core.policies.migrate.categories import CONVERGED, PROGRESSING, WATCHING, category_after, growth
from schedulearn.core.policies.migrate.specon import Specon
from schedulearn.core.policies.notes import Note
from schedulearn.core.policies.stages import Moves
from support.builders import job, node
from support.facts import AssumedFacts

EVERY = 30.0


class Reported(AssumedFacts):
    """What each job has reported: {job: {time: value}}."""

    def __init__(self, values: Mapping[int, Mapping[float, float]]) -> None:
        self.values = values

    def metric(self, job: Job, now: float, since: float = -math.inf) -> float | None:
        came = [(at, value) for at, value in self.values.get(job.id, {}).items() if since < at <= now]
        return max(came)[1] if came else None


class Cluster:
    """Jobs on nodes a, b, c, …, and a stage that is asked; moves are made at once."""

    def __init__(self, where: Mapping[int, str], nodes: str = "abcd", **params: Any) -> None:
        self.stage, self.memory, self.facts = Specon(**params), {}, Reported({})
        self.state = State(build_policy().order, self.facts, [node(name, cpus=64) for name in nodes])
        self.notes: list[Note] = []
        self.moved: list[tuple[int, str]] = []
        for number, name in where.items():
            self.add(number, name)

    def add(self, number: int, name: str, **more: Any) -> Job:
        one = job(number, **{"preemptible": Preemptible.YES, **more})
        one.state = JobState.RUNNING
        self.state.jobs[one.id] = one
        self.state.attempts[one.id] = None  # type: ignore[assignment] # only its key is asked for
        self._put(one, name)
        return one

    def _put(self, one: Job, name: str) -> None:
        self.state.ledger.give_back_all(one.shape, one.placements)
        one.placements = (Placement(NodeName(name)),)
        self.state.ledger.take_all(one.shape, one.placements)

    def end(self, number: int) -> None:
        one = self.state.jobs.pop(JobId(number))
        self.state.ledger.give_back_all(one.shape, one.placements)
        del self.state.attempts[one.id]

    def ask(self, now: float) -> Moves:
        answer = self.stage.migrate(Board(self.state, now), self.memory)
        self.notes += answer.notes
        for number, (name,) in answer.to.items():
            self.moved.append((number, name))
            self._put(self.state.jobs[number], name)
        return answer

    def until(self, now: float) -> None:
        """Ask whenever it wants to be asked."""
        at = 0.0
        while at <= now:
            wake = self.ask(at).wake_at
            if wake is None:
                return
            assert wake > at, "it would be asked for ever"
            at = wake

    def categories(self) -> dict[int, str]:
        return {int(number): record["category"] for number, record in self.memory["specon.jobs"].items()}


def slowing(start: float = 1.0, by: float = 0.05, end: float = 3000.0) -> dict[float, float]:
    """A metric that falls by ever less: the growth is 1, then 0.05, 0.0025, …"""
    values, value, step = {}, start, start
    for k in range(int(end / EVERY)):
        values[k * EVERY] = value
        value, step = value - step, step * by
    return values


# --- categories


@pytest.mark.parametrize(
    ("category", "grown", "before", "after"),
    [
        (PROGRESSING, 0.005, 0.02, WATCHING),
        (WATCHING, 0.004, 0.005, CONVERGED),  # the text; the printed pseudo-code would leave it
        (CONVERGED, 0.003, 0.004, CONVERGED),
        (PROGRESSING, 0.005, 0.005, PROGRESSING),  # no less than before
        (WATCHING, 0.006, 0.005, WATCHING),
        (CONVERGED, 0.006, 0.005, CONVERGED),
        (PROGRESSING, 0.0, 0.0, WATCHING),  # it cannot get less
        (WATCHING, 0.0, 0.0, CONVERGED),
        (PROGRESSING, 0.02, 0.5, PROGRESSING),
        (WATCHING, 0.01, 0.5, PROGRESSING),  # alpha itself is growth
        (CONVERGED, 0.9, 0.0, PROGRESSING),
        (PROGRESSING, 0.0, None, PROGRESSING),  # there is nothing yet to compare with
    ],
)
def test_the_rule(category: str, grown: float, before: float | None, after: str) -> None:
    assert category_after(category, grown, before, alpha=0.01) == after


def test_growth_is_a_part_of_the_range_seen() -> None:
    record = {"value": 4.0, "low": 2.0, "high": 10.0}
    assert growth(record, 6.0) == pytest.approx(2 / 8)
    assert growth(record, 0.0) == pytest.approx(4 / 10), "the range grows with it"
    assert growth({"value": 3.0, "low": 3.0, "high": 3.0}, 3.0) == 0.0


def test_a_job_is_judged_after_whole_intervals_of_its_own() -> None:
    cluster = Cluster({1: "a"})
    cluster.facts.values = {1: slowing()}
    seen = []
    for now in (0.0, 30.0, 45.0, 60.0, 90.0, 120.0):
        wake = cluster.ask(now).wake_at
        assert wake == 30.0 * (now // 30 + 1), "between, nothing is looked at"
        seen.append(cluster.categories()[1])
    assert seen == [PROGRESSING, PROGRESSING, PROGRESSING, PROGRESSING, WATCHING, CONVERGED]
    first, second = cluster.notes
    assert (first.kind, first.job) == ("category", 1)
    numbers = dict(first.data)
    assert (numbers["from"], numbers["to"], numbers["alpha"]) == (PROGRESSING, WATCHING, 0.01)
    span = float(str(numbers["high"])) - float(str(numbers["low"]))
    change = abs(float(str(numbers["value"])) - float(str(numbers["value_before"])))
    assert numbers["growth"] == pytest.approx(change / span), "it can be checked by hand"
    assert float(str(numbers["growth"])) < float(str(numbers["growth_before"]))
    assert second.data["to"] == CONVERGED
    assert "WC → CC" in second.words


# --- the manager


def test_the_published_example() -> None:
    """Scores of 6, 3.5, 4 and 11 with 3, 2, 2 and 5 other jobs; job 1 of the fourth goes to the second."""
    where = {1: "d", 2: "a", 3: "a", 4: "a", 5: "b", 6: "b", 7: "c", 8: "c", **dict.fromkeys(range(9, 14), "d")}
    cluster = Cluster(where)
    growing = {float(t): float(t) for t in range(0, 600, 30)}
    cluster.facts.values = dict.fromkeys(where, growing) | {1: slowing()}
    # Job 5 is watched when job 1 asks, at 150 s: its growth falls below alpha in the last interval alone.
    cluster.facts.values = {**cluster.facts.values, 5: {t: min(t, 120.0) + 0.001 * max(0.0, t - 120) for t in growing}}
    cluster.until(150.0)
    assert cluster.categories()[5] == WATCHING
    (note,) = [note for note in cluster.notes if note.kind == "marked"]
    assert note.data["scores"] == {"a": 6.0, "b": 3.5, "c": 4.0, "d": 11.0}
    assert cluster.moved == [(1, "b")]
    assert "scores: a 6, b 3.5, c 4, d 11; it goes to b" in note.words


def converge(cluster: Cluster, slow: Sequence[int], others: Sequence[int]) -> None:
    growing = {float(t): float(t) for t in range(0, 3000, 30)}
    cluster.facts.values = dict.fromkeys(others, growing) | {number: slowing() for number in slow}


def test_who_disturbs_too_few_stays_where_it_is_and_may_ask_later() -> None:
    cluster = Cluster({1: "a", 2: "a"})
    converge(cluster, [1], [2, 3])
    cluster.until(400.0)
    assert cluster.moved == []
    assert not cluster.memory["specon.jobs"]["1"]["marked"]
    cluster.add(3, "a")
    cluster.ask(400.0)
    assert cluster.moved == [], "it is asked at its own interval, not between"
    cluster.ask(420.0)
    assert cluster.moved == [(1, "b")]


def test_how_many_others_is_a_parameter() -> None:
    cluster = Cluster({1: "a", 2: "a"}, specon_others=0)
    converge(cluster, [1], [2])
    cluster.until(150.0)
    assert cluster.moved == [(1, "b")]


def test_who_is_well_where_it_is_is_marked_and_left_alone() -> None:
    """b has the higher score: three progressing jobs against two and the converged one."""
    where = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}
    cluster = Cluster(where, nodes="ab")
    converge(cluster, [1], [2, 3, 4, 5, 6])
    cluster.until(150.0)
    assert cluster.moved == []
    (note,) = [note for note in cluster.notes if note.kind == "marked"]
    assert note.data["scores"] == {"a": 5.0, "b": 6.0}
    assert "it stays" in note.words
    for number in (4, 5, 6):
        cluster.end(number)
    cluster.until(600.0)
    assert cluster.moved == [], "it was marked: it does not move any more, though b is empty"


def test_of_equal_nodes_the_one_that_is_used_less() -> None:
    cluster = Cluster({1: "a", 2: "a", 3: "a"}, nodes="abc")
    cluster.add(4, "b", cpus=8)
    cluster.add(5, "c", cpus=4)
    converge(cluster, [1], [2, 3, 4, 5])
    cluster.until(150.0)
    assert cluster.moved == [(1, "c")]


def test_a_node_without_room_is_no_candidate() -> None:
    cluster = Cluster({2: "a", 3: "a"}, nodes="ab")
    cluster.add(1, "a", cpus=32)
    cluster.add(4, "b", cpus=40)
    converge(cluster, [1], [2, 3, 4])
    cluster.until(150.0)
    assert cluster.moved == []
    (note,) = [note for note in cluster.notes if note.kind == "marked"]
    assert note.data["candidates"] == ["a"]


@pytest.mark.parametrize("more", [{"preemptible": Preemptible.NO}, {"preemptible": Preemptible.AUTO}])
def test_who_must_not_move_does_not(more: Any) -> None:
    cluster = Cluster({2: "a", 3: "a"})
    cluster.add(1, "a", **more)
    converge(cluster, [1], [2, 3])
    cluster.until(600.0)
    assert cluster.moved == []


def test_one_moves_at_a_time_through_the_control_loop_and_the_history_has_the_numbers() -> None:
    """Two ask at the same instant; the second has to wait until the first has arrived."""
    cluster = Cluster({1: "a", 2: "a", 3: "a", 4: "a"})
    converge(cluster, [1, 2], [3, 4])
    state, stage = cluster.state, Specon()
    for one in state.jobs.values():
        one.attempt = 1
        worker = Worker(WorkerId(one.id, 1, 0), NodeName("a"), started_at=0.0)
        state.attempts[one.id] = Attempt(one.attempt_id, 0.0, [worker])
    for now in range(0, 151, 30):
        migrate(state, stage, "specon", float(now))
    assert [number for number, one in state.jobs.items() if one.move] == [1]
    events = state.take_changes().history
    kinds = Counter(event.kind for event in events)
    assert kinds["category"] == 4
    assert kinds["marked"] == 1
    assert all(event.data for event in events if event.kind in ("category", "marked"))
    migrate(state, stage, "specon", 151.0)
    assert state.jobs[JobId(2)].move is None
    first = state.jobs[JobId(1)]
    arrived(state, first, 155.0)
    first.state = JobState.RUNNING
    migrate(state, stage, "specon", 155.0)
    assert state.jobs[JobId(2)].move is not None


# --- rebalance


def settled(where: Mapping[int, str], nodes: str = "abcd") -> Cluster:
    """All have converged; the higher its number, the later."""
    cluster = Cluster(where, nodes)
    cluster.memory = {
        "specon.jobs": {
            str(number): {
                **{"category": CONVERGED, "due": 1e9, "read": 0.0, "value": 0.0, "low": 0.0, "high": 1.0},
                **{"growth": 0.0, "settled": 10.0 * number, "asks": False, "marked": True, "rebalanced": False},
            }
            for number in where
        }
    }
    return cluster


@pytest.mark.parametrize(
    ("where", "nodes", "expected"),
    [
        # the source's: four jobs on two nodes, those of one complete: it takes the last to converge, and no more
        ({3: "b", 4: "b"}, "ab", [(4, "a")]),
        # 8 jobs on 3 nodes: the idle one takes two (8 // 3), the latest first, wherever they are
        ({1: "a", 2: "a", 3: "a", 4: "a", 5: "b", 6: "b", 7: "b", 8: "b"}, "abc", [(8, "c"), (7, "c")]),
        # from a node that holds at least two more
        ({1: "a", 2: "b"}, "abc", []),
        # nobody is idle: fewer than 8 // 2 - 1 on b
        ({1: "a", 2: "a", 3: "a", 4: "a", 5: "a", 6: "a", 7: "a", 8: "b"}, "ab", [(7, "b"), (6, "b")]),
        # one less is no reason
        ({1: "a", 2: "a", 3: "a", 4: "b"}, "ab", []),
    ],
)
def test_rebalance(where: dict[int, str], nodes: str, expected: list[tuple[int, str]]) -> None:
    cluster = settled(where, nodes)
    for _ in range(10):
        cluster.ask(1000.0)
    assert cluster.moved == expected
    assert [note.kind for note in cluster.notes] == ["rebalanced"] * len(expected)
    for note in cluster.notes:
        assert {"jobs", "balance_factor", "settled", "home", "target"} <= note.data.keys()


def test_a_node_that_no_job_can_run_on_is_not_idle() -> None:
    """With c, which runs no containers, there would be an idle node, and 8 // 3 - 1 jobs on b would be enough."""
    cluster = Cluster({}, "abc")
    for name in "ab":
        cluster.state.ledger.set_node(node(name, cpus=64, executor="docker"))
    for number in range(1, 9):
        cluster.add(number, "b" if number == 8 else "a", image="train")
    cluster.memory = settled(dict.fromkeys(range(1, 9), "a")).memory
    for _ in range(10):
        cluster.ask(1000.0)
    assert cluster.moved == [(7, "b"), (6, "b")]
    assert cluster.notes[0].data["jobs"] == {"a": 7, "b": 1}


def test_rebalance_waits_for_all_to_converge_and_brings_nobody_back() -> None:
    cluster = settled({1: "b", 2: "b", 3: "b"}, "ab")
    records = cluster.memory["specon.jobs"]
    cluster.memory["specon.jobs"] = {**records, "1": {**records["1"], "category": WATCHING, "marked": False}}
    cluster.ask(1000.0)
    assert cluster.moved == []
    cluster.memory["specon.jobs"] = records
    cluster.ask(1000.0)
    assert cluster.moved == [(3, "a")]
    for number in (1, 2):
        cluster.end(number)
        cluster.add(number, "a")  # as if they had been there all the time
    cluster.ask(1001.0)
    assert cluster.moved == [(3, "a"), (2, "b")], "3 converged last, but it has come from there"


# --- whatever jobs report

_value = st.one_of(st.none(), st.floats(-50, 50).map(lambda x: round(x, 3)))
_curves = st.lists(st.lists(_value, min_size=12, max_size=12), min_size=1, max_size=7)
_homes = st.lists(st.sampled_from("abc"), min_size=7, max_size=7)


def play(curves: Sequence[Sequence[float | None]], homes: Sequence[str], change: Any = lambda x: x) -> Cluster:
    """Each job reports a value (or nothing) in each interval."""
    where = {number: homes[number - 1] for number in range(1, len(curves) + 1)}
    cluster = Cluster(where, nodes="abc", specon_alpha=0.05)
    cluster.facts.values = {
        number: {k * EVERY: change(value) for k, value in enumerate(curve) if value is not None}
        for number, curve in enumerate(curves, 1)
    }
    cluster.until(20 * EVERY)
    return cluster


@given(_curves, _homes)
@settings(deadline=None, max_examples=50)
def test_nobody_moves_more_often_than_the_rule_allows(curves: Any, homes: Any) -> None:
    cluster = play(curves, homes)
    reasons = Counter((note.job, note.kind) for note in cluster.notes if note.kind != "category")
    assert all(count == 1 for count in reasons.values()), "marked once, rebalanced once"
    moves = Counter(number for number, _ in cluster.moved)
    for number, count in moves.items():
        allowed = sum((number, kind) in reasons for kind in ("marked", "rebalanced"))
        assert count <= allowed
    targets = [note.data["target"] for note in cluster.notes if note.kind == "rebalanced"]
    assert len(cluster.moved) <= len(moves) + len(targets)


@given(_curves, _homes)
@settings(deadline=None, max_examples=50)
def test_every_change_of_category_is_a_note(curves: Any, homes: Any) -> None:
    cluster = play(curves, homes)
    now = dict.fromkeys(range(1, len(curves) + 1), PROGRESSING)
    for note in cluster.notes:
        if note.kind == "category" and note.job is not None:
            assert note.data["from"] == now[note.job]
            now[note.job] = str(note.data["to"])
            expected = category_after(
                str(note.data["from"]),
                note.data["growth"],
                note.data["growth_before"],
                note.data["alpha"],  # type: ignore[arg-type]
            )
            assert expected == note.data["to"], "by its own numbers"
    assert now == cluster.categories()


@given(_curves, _homes, st.sampled_from([0.25, 2.0, 1024.0, -8.0]), st.sampled_from([-1024.0, 0.0, 64.0]))
@settings(deadline=None, max_examples=50)
def test_neither_scale_nor_zero_of_a_metric_matters(curves: Any, homes: Any, scale: float, shift: float) -> None:
    exact = [[None if v is None else round(v * 8) / 8 for v in curve] for curve in curves]  # sums without rounding
    plain, other = play(exact, homes), play(exact, homes, lambda value: value * scale + shift)
    assert plain.moved == other.moved
    assert [(n.kind, n.job, n.data.get("to")) for n in plain.notes] == [
        (n.kind, n.job, n.data.get("to")) for n in other.notes
    ]


@given(_curves, _homes, st.integers(1, 7))
@settings(deadline=None, max_examples=50)
def test_silence_changes_nothing(curves: Any, homes: Any, silent: int) -> None:
    """A job that says nothing stays as it was judged, and is not moved for it."""
    quiet = [[None] * 12 if number == silent else curve for number, curve in enumerate(curves, 1)]
    cluster = play(quiet, homes)
    if silent <= len(curves):
        assert cluster.categories()[silent] == PROGRESSING
        assert silent not in {number for number, _ in cluster.moved}
    late = Cluster({1: "a", 2: "a", 3: "a"})
    converge(late, [1], [2, 3])
    late.facts.values = {**late.facts.values, 1: {t: v for t, v in slowing().items() if t <= 90.0}}
    late.until(3000.0)
    assert late.categories()[1] == WATCHING, "it was being watched when it fell silent"
    assert late.moved == []


@pytest.mark.parametrize(
    ("param", "value"),
    [("specon_alpha", 1), ("specon_alpha", "much"), ("specon_interval", 0), ("specon_others", -1)],
)
def test_a_wrong_parameter_is_named(param: str, value: object) -> None:
    with pytest.raises(InvalidSpec, match=rf"params\.{param}"):
        build_policy("specon", None, {param: value})
