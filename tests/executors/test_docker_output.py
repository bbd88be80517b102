"""The output of containers: no line is lost or repeated, whatever breaks; ends are reported as for processes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.outcome import Ending
from schedulearn.core.domain.spec import WorkerResources
from schedulearn.executors.common import logs
from schedulearn.executors.docker import output as output_module
from schedulearn.executors.docker.output import Output, OutputClosed
from schedulearn.executors.docker.rules import Rules
from support.docker_bench import DockerBench

MB = 1 << 20
SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(0.3)
    print("saved", flush=True)
    sys.exit(3)
signal.signal(15, save)
print("ready", flush=True)
time.sleep(1000)
"""


def stamped(number: int, data: bytes) -> bytes:
    return f"2026-01-01T00:00:00.{number:09d}Z ".encode() + data


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    spacing=st.integers(1, 60),
    heading=st.booleans(),
)
def test_whatever_is_read_again_is_written_once(
    pieces: list[bytes], cuts: list[int], spacing: int, heading: bool
) -> None:
    """Each life reads from the beginning up to a random place, is killed, and the next one goes on."""
    frames = [stamped(number, data) for number, data in enumerate(pieces)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_module, "SPACING", spacing)
        for life, cut in enumerate([*cuts, len(frames)]):
            output = Output(Path(folder, "log"), Path(folder, "anchors"), 1 << 20)
            if heading and life == 0:
                output.note("first")
            output.copy(frames[:cut], whole=True)
            output.close()
        written = logs.read(Path(folder, "log"), None, 1 << 20).data
    assert written == (b"[schedulearn: first]\n" if heading else b"") + b"".join(pieces)


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=12), min_size=2, max_size=60),
    reads=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6),
)
def test_rotation_between_two_reads(pieces: list[bytes], reads: list[tuple[int, int]]) -> None:
    """The engine forgets the oldest; as long as it still has the latest that we wrote, nothing is lost."""
    frames = [stamped(number, data) for number, data in enumerate(pieces)]
    done = 0
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_module, "SPACING", 1)  # each piece is an anchor
        for first, last in [*reads, (0, len(frames))]:
            first, last = min(first, max(0, done - 1)), max(last, done)
            output = Output(Path(folder, "log"), Path(folder, "anchors"), 1 << 20)
            output.copy(frames[first:last], whole=True)
            output.close()
            done = max(done, min(last, len(frames)))
        assert logs.read(Path(folder, "log"), None, 1 << 20).data == b"".join(pieces)


def test_what_the_engine_removed_is_told(tmp_path: Path) -> None:
    frames = [stamped(number, b"line %d\n" % number) for number in range(10)]
    for kept in (frames[:2], frames[6:8], frames[6:]):
        output = Output(tmp_path / "log", tmp_path / "anchors", 1 << 20)
        output.copy(kept, whole=True)
        output.close()
    lines = logs.read(tmp_path / "log", None, 1 << 20).data.splitlines()
    assert lines[:2] == [b"line 0", b"line 1"]
    assert b"some output is missing here" in lines[2]
    assert lines[3:] == [b"line 6", b"line 7", b"line 8", b"line 9"]


def test_a_line_that_was_cut_off_by_a_crash_is_completed(tmp_path: Path) -> None:
    output = Output(tmp_path / "log", tmp_path / "anchors", 1 << 20)
    output.copy([stamped(1, b"whole\n"), stamped(2, b"another\n")], whole=True)
    output.close()
    (segment,) = (tmp_path / "log").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-4])
    output = Output(tmp_path / "log", tmp_path / "anchors", 1 << 20)
    output.copy([stamped(1, b"whole\n"), stamped(2, b"another\n"), stamped(3, b"third\n")], whole=True)
    output.close()
    assert logs.read(tmp_path / "log", None, 1 << 20).data == b"whole\nanother\nthird\n"


def test_nothing_is_written_after_it_was_closed(tmp_path: Path) -> None:
    """The next life of the service goes on from here, while a thread of this one may still be reading."""
    slow = Output(tmp_path / "log", tmp_path / "anchors", 1 << 20)
    frames = [stamped(number, b"line %d\n" % number) for number in range(4)]

    def read() -> Iterator[bytes]:
        yield from frames[:2]
        slow.close()
        yield from frames[2:]

    with pytest.raises(OutputClosed):
        slow.copy(read(), whole=True)
    following = Output(tmp_path / "log", tmp_path / "anchors", 1 << 20)
    following.copy(frames, whole=True)
    following.close()
    assert logs.read(tmp_path / "log", None, 1 << 20).data == b"".join(b"line %d\n" % i for i in range(4))


# --- with real containers


def test_output_in_order(containers: DockerBench) -> None:
    launch = containers.launch("for i in 1 2 3; do echo out $i; echo err $i >&2; done; printf end")
    assert containers.run(launch).ok
    assert containers.output(launch) == b"out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nend"


def test_long_lines_and_any_bytes(containers: DockerBench) -> None:
    written = b"x" * 100_000 + b"\n" + bytes(range(128)) + b"\r\n\ny"
    launch = containers.python(f"import sys; sys.stdout.buffer.write({written!r})")
    assert containers.run(launch).ok
    assert containers.output(launch) == written


def test_a_lot_of_output_over_several_files(containers: DockerBench) -> None:
    """The engine rotates while it is followed; nothing is lost."""
    launch = containers.python("import time\nfor i in range(60_000):\n  print(i)\n  if i % 1000 == 0: time.sleep(0.02)")
    assert containers.run(launch, rules=Rules(log_size=1 * MB, log_files=5)).ok
    assert containers.output(launch).split() == [b"%d" % i for i in range(60_000)]


