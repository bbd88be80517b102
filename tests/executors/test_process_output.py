"""What jobs print: kept byte for byte, under a cap, also when there is far too much of it or no room at all."""

import array
import fcntl
import os
import subprocess
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.executors.common import logs
from schedulearn.executors.common.folders import make_worker_folder
from schedulearn.executors.common.logwriter import LogWriter
from schedulearn.executors.process.claim import read_claim
from schedulearn.executors.process.prepare import Limits, prepare
from schedulearn.executors.process.spawn import spawn

CAP = 80_000


@pytest.fixture
def tiny_disk(root: Path) -> Iterator[Callable[[Path, str], None]]:
    """Mounts a small file system on a folder."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted: list[Path] = []

    def mount(folder: Path, size: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        result = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False)
        if result.returncode:
            pytest.skip("this machine does not let us mount")
        folder.chmod(0o711)
        mounted.append(folder)

    yield mount
    for folder in reversed(mounted):
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def test_both_streams_byte_for_byte(bench: Any) -> None:
    launch = bench.launch(r"printf 'out\n'; printf 'err \377\376\000\r\n' >&2; printf 'no line end'")
    assert bench.run(launch).ok
    assert bench.output(launch) == b"out\nerr \xff\xfe\x00\r\nno line end"


def test_output_of_children_that_are_killed_at_the_end_is_kept(bench: Any) -> None:
    launch = bench.launch(
        "(echo from below; touch said; exec sleep 1000) & while [ ! -e said ]; do sleep 0.01; done; echo from above"
    )
    assert bench.run(launch).ok
    assert sorted(bench.output(launch).splitlines()) == [b"from above", b"from below"]


def test_hundreds_of_megabytes_neither_block_nor_fill_the_disk(bench: Any) -> None:
    launch = bench.launch("head -c 300000000 /dev/zero; echo; echo end")
    assert bench.run(launch, log_cap=10 * CAP).ok
    folder = bench.paths(launch).log
    chunk = logs.read(folder, 0, 1 << 30)
    assert chunk.end == 300_000_005
    assert 5 * CAP < logs.size(folder) <= 10 * CAP
    assert chunk.offset > 299_000_000  # moved on to the oldest kept
    assert logs.tail(folder, 1).data == b"end\n"


def test_output_can_be_followed_while_it_is_rotated(bench: Any) -> None:
    """A reader that keeps up misses nothing; the job waits for it after each line."""
    code = (
        "import os, sys\nfor i in range(40):\n    print(i, 'x' * 5000)\n    while not os.path.exists(f'seen{i}'): pass"
    )
    launch = bench.python(code)
    bench.executor(log_cap=CAP).start(launch)
    bench.started(launch)
    folder, run = bench.paths(launch).log, bench.paths(launch).job.run
    offset, seen = 0, b""
    for line in range(40):
        while seen.count(b"\n") <= line:
            chunk = logs.read(folder, offset, 10_000)
            assert chunk.offset == offset
            seen, offset = seen + chunk.data, chunk.next_offset
        (run / f"seen{line}").touch()
    bench.ended(launch)
    assert seen == b"".join(b"%d %s\n" % (i, b"x" * 5000) for i in range(40))
    assert logs.size(folder) < len(seen)


def test_a_full_disk_loses_output_but_not_the_job(bench: Any, tiny_disk: Any) -> None:
    launch = bench.launch(
        "echo first; while [ ! -e full ]; do sleep 0.01; done; head -c 200000 /dev/zero; echo x > printed;"
        " while [ ! -e free ]; do sleep 0.01; done; echo last; exit 9"
    )
    folder, run = bench.paths(launch).log, bench.paths(launch).job.run
    tiny_disk(folder, "64k")
    bench.executor().start(launch)
    bench.until(lambda: b"first" in bench.output(launch))
    fill(folder / "filler")
    (run / "full").touch()
    bench.file(launch, "printed")
    bench.until(lambda: _pipe_is_read(bench, launch))
    (folder / "filler").unlink()
    (run / "free").touch()
    assert bench.ended(launch).exit_code == 9
    lines = bench.output(launch).replace(b"\0", b"").splitlines()
    assert lines[0] == b"first"
    assert lines[-1] == b"last"
    lost = int(lines[-2].removeprefix(b"[schedulearn: ").removesuffix(b" bytes of output lost: disk full]"))
    assert lost + bench.output(launch).count(b"\0") == 200_000


def _pipe_is_read(bench: Any, launch: Any) -> bool:
    """The shim has taken all that was printed: nothing waits in the worker's pipe."""
    claim = read_claim(bench.paths(launch).claim)
    assert claim is not None
    handle = os.open(f"/proc/{claim.child_pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    try:
        waiting = array.array("i", [0])
        fcntl.ioctl(handle, termios.FIONREAD, waiting)
    finally:
        os.close(handle)
    return waiting[0] == 0


def test_the_end_is_recorded_on_a_full_disk(bench: Any, tiny_disk: Any) -> None:
    tiny_disk(bench.root, "1m")
    launch = bench.launch("head -c 5000000 /dev/zero > junk; echo nobody reads this; exit 3")
    assert bench.run(launch).exit_code == 3


def test_a_worker_that_the_full_disk_keeps_from_starting(bench: Any, tiny_disk: Any) -> None:
    tiny_disk(bench.root, "64k")
    fill(bench.root / "filler")
    outcome = bench.run(bench.launch("true"))
    assert outcome.ending == "node_fault"
    assert "no space left" in outcome.detail


def test_a_disk_that_is_full_when_the_shim_starts(bench: Any, tiny_disk: Any) -> None:
    """Nothing may look as if it had run: the same worker can be started once there is room."""
    tiny_disk(bench.root, "256k")
    launch = bench.launch("echo hello")
    paths = bench.paths(launch)
    make_worker_folder(paths)
    prepare(launch, paths, Limits([], [], CAP, 1))
    fill(bench.root / "filler")
    with pytest.raises(OSError, match="No space left"):
        spawn(paths)
    (bench.root / "filler").unlink()
    assert bench.run(launch).ok
    assert bench.output(launch) == b"hello\n"


def test_a_job_can_be_stopped_on_a_full_disk(bench: Any, tiny_disk: Any) -> None:
    tiny_disk(bench.root, "1m")
    launch = bench.launch("exec sleep 1000", spec={"grace": 0.1})
    executor = bench.executor()
    executor.start(launch)
    bench.started(launch)
    fill(bench.root / "filler")
    executor.stop(launch.worker, launch.node, 1000)
    assert bench.ended(launch).ending == "signalled"


class TestLogWriter:
    """The writer alone, against the reader."""

    @settings(deadline=None)
    @given(st.lists(st.binary(max_size=50), max_size=60), st.integers(8, 200), st.integers(1, 100))
    def test_what_is_read_is_a_suffix_of_what_was_written(self, chunks: list[bytes], cap: int, limit: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            writer = LogWriter(name, cap)
            for chunk in chunks:
                writer.write(chunk)
                assert logs.size(Path(name)) <= cap
            writer.close()
            whole = b"".join(chunks)
            assert logs.read(Path(name), None, 1 << 30).end == len(whole)
            assert self._read_in_steps(Path(name), limit) == whole[len(whole) - logs.size(Path(name)) :]
            assert logs.size(Path(name)) >= min(len(whole), cap - 2 * (cap // 8) - 7)

    def _read_in_steps(self, folder: Path, limit: int) -> bytes:
        data, offset = b"", None
        while True:
            chunk = logs.read(folder, offset, limit)
            if not chunk.data:
                return data
            assert len(chunk.data) <= limit
            data, offset = data + chunk.data, chunk.next_offset

    @settings(deadline=None)
    @given(st.binary(max_size=400), st.integers(0, 30))
    def test_tail_gives_the_last_lines(self, data: bytes, count: int) -> None:
        data = data.replace(b"\x01", b"\n")
        with tempfile.TemporaryDirectory() as name:
            writer = LogWriter(name, 1000)
            writer.write(data)
            writer.close()
            lines = data.split(b"\n")
            ended = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
            chunk = logs.tail(Path(name), count)
            assert chunk.data == b"".join(ended[-count:] if count else [])
            assert chunk.next_offset == chunk.end == len(data)
            assert chunk.offset == len(data) - len(chunk.data)

    def test_tail_of_lines_longer_than_a_block(self, tmp_path: Path) -> None:
        lines = [b"%d" % i + b"x" * 150_000 + b"\n" for i in range(4)]
        writer = LogWriter(str(tmp_path), 1 << 20)
        writer.write(b"".join(lines))
        writer.close()
        assert logs.tail(tmp_path, 2).data == b"".join(lines[2:])

    def test_a_tail_is_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(logs, "LONGEST_TAIL", 1000)
        writer = LogWriter(str(tmp_path), 1 << 20)
        writer.write(b"x" * 100_000)
        writer.close()
        chunk = logs.tail(tmp_path, 10)
        assert (chunk.data, chunk.offset, chunk.end) == (b"x" * 1000, 99_000, 100_000)

    def test_what_is_no_segment_is_left_alone(self, tmp_path: Path) -> None:
        """Where jobs run as the service's own user they can put anything there."""
        (secret := tmp_path / "secret").write_bytes(b"secret")
        (folder := tmp_path / "log").mkdir()
        (folder / "000000000000000.log").write_bytes(b"mine")
        (folder / "000000000000004.log").symlink_to(secret)
        os.mkfifo(folder / "000000000000005.log")
        (folder / "000000000000006.log").mkdir()
        (folder / "-1.log").write_bytes(b"before")
        assert logs.read(folder, None, 100) == logs.LogChunk(0, b"mine", 4, 4)
        assert logs.tail(folder, 5).data == b"mine"

    def test_of_nothing(self, tmp_path: Path) -> None:
        empty = logs.LogChunk(0, b"", 0, 0)
        assert logs.read(tmp_path / "nowhere", 5, 10) == empty
        assert logs.tail(tmp_path / "nowhere", 5) == empty
        assert logs.size(tmp_path / "nowhere") == 0

    def test_an_offset_beyond_the_end(self, tmp_path: Path) -> None:
        (tmp_path / f"{0:015d}.log").write_bytes(b"abc")
        assert logs.read(tmp_path, 99, 10) == logs.LogChunk(3, b"", 3, 3)

    def test_a_disk_that_refuses_and_recovers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = LogWriter(str(tmp_path), 1000)
        writer.write(b"one\n")
        with monkeypatch.context() as broken:
            broken.setattr(os, "write", _refuse)
            writer.write(b"12345")
            writer.write(b"67")
        writer.write(b"two\n")
        writer.close()
        assert logs.read(tmp_path, 0, 1000).data == b"one\n\n[schedulearn: 7 bytes of output lost: disk full]\ntwo\n"

    def test_losses_at_the_very_end_are_noted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = LogWriter(str(tmp_path), 1000)
        with monkeypatch.context() as broken:
            broken.setattr(os, "write", _refuse)
            writer.write(b"12345")
        writer.close()
        assert logs.tail(tmp_path, 1).data == b"[schedulearn: 5 bytes of output lost: disk full]\n"


def _refuse(_fd: int, _data: bytes) -> int:
    raise OSError(28, "No space left on device")
