"""`report` against a real service that comes and goes: everything arrives exactly once, and nothing ever waits."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_reports_arrive_with_step_value_and_time(run: Run, service: Any) -> None:
    run("""
        from schedulearn import job
        job.report(step=10, loss=0.5, accuracy=0.25)
        job.report(loss=0.25)
    """).end()
    first, second = service.points
    assert (first["step"], first["values"]) == (10, {"loss": 0.5, "accuracy": 0.25})
    assert (second["step"], second["values"]) == (11, {"loss": 0.25})  # without a step they are counted
    assert 0 <= second["at"] - first["at"] < 60
    assert first["seq"] > 1_600_000_000_000_000  # microseconds since the epoch


def test_reports_arrive_while_the_program_runs(run: Run, service: Any, eventually: Any, spool: Path) -> None:
    program = run("""
        from schedulearn import job
        job.report(step=1, loss=1)
        input()
    """)
    eventually(lambda: service.steps == [1])
    eventually(lambda: spool.read_text() == "")  # what was sent does not stay
    program.go_on()
    program.end()
    assert service.steps == [1]


def test_a_service_that_was_away_gets_everything_once(run: Run, service: Any, eventually: Any, spool: Path) -> None:
    program = run("""
        from schedulearn import job
        for phase in range(3):
            for i in range(700):
                job.report(step=phase * 700 + i, loss=i)
            print(phase)
            input()
    """)
    program.line()
    eventually(lambda: len(service.points) == 700)
    service.stop()
    program.go_on()
    program.line()
    eventually(lambda: spool.read_text().count("\n") == 700)
    service.start()
    program.go_on()
    program.line()
    eventually(lambda: len(service.points) == 2100)
    program.go_on()
    program.end()
    assert service.steps == list(range(2100))


def test_points_whose_answer_was_lost_are_sent_again_and_count_once(run: Run, service: Any, eventually: Any) -> None:
    service.fail_after_taking = 2
    program = run("""
        from schedulearn import job
        for i in range(50):
            job.report(step=i, loss=i)
        input()
    """)
    eventually(lambda: service.posts >= 3)
    program.go_on()
    program.end()
    assert service.steps == list(range(50))


def test_what_a_service_away_at_the_end_did_not_get_is_in_the_spool(
    run: Run, service: Any, spool: Path, read_spool: Any
) -> None:
    service.stop()
    run("""
        from schedulearn import job
        for i in range(10):
            job.report(step=i, loss=i)
    """).end()
    points = read_spool(spool)
    assert [point["step"] for point in points] == list(range(10))
    assert service.take({"worker": "17.2.0", "points": points}) == 10


def test_a_service_that_hangs_blocks_neither_report_nor_for_long_the_end(
    run: Run, service: Any, spool: Path, read_spool: Any, eventually: Any
) -> None:
    service.answering.clear()
    program = run(
        """
        from schedulearn import job
        job.report(step=0, loss=0)
        input()  # until the request hangs
        for i in range(1, 2000):
            job.report(step=i, loss=i)
        print("reported", flush=True)
        """,
        patience=2.0,
    )
    eventually(lambda: bool(read_spool(spool)))
    program.go_on()
    assert program.line() == "reported"
    program.end()
    assert [point["step"] for point in read_spool(spool)] == list(range(2000))


def test_a_killed_program_leaves_what_it_spooled_readable(
    run: Run, service: Any, spool: Path, read_spool: Any, eventually: Any
) -> None:
    service.stop()
    program = run("""
        from schedulearn import job
        i = 0
        while True:
            job.report(step=i, loss=i)
            i += 1
    """)
    eventually(lambda: spool.exists() and spool.stat().st_size > 100_000)
    program.kill()
    lines = spool.read_bytes().split(b"\n")
    points = [json.loads(line) for line in lines[:-1]]  # only the very last line may be cut
    steps = [point["step"] for point in points]
    assert len(steps) > 100
    assert steps == sorted(set(steps))
    assert [p["seq"] for p in points] == sorted({p["seq"] for p in points})


@pytest.mark.parametrize("cut", ['{"at": 1.0, "st', '{"at": 1.0, "step": 1, "values": {"loss": 1.0}'])
def test_a_process_goes_on_after_one_that_was_killed_over_a_line(run: Run, service: Any, spool: Path, cut: str) -> None:
    whole = '{"at": 1.0, "step": 1, "values": {"loss": 1.0}, "seq": 5}\n'
    spool.write_text(whole + cut)
    run("""
        from schedulearn import job
        job.report(step=2, loss=2)
    """).end()
    assert service.steps == [1, 2]


def test_a_hundred_thousand_reports_are_taken_and_bounded_in_memory(
    run: Run, service: Any, spool: Path, read_spool: Any
) -> None:
    service.stop()
    program = run("""
        import resource
        from schedulearn import job
        from schedulearn.job import reporter
        job.report(step=0, loss=0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(1, 100_000):
            job.report(step=i, loss=1 / i)
            assert len(reporter._reporter._points) <= reporter.MOST_WAITING
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """)
    assert int(program.line()) < 100 * 1024  # kilobytes
    program.end()
    steps = [point["step"] for point in read_spool(spool)]
    assert steps[-1] == 99_999  # the newest is never dropped
    assert steps == sorted(set(steps))
    assert spool.stat().st_size < 20 * 1024**2


def test_parent_and_forked_child_both_report(run: Run, service: Any, eventually: Any) -> None:
    program = run("""
        import os
        from schedulearn import job
        job.report(step=0, parent=1)  # waits in the parent when it forks
        child = os.fork()
        for i in range(300):
            job.report(step=i, **{"parent" if child else "child": i})
        if not child:
            job.flush()
            os._exit(0)
        os.waitpid(child, 0)
    """)
    program.end()
    values = [value for point in service.points for value in point["values"].items()]
    assert sorted(v for name, v in values if name == "child") == list(range(300))
    assert sorted(v for name, v in values if name == "parent") == sorted([1, *range(300)])


def test_children_of_multiprocessing_report_to_the_last(run: Run, service: Any) -> None:
    run("""
        import multiprocessing
        from schedulearn import job

        def work(number):
            for i in range(20):
                job.report(step=i, **{f"of_{number}": i})

        job.report(step=0, main=0)
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=work, args=(n,)) for n in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
    """).end()
    names = sorted(name for point in service.points for name in point["values"])
    assert names == ["main", *["of_0"] * 20, *["of_1"] * 20, *["of_2"] * 20]


def test_odd_values_are_left_out_and_nothing_is_raised(run: Run, service: Any) -> None:
    run("""
        import logging
        from schedulearn import job

        class Tensor:
            def __float__(self):
                return 0.5

        class Broken:
            def __float__(self):
                raise RuntimeError("several elements")

        logging.disable()
        job.report(step=1, loss=Tensor(), bad=Broken(), text="abc", none=None)
        job.report(step=2, text="abc")
        job.report(step="three", loss=1)
        job.report(step=2**70, loss=1)
        job.report(step=-1, loss=1)
        job.report(step=4, **{"x" * 1000: 1, "": 1, "a\\nb": 1})
        job.report()
        job.report(step=5.0, loss=True)
    """).end()
    assert [(p["step"], p["values"]) for p in service.points] == [(1, {"loss": 0.5}), (5, {"loss": 1.0})]


def test_a_loss_that_is_no_longer_a_number_is_reported_as_such(run: Run, service: Any) -> None:
    run("""
        from schedulearn import job
        job.report(step=1, loss=float("nan"), other=float("-inf"))
    """).end()
    values = service.points[0]["values"]
    assert math.isnan(values["loss"])
    assert values["other"] == -math.inf


def test_very_many_values_of_one_step_are_sent_in_pieces(run: Run, service: Any) -> None:
    run("""
        from schedulearn import job
        job.report(step=7, **{f"layer_{i}": i for i in range(250)})
    """).end()
    assert [len(point["values"]) for point in service.points] == [100, 100, 50]
    assert service.steps == [7, 7, 7]


@pytest.mark.parametrize("status", [422, 413])
def test_points_that_the_service_will_never_take_do_not_stop_later_ones(
    run: Run, service: Any, eventually: Any, spool: Path, status: int
) -> None:
    service.refuse_with = status
    program = run("""
        from schedulearn import job
        job.report(step=1, loss=1)
        input()
        job.report(step=2, loss=2)
    """)
    eventually(lambda: spool.exists() and (spool.parent / "spool.jsonl.state").stat().st_size > 0)
    eventually(lambda: spool.read_text() == "")
    service.refuse_with = None
    program.go_on()
    program.end()
    assert service.steps == [2]


def test_a_refused_token_or_a_fault_keeps_the_points(run: Run, service: Any, spool: Path, read_spool: Any) -> None:
    service.refuse_with = 500
    run("""
        from schedulearn import job
        job.report(step=1, loss=1)
    """).end()
    assert [point["step"] for point in read_spool(spool)] == [1]


def test_without_a_usable_spool_reports_still_arrive(run: Run, service: Any, eventually: Any, tmp_path: Path) -> None:
    service.stop()
    program = run(
        """
        from schedulearn import job
        for i in range(20):
            job.report(step=i, loss=i)
        print("reported", flush=True)
        input()
        """,
        SCHEDULEARN_SPOOL=str(tmp_path / "no" / "such" / "folder" / "spool.jsonl"),
    )
    program.line()
    service.start()
    eventually(lambda: len(service.points) == 20)
    program.go_on()
    program.end()
    assert service.steps == list(range(20))


def test_a_signal_handler_may_report(run: Run, service: Any) -> None:
    run("""
        import os, signal
        from schedulearn import job
        signal.signal(signal.SIGALRM, lambda *_: job.report(step=10**6, from_handler=1))
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for i in range(3000):
            job.report(step=i, loss=i)
        signal.setitimer(signal.ITIMER_REAL, 0)
    """).end()
    assert [p["step"] for p in service.points if "loss" in p["values"]] == list(range(3000))


def test_flush_says_whether_the_service_has_it(run: Run, service: Any) -> None:
    program = run("""
        from schedulearn import job
        print(job.flush())
        job.report(step=1, loss=1)
        print(job.flush())
        input()
        job.report(step=2, loss=2)
        print(job.flush())
    """)
    assert (program.line(), program.line()) == ("True", "True")
    assert service.steps == [1]
    service.stop()
    program.go_on()
    assert program.line() == "False"
    program.end()


def test_outside_of_schedulearn_nothing_happens(tmp_path: Path) -> None:
    code = """
import sys, threading
from schedulearn import job
job.report(step=1, loss=1)
assert job.flush() is True
assert job.info() is None
assert job.checkpoint_dir() is None
assert threading.active_count() == 1
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULEARN_")}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_importing_it_brings_only_the_standard_library(run: Run) -> None:
    program = run("""
        import sys
        from schedulearn import job
        ours = {name for name in sys.modules if name.startswith("schedulearn")}
        known = sys.stdlib_module_names | {"__main__", "schedulearn", "sitecustomize"}
        foreign = {n.partition(".")[0] for n in sys.modules} - known
        print(sorted(n for n in ours if not n.startswith("schedulearn.job")), sorted(n for n in foreign if n[0] != "_"))
    """)
    assert program.line() == "['schedulearn', 'schedulearn.pinned'] []"
    program.end()
