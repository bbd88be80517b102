"""SIGTERM is noticed at a step boundary, and disturbs nothing else."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedulearn.job.stopping import STOPPED

Run = Callable[..., Any]

TRAINING = """
import sys
from schedulearn import job

job.init()
state = job.restore(default={"seen": []})
for batch in job.batches(40, 4, epochs=5, seed=1, start=len(state["seen"])):
    state["seen"].append(batch.indices)
    job.report(step=batch.step, loss=0.5)
    print(batch.step, flush=True)
    if batch.step in (13, 27) and len(sys.argv) == 1:
        sys.stdin.readline()  # until the test has sent the signal
    if job.step_boundary():
        job.save(state, step=batch.step)
        job.leave()
job.save(state)
print("seen", state["seen"], flush=True)
"""


def test_a_training_stopped_twice_sees_what_an_uninterrupted_one_sees(run: Run, service: Any, tmp_path: Path) -> None:
    for attempt, at in ((2, 13), (3, 27)):
        program = run(TRAINING, SCHEDULEARN_WORKER=f"17.{attempt}.0", SCHEDULEARN_SPOOL="")
        while program.line() != str(at):
            pass
        program.process.send_signal(signal.SIGTERM)
        program.go_on()
        assert program.process.wait(60) == STOPPED
    rest = list(iter(run(TRAINING, SCHEDULEARN_WORKER="17.4.0", SCHEDULEARN_SPOOL="").line, ""))
    assert rest[:-1] == [str(step) for step in range(28, 50)]
    straight = run(TRAINING, SCHEDULEARN_CHECKPOINT_DIR=str(tmp_path / "other"), SCHEDULEARN_SPOOL="")
    straight.go_on()
    straight.go_on()
    assert rest[-1] == list(iter(straight.line, ""))[-1]


def test_the_handler_that_was_there_before_is_still_called(run: Run) -> None:
    program = run("""
        import os, signal
        from schedulearn import job
        signal.signal(signal.SIGTERM, lambda number, frame: print("earlier", number, flush=True))
        assert job.init() == job.init() == job.info()
        assert (job.stop_asked(), job.step_boundary()) == (False, False)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (job.stop_asked(), job.step_boundary()) == (True, True)
    """)
    assert program.line() == "earlier 15"
    program.end()


def test_helper_processes_can_still_be_ended_with_sigterm(run: Run) -> None:
    run("""
        import os, signal
        from schedulearn import job
        job.init()
        waiting, going = os.pipe()
        child = os.fork()
        if not child:
            os.write(going, b"x")
            signal.pause()
        os.read(waiting, 1)
        os.kill(child, signal.SIGTERM)
        assert os.waitpid(child, 0)[1] == signal.SIGTERM
        assert not job.stop_asked()
    """).end()


def test_in_another_thread_it_warns_and_goes_on(run: Run) -> None:
    program = run("""
        import logging, sys, threading
        from schedulearn import job
        logging.basicConfig(stream=sys.stdout)
        thread = threading.Thread(target=job.init)
        thread.start()
        thread.join()
    """)
    assert "outside of the main thread" in program.line()
    program.end()


def test_outside_sigterm_is_left_alone(run: Run) -> None:
    program = run(
        """
        import os, signal
        from schedulearn import job
        assert job.init() is None
        assert job.step_boundary() is False
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        SCHEDULEARN_WORKER="",
    )
    assert program.process.wait(60) == -signal.SIGTERM


def test_the_threads_follow_at_a_step_boundary_and_their_trouble_is_not_ours(run: Run) -> None:
    program = run("""
        import sys, types
        from schedulearn import job
        hook = sys.modules["schedulearn_threads"] = types.ModuleType("schedulearn_threads")
        hook.at_step = lambda: print("step", flush=True)
        job.step_boundary()
        hook.at_step = lambda: 1 / 0
        assert job.step_boundary() is False
    """)
    assert program.line() == "step"
    program.end()


def test_leaving_hands_over_what_was_reported(run: Run, service: Any) -> None:
    program = run("""
        from schedulearn import job
        job.report(step=1, loss=1)
        job.leave(3)
    """)
    assert program.process.wait(60) == 3
    assert service.steps == [1]
