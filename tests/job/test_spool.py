"""The spool: numbered in order, whole or not at all, bounded, and shared by several processes."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.job.reporter import Reporter
from schedulearn.job.sender import Sender
from schedulearn.job.service import Service
from schedulearn.job.spool import Spool, number
from schedulearn.service.progress.spool import dropped


def points(*steps: int) -> list[dict[str, Any]]:
    return [{"at": 0.0, "step": step, "values": {"loss": 1.0}} for step in steps]


def steps(found: list[dict[str, Any]]) -> list[int]:
    return [point["step"] for point in found]


@given(
    last=st.integers(0, 2**60),
    given=st.lists(st.one_of(st.none(), st.integers(0, 2**60)), max_size=20),
)
def test_numbers_grow_always(last: int, given: list[int | None]) -> None:
    numbered = number([{} if seq is None else {"seq": seq} for seq in given], last)
    found = [last, *(point["seq"] for point in numbered)]
    assert found == sorted(set(found))


def test_what_goes_in_comes_out_in_batches_and_then_the_file_is_empty(spool: Path) -> None:
    file = Spool(spool)
    file.append(points(0, 1, 2))
    file.append(points(3, 4))
    seen: list[int] = []
    while (batch := file.next_batch(2)).points:
        seen += steps(batch.points)
        file.confirm(batch)
    assert seen == [0, 1, 2, 3, 4]
    assert spool.read_bytes() == b""


def test_numbers_go_on_after_the_file_was_emptied_even_if_the_clock_is_set_back(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Spool(spool)
    file.append(points(0))
    first = file.next_batch(10)
    file.confirm(first)
    monkeypatch.setattr("schedulearn.job.spool.time.time_ns", lambda: 1000)
    Spool(spool).append(points(1))
    assert Spool(spool).next_batch(10).points[0]["seq"] == first.points[0]["seq"] + 1


def test_what_is_not_confirmed_comes_again_with_the_same_numbers(spool: Path) -> None:
    Spool(spool).append(points(0, 1))
    assert Spool(spool).next_batch(10) == Spool(spool).next_batch(10)


def test_a_full_disk_leaves_the_file_as_it_was(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Spool(spool)
    file.append(points(0))
    before = spool.read_bytes()
    write, room = os.write, [10]

    def full(handle: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "no space left")
        return write(handle, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr("schedulearn.job.spool.os.write", full)
        with pytest.raises(OSError, match="no space"):
            file.append(points(1))
    assert spool.read_bytes() == before
    file.append(points(2))
    assert steps(file.next_batch(10).points) == [0, 2]


def test_above_its_cap_it_is_thinned_and_the_newest_stays(spool: Path) -> None:
    file = Spool(spool, cap=10_000)
    for i in range(2000):
        file.append(points(i))
        assert spool.stat().st_size < 11_000
    found = steps(file.next_batch(10_000).points)
    assert found[-1] == 1999
    assert found == sorted(set(found))
    assert len(found) > 30


def test_a_batch_confirmed_after_a_thinning_loses_nothing(spool: Path) -> None:
    file = Spool(spool, cap=2000)
    file.append(points(*range(10)))
    batch = file.next_batch(10)
    file.append(points(*range(10, 40)))  # thins
    file.confirm(batch)
    found = steps(file.next_batch(100).points)
    assert found[-1] == 39
    assert sum(step >= 10 for step in found) >= 10


def test_one_process_sends_at_a_time(spool: Path) -> None:
    with Spool(spool).sending() as first, Spool(spool).sending() as second:
        assert (first, second) == (True, False)
    with Spool(spool).sending() as again:
        assert again


def test_a_child_forked_while_the_lock_is_held_does_not_keep_it(spool: Path) -> None:
    file = Spool(spool)
    waiting, going = os.pipe()
    with file.sending():
        child = os.fork()
        if not child:
            os.close(going)
            os.read(waiting, 1)  # lives until the parent says so
            os._exit(0)
    try:
        with file.sending() as mine:
            assert mine
    finally:
        os.close(going)
        os.close(waiting)
        os.waitpid(child, 0)


@pytest.mark.parametrize("text", ["", "garbage", "1 2", "9" * 300])
def test_a_damaged_state_is_started_again(spool: Path, text: str) -> None:
    spool.with_name("spool.jsonl.state").write_text(text)
    Spool(spool).append(points(1))
    assert steps(Spool(spool).next_batch(10).points) == [1]


def test_an_emptied_file_with_an_old_state_is_read_from_its_start(spool: Path) -> None:
    file = Spool(spool)
    file.append(points(*range(5)))
    file.confirm(file.next_batch(3))
    os.truncate(spool, 0)  # as a process does that is killed before it can write the state
    file.append(points(9))
    assert steps(file.next_batch(10).points) == [9]


def test_a_batch_is_small_enough_for_one_request(spool: Path) -> None:
    """Reports with many long names: a body above a megabyte would be refused, and lost."""
    file = Spool(spool)
    values = {f"{'m' * 190}{n}": 1.0 for n in range(100)}
    file.append([{"at": 0.0, "step": step, "values": values} for step in range(100)])
    seen: list[int] = []
    while (batch := file.next_batch(500)).lines:
        assert sum(map(len, batch.lines)) < 900_000
        seen += steps(batch.points)
        file.confirm(batch)
    assert seen == list(range(100))


def test_how_many_were_dropped_stays_in_the_file(spool: Path) -> None:
    """Also when all that is left was sent, and over another process that goes on."""
    file = Spool(spool, cap=1000)
    for step in range(0, 200, 10):
        file.append(points(*range(step, step + 10)), dropped=1)
    kept = steps(file.next_batch(1000).points)
    assert kept[-1] == 199
    assert dropped(spool) == 200 - len(kept) + 20
    again = Spool(spool)
    while (batch := again.next_batch(3)).points:
        again.confirm(batch)
    again.confirm(batch)
    assert dropped(spool) == 200 - len(kept) + 20
    again.append(points(200), dropped=5)
    assert steps(again.next_batch(10).points) == [200]
    assert dropped(spool) == 200 - len(kept) + 25


def test_a_disk_that_takes_nothing_is_told_of_the_dropped_ones_later(spool: Path) -> None:
    kept = Spool(spool)
    sender = Sender(Service("http://127.0.0.1:1", "", "1.1.0"), None)
    sender.hand_over(points(*range(10)), most=8, dropped=3)
    sender._spool = kept
    sender.hand_over(points(10), most=8)
    assert dropped(spool) == 3 + 5
    assert steps(kept.next_batch(100).points) == [1, 3, 5, 7, 9, 10]


def test_what_a_program_drops_is_counted(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulearn.job.reporter.MOST_WAITING", 100)
    monkeypatch.setattr(Reporter, "_start", lambda self: None)
    reporter = Reporter(Sender(Service("http://127.0.0.1:1", "", "1.1.0"), Spool(spool)))
    for step in range(1000):
        reporter.add(step, {"loss": 0.5})
    reporter._hand_over()
    assert dropped(spool) == 1000 - len(Spool(spool).next_batch(1000).points) > 0
