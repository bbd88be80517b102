"""The harness of random faults: it finds what it should in diaries that tell of it, and its schedules come by seed.

`make slow` runs it on the real service; see docs/promises.md.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.outside.diary import PROGRAM, Line, read
from support.outside.plan import VARIANTS, JobPlan, make_plan
from support.outside.users import Known
from support.outside.verdict import Ending, problems
from support.service import PATIENCE
from support.waiting import wait_until

SHORT = JobPlan("short", 0.0)
FAILS = JobPlan("fails", 0.0, code=3, restarts=1)
PAIR = JobPlan("pair", 0.0, workers=2)
TAKEN = Known(id=1)
OUTPUT = "begin 1\nend 1\n"
DONE = Ending(1, "succeeded", 1, OUTPUT)


def run(attempt: int, begin: float, end: float, code: int = 0, rank: int = 0) -> list[Line]:
    """A worker that came to its end by itself."""
    return [Line("begin", attempt, rank, 7, begin), Line("end", attempt, rank, 7, end, code)]


@pytest.mark.parametrize(
    ("job", "known", "endings", "diary"),
    [
        (SHORT, TAKEN, [DONE], run(1, 1, 2)),
        (SHORT, Known(unsure=True), [], []),
        (SHORT, Known(unsure=True), [DONE], run(1, 1, 2)),
        (SHORT, replace(TAKEN, cancel_tried=True), [DONE._replace(state="cancelled")], run(1, 1, 2)[:1]),
        (SHORT, replace(TAKEN, rm_tried=True, rm_done=True), [], run(1, 1, 2)),
        (SHORT, replace(TAKEN, hits=1), [DONE._replace(state="failed")], run(1, 1, 2)[:1]),
        (SHORT, replace(TAKEN, hits=1), [DONE._replace(attempt=2, output=None)], [*run(1, 1, 2), *run(2, 3, 4)]),
        (FAILS, TAKEN, [Ending(1, "failed", 2)], [*run(1, 1, 2, 3), *run(2, 7, 8, 3)]),
        (PAIR, TAKEN, [DONE], [*run(1, 1, 4), *run(1, 2, 3, rank=1)]),
    ],
)
def test_what_is_as_it_should_be_is_no_problem(
    job: JobPlan, known: Known, endings: list[Ending], diary: list[Line]
) -> None:
    assert problems(job, known, endings, diary) == []


@pytest.mark.parametrize(
    ("job", "known", "endings", "diary", "told"),
    [
        (SHORT, TAKEN, [], [], "job 1 is lost"),
        (SHORT, TAKEN, [DONE, DONE._replace(id=2)], run(1, 1, 2), "made 2 jobs"),
        (SHORT, replace(TAKEN, rm_done=True, rm_tried=True), [DONE], run(1, 1, 2), "was removed, and is there"),
        (SHORT, TAKEN, [DONE], [], "called succeeded"),
        (SHORT, TAKEN, [DONE], run(1, 1, 2)[:1], "called succeeded"),
        (SHORT, TAKEN, [DONE], run(1, 1, 2, code=1), "called succeeded"),
        (PAIR, TAKEN, [DONE], run(1, 1, 2), "called succeeded"),
        (SHORT, TAKEN, [DONE._replace(output="begin 1\n")], run(1, 1, 2), "its output is"),
        (SHORT, TAKEN, [DONE._replace(state="failed")], run(1, 1, 2), "is failed, which it should not be"),
        (SHORT, TAKEN, [DONE._replace(state="cancelled")], run(1, 1, 2), "is cancelled, which it should not be"),
        (SHORT, replace(TAKEN, hits=2), [DONE._replace(state="cancelled")], [], "is cancelled, which it should not be"),
        (FAILS, TAKEN, [Ending(1, "failed", 1)], run(1, 1, 2, 3), "failed after 1 runs"),
        (FAILS, TAKEN, [Ending(1, "failed", 0)], [], "never ran"),
        (SHORT, TAKEN, [DONE], [*run(1, 1, 2), *run(1, 3, 4)], "attempt 1 of worker 0 was started 2 times"),
        (SHORT, TAKEN, [DONE._replace(attempt=2)], [*run(1, 1, 2), *run(2, 3, 4)], "again after it had succeeded"),
        (SHORT, TAKEN, [DONE], [*run(1, 1, 5), *run(2, 3, 4)], "attempt 2 began before attempt 1 was over"),
        (PAIR, TAKEN, [DONE], [*run(1, 1, 5), *run(1, 1, 9, rank=1), *run(2, 6, 7)], "attempt 2 began before"),
        (SHORT, TAKEN, [DONE], [Line("overlap", 2, 0, 8, 1.0), *run(2, 1, 2)], "ran beside another"),
    ],
)
def test_what_must_not_be_is_found(
    job: JobPlan, known: Known, endings: list[Ending], diary: list[Line], told: str
) -> None:
    found = problems(job, known, endings, diary)
    assert any(told in problem for problem in found), found


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_seed_is_always_the_same_schedule(variant: str) -> None:
    assert make_plan(7, variant) == make_plan(7, variant)
    assert make_plan(7, variant) != make_plan(8, variant)


def test_a_job_keeps_its_diary_and_notices_another_run_of_itself(tmp_path: Path) -> None:
    book = tmp_path / "job"
    first = start(book, "3600", attempt=1)
    wait_until(lambda: [line.what for line in read(book)] == ["begin"], PATIENCE)
    assert start(book, "0", attempt=2).wait(PATIENCE) == 0
    first.terminate()
    assert first.wait(PATIENCE) == 143
    assert start(book, "0", attempt=3).wait(PATIENCE) == 0
    lines = [f"{line.what} {line.attempt} {line.code}" for line in read(book)]
    assert lines == ["begin 1 0", "overlap 2 0", "begin 2 0", "end 2 0", "stop 1 143", "begin 3 0", "end 3 0"]


def start(book: Path, seconds: str, attempt: int) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-S", "-c", PROGRAM, str(book), seconds, "0", "obedient"]
    env = {"SCHEDULEARN_WORKER": f"1.{attempt}.0"}
    return subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