def test_lives_of_the_service_share_one_log(containers: DockerBench) -> None:
    launch = containers.python("import time\nfor i in range(100):\n  print('line', i)\n  time.sleep(0.03)")
    executor = containers.executor()
    executor.start(launch)
    for seen in (10, 30, 60):
        containers.until(lambda seen=seen: b"line %d\n" % seen in containers.output(launch))
        executor.close()
        executor = containers.executor()
        executor.adopt(launch.worker, launch.node)
    assert containers.ended(launch).ok
    assert containers.output(launch) == b"".join(b"line %d\n" % i for i in range(100))


def test_the_end_of_a_worker_whose_output_an_earlier_life_has_copied(containers: DockerBench) -> None:
    launch = containers.launch("trap 'exit 3' TERM; echo ready; while true; do sleep 0.05; done")
    executor = containers.executor()
    executor.start(launch)
    containers.until(lambda: containers.output(launch) == b"ready\n")
    executor.close()
    executor = containers.executor()
    executor.adopt(launch.worker, launch.node)
    executor.stop(launch.worker, launch.node, 1000)
    assert containers.ended(launch).exit_code == 3
    assert containers.output(launch).count(b"ready") == 1


def test_streams_that_break_are_opened_anew(containers: DockerBench) -> None:
    launch = containers.python("import time\nfor i in range(100):\n  print('line', i)\n  time.sleep(0.03)")
    executor = containers.executor()
    executor.start(launch)
    for seen in (10, 30, 60):
        containers.until(lambda seen=seen: b"line %d\n" % seen in containers.output(launch))
        executor.look_again()
    assert containers.ended(launch).ok
    assert containers.output(launch) == b"".join(b"line %d\n" % i for i in range(100))


def test_killed_from_outside(containers: DockerBench) -> None:
    launch = containers.launch("echo ready; exec sleep 1000")
    containers.executor().start(launch)
    containers.until(lambda: b"ready" in containers.output(launch))
    with containers.daemon.client() as client:
        client.api.kill(containers.name(launch))
    outcome = containers.ended(launch)
    assert (outcome.ending, outcome.signal) == (Ending.SIGNALLED, 9)


def test_removed_from_outside(containers: DockerBench) -> None:
    launch = containers.launch("echo ready; exec sleep 1000")
    containers.executor().start(launch)
    containers.until(lambda: b"ready" in containers.output(launch))
    with containers.daemon.client() as client:
        client.api.remove_container(containers.name(launch), force=True)
    outcome = containers.ended(launch)
    assert outcome.ending in (Ending.LOST, Ending.SIGNALLED)  # the kill that comes before may be seen first
    assert not outcome.ok


@pytest.mark.parametrize("name", ["SEGV", "TERM", "USR1"])
def test_a_program_that_a_signal_ends(containers: DockerBench, name: str) -> None:
    import signal

    launch = containers.launch(f"kill -{name} $$; sleep 5", spec={"command": ("sh", "-c", f"kill -{name} $$; sleep 5")})
    outcome = containers.run(launch)
    assert (outcome.ending, outcome.signal) == (Ending.SIGNALLED, int(signal.Signals[f"SIG{name}"]))


def test_out_of_memory(containers: DockerBench) -> None:
    resources = WorkerResources(memory=64 * MB)
    launch = containers.python("x = []\nwhile True: x.append(bytearray(1 << 20))", spec={"resources": resources})
    outcome = containers.run(launch)
    assert (outcome.ending, outcome.memory_limit) == (Ending.OUT_OF_MEMORY, 64 * MB)


def test_the_child_of_a_shell_keeps_its_grace(containers: DockerBench) -> None:
    launch = containers.launch(f"cd /tmp && python3 -u -c '{SAVES}'; echo never")
    executor = containers.executor()
    executor.start(launch)
    containers.until(lambda: b"ready" in containers.output(launch))
    executor.stop(launch.worker, launch.node, 30)
    assert containers.ended(launch).exit_code == 3
    assert containers.output(launch) == b"ready\nsaved\n"


def test_an_image_that_is_not_there(containers: DockerBench) -> None:
    launch = containers.launch("true", spec={"image": "localhost:9/no-such-image"})
    outcome = containers.run(launch)
    assert outcome.ending is Ending.NOT_STARTED
    assert "localhost:9/no-such-image" in outcome.detail
    assert containers.containers() == []


def test_no_image_at_all(containers: DockerBench) -> None:
    from dataclasses import replace

    from support.docker_bench import DOCKER_NODE

    outcome = containers.run(containers.launch("true"), node=replace(DOCKER_NODE, default_image=""))
    assert outcome.ending is Ending.NOT_STARTED
    assert "has no default image" in outcome.detail


def test_a_program_that_may_not_be_run(containers: DockerBench) -> None:
    outcome = containers.run(containers.launch(("/etc/passwd",)))
    assert outcome.ending is Ending.NOT_STARTED
    assert "not executable: /etc/passwd" in outcome.detail
    assert containers.containers() == []


def test_times_are_by_the_clock_of_the_service(containers: DockerBench) -> None:
    """A server whose clock is wrong changes nothing: here it is the service that believes to live in the past."""

    class Past:
        def now(self) -> float:
            import time

            return time.time() - 1e6

    from support.bench import SystemClock

    launch = containers.launch("sleep 0.2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now", Past.now)
        assert containers.run(launch).ok
        now = SystemClock().now()
    first, last = (event.at for event in containers.recorder.events)
    assert now - 60 < first <= last <= now
