"""Why jobs wait, as the overview tells it: nobody waits for that, and it is looked for once at a time."""

import threading
from collections.abc import Iterator

import pytest

from schedulearn.core.control.explain import Explanation
from schedulearn.core.domain.ids import JobId
from schedulearn.service.gateway import overview
from schedulearn.service.gateway.overview import _Reasons
from support.waiting import wait_until

Known = list[tuple[JobId, Explanation]]


class Slow:
    """Finds what it found before plus one, the first time at once, then only when it is let."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_end = threading.Event()

    def __call__(self, count: int) -> Known:
        self.calls += 1
        if self.calls > 1:
            self.may_end.wait()
        return [(JobId(n), Explanation(f"look {self.calls}")) for n in range(1, self.calls + 1)][:count]


@pytest.fixture
def find() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.may_end.set()


def test_the_first_look_is_waited_for(find: Slow) -> None:
    assert [why.text for _, why in _Reasons(find).known(1)] == ["look 1"]


def test_while_new_ones_are_looked_for_the_last_ones_are_told(find: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_AT_EASE", 0.0)
    reasons = _Reasons(find)
    first = reasons.known(1)
    monkeypatch.setattr(overview, "_PATIENCE", 0.0)
    assert [reasons.known(serial) for serial in (2, 3, 4)] == [first] * 3
    assert find.calls == 2, "never two at a time"
    find.may_end.set()
    assert wait_until(lambda: len(reasons.known(2)) > 1, what="the new reasons")


def test_a_look_that_fails_leaves_what_was_known() -> None:
    answers: list[Known] = [[(JobId(1), Explanation("because"))]]
    reasons = _Reasons(lambda _: answers.pop())
    assert reasons.known(1) == reasons.known(2) == [(JobId(1), Explanation("because"))]
