"""Which GPUs a worker can reach: real workers, device files in a folder of the test's, and a library that stands in for
NVML, loaded as the real one is."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ids import DeviceId
from schedulearn.executors.kernel.groups import Cgroups
from schedulearn.executors.process import cgroups as permitted
from schedulearn.executors.process.gpus import own_minors
from schedulearn.executors.process.view import NO_MOUNTS, detect_mounts
from support.nvml import ask_with_nvml, build_nvml

UID = 70_123
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device files and become somebody else")
ONE, TWO, THREE = DeviceId("GPU-0"), DeviceId("GPU-1"), DeviceId("GPU-2")
MINORS = """
import json
from schedulearn.executors.kernel.machine import gpu_minors
print(json.dumps(gpu_minors()))
"""
# Arguments: the data folder, that of the device files, the workers' uid, what denies ("mounts", "group"), what is set
# after the executor was made, and the GPUs of each worker. Prints how each ended and which files it could read.
RUN = """
import json, os, sys
from pathlib import Path
from schedulearn.executors.kernel.machine import discover_node
from schedulearn.executors.process import cgroups, gpus
from schedulearn.executors.process.executor import ProcessExecutor
from schedulearn.executors.process.view import NO_MOUNTS
from support.bench import SystemClock, Workbench

root, folder, uid, way, later, *given = sys.argv[1:]
gpus.FOLDER, cgroups._NVIDIA = Path(folder), 1
read = 'test "$(head -c 1 $file 2> /dev/null | wc -c)" = 1'
look = f"cd {folder}; for file in nvidia[0-9]*; do {read} && echo $file; done; true"
bench = Workbench(Path(root))
confined = {"mounts": {"cgroups": cgroups.NO_CGROUPS}, "group": {"mounts": NO_MOUNTS}}[way]
executor = ProcessExecutor(bench.root, bench.recorder, SystemClock(), discover_node("here"), **confined)
os.environ.update(word.split("=") for word in later.split())
said = []
for job, ids in enumerate(given, 1):
    launch = bench.launch(look, job=job, uid=int(uid), gid=int(uid), devices=tuple(ids.split()))
    executor.start(launch)
    outcome = bench.ended(launch)
    said.append([outcome.ending.value, outcome.detail or bench.output(launch).decode()])
executor.close()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without nvmlDeviceGetMinorNumber."""
    return build_nvml(tmp_path_factory.mktemp("old-nvml"), "OLD")


# --- the look-up


def test_which_number_each_gpu_has(library: Path) -> None:
    assert ask_with_nvml(library, MINORS) == {"GPU-0": 9, "GPU-1": 5}


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"FAKE_NO_MINOR": 1}, {"GPU-1": 5}),
        ({"FAKE_NO_MINOR": 2}, {"GPU-0": 9}),
        ({"FAKE_NO_MINOR": 3}, {}),
        ({"FAKE_BROKEN": 1}, {"GPU-1": 5}),
        ({"FAKE_NO_COUNT": 1}, {}),
        ({"FAKE_NO_DRIVER": 1}, {}),
    ],
)
def test_gpus_that_do_not_tell_are_left_out(library: Path, settings: dict[str, int], found: dict[str, int]) -> None:
    assert ask_with_nvml(library, MINORS, **settings) == found


def test_a_library_that_knows_nothing_of_it(old_library: Path) -> None:
    assert ask_with_nvml(old_library, MINORS) == {}


# --- what follows from it


@pytest.mark.parametrize(
    ("given", "minors", "files", "own"),
    [
        ([], {}, {0, 1}, set()),
        ([ONE], {ONE: 1, TWO: 0}, {0, 1}, {1}),
        ([ONE], {ONE: 1}, {0, 1, 2}, {1}),  # others tell nothing: all but its own is theirs
        ([ONE], {TWO: 0}, {0, 1}, {1}),  # told by what is left
        ([ONE, TWO], {}, {0, 1}, {0, 1}),
        ([ONE, TWO], {TWO: 0, THREE: 1}, {0, 1, 2}, {0, 2}),
        ([ONE], {}, set(), set()),  # where GPUs have no files of their own (WSL), there is nothing to be denied
    ],
)
def test_which_files_are_its_own(given: Any, minors: Any, files: set[int], own: set[int]) -> None:
    assert own_minors(given, minors, files) == own


@pytest.mark.parametrize(
    ("given", "minors", "files"),
    [([ONE], {}, {0, 1}), ([ONE], {TWO: 0}, {0, 1, 2}), ([ONE, TWO], {ONE: 0}, {0, 1, 2})],
)
def test_where_that_cannot_be_told(given: Any, minors: Any, files: set[int]) -> None:
    with pytest.raises(ExecutorError, match=r"NVML does not tell .* GPU-"):
        own_minors(given, minors, files)


# --- real workers


class Machine:
    """Two GPUs as the library has them, and perhaps one that NVML does not name. All can be read: they are played by
    /dev/zero, /dev/full and /dev/urandom, 1:5, 1:7 and 1:9."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder, self.dev, self.way = folder, folder / "dev", way
        self.dev.mkdir(mode=0o755)
        for minor in (5, 9):
            self.add(minor)
        (self.dev / "nvidiactl").touch()
        (self.dev / "nvidia-caps").mkdir()

    def add(self, minor: int) -> None:
        path = self.dev / f"nvidia{minor}"
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        path.chmod(0o666)

    def reached(self, library: Path, *given: str, later: str = "", **settings: object) -> list[Any]:
        """By a worker with these GPUs each: the numbers of files, or why it was not started."""
        data = tempfile.mkdtemp(dir=self.folder)
        Path(data).chmod(0o711)
        words = [data, str(self.dev), str(UID), self.way, later, *given]
        said = ask_with_nvml(library, RUN, *words, **settings)
        assert {ending for ending, _ in said} <= {"exited", "not_started"}
        return [text if ending == "not_started" else _numbers(text) for ending, text in said]


def _numbers(names: str) -> list[int]:
    return [int(name.removeprefix("nvidia")) for name in names.split()]


@pytest.fixture(params=["mounts", "group"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """With each of the two ways to deny a GPU, where this machine permits it."""
    if request.param == "mounts" and not detect_mounts().possible:
        pytest.skip(f"no mounts of its own can be made here: {detect_mounts().problem}")
    if request.param == "group" and permitted.detect().devices is None:
        pytest.skip("this machine has no control groups for devices")
    folder = Path(tempfile.mkdtemp(prefix="schedulearn-test-", dir="/opt"))  # /tmp is covered for workers
    folder.chmod(0o711)
    try:
        yield Machine(folder, request.param)
    finally:
        shutil.rmtree(folder)


REFUSED = "NVML does not tell which device file is that of {}, so others' could not be denied"
ALL_WAYS = ["", "GPU-0", "GPU-1", "GPU-0 GPU-1"]  # to be given GPUs


@as_root
def test_a_worker_reaches_the_gpus_that_it_was_given(machine: Machine, library: Path) -> None:
    assert machine.reached(library, *ALL_WAYS) == [[], [9], [5], [5, 9]]


@as_root
def test_a_gpu_that_nvml_does_not_name_is_nobodys(machine: Machine, library: Path) -> None:
    """It fell off the bus, say; its file is still there."""
    machine.add(7)
    assert machine.reached(library, *ALL_WAYS) == [[], [9], [5], [5, 9]]
    assert machine.reached(library, "", "GPU-1", FAKE_BROKEN=1) == [[], [5]]
    assert machine.reached(library, "", FAKE_NO_DRIVER=1) == [[]]


@as_root
def test_one_gpu_does_not_tell_its_number(machine: Machine, library: Path) -> None:
    assert machine.reached(library, *ALL_WAYS, FAKE_NO_MINOR=1) == [[], [9], [5], [5, 9]]
    machine.add(7)  # now its own file could be this one, too
    refused = REFUSED.format("GPU-0")
    assert machine.reached(library, *ALL_WAYS, FAKE_NO_MINOR=1) == [[], refused, [5], refused]


@as_root
def test_no_gpu_tells_its_number(machine: Machine, old_library: Path) -> None:
    refused = [REFUSED.format(gpu) for gpu in ("GPU-0", "GPU-1")]
    assert machine.reached(old_library, *ALL_WAYS) == [[], *refused, [5, 9]]


@as_root
def test_nvml_fails_after_the_service_has_started(machine: Machine, library: Path) -> None:
    refused = REFUSED.format("GPU-0")
    assert machine.reached(library, "", "GPU-0", later="FAKE_NO_DRIVER=1") == [[], refused]
    assert machine.reached(library, "GPU-0", later="FAKE_NO_MINOR=0", FAKE_NO_MINOR=3) == [[9]], "it is asked again"


@as_root
def test_it_does_not_run_without_the_group_that_denies(
    bench: Any, real_cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else would."""
    if real_cgroups.devices is None:
        pytest.skip("this machine has no control groups for devices")
    monkeypatch.setattr(permitted, "gpu_rules", lambda _: ["no rule that the kernel knows"])
    launch = bench.launch("echo ran", uid=UID, gid=UID)
    outcome = bench.run(launch, cgroups=real_cgroups, mounts=NO_MOUNTS)
    assert "GPUs of others cannot be denied" in outcome.detail
    assert bench.output(launch) == b""


@as_root
def test_no_command_runs_beside_it_without_that_group(bench: Any, real_cgroups: Cgroups, monkeypatch: Any) -> None:
    if real_cgroups.devices is None:
        pytest.skip("this machine has no control groups for devices")
    monkeypatch.setattr(permitted, "gpu_rules", lambda _: [f"c 195:{minor} rwm" for minor in range(2)])
    launch = bench.launch("echo ready; exec sleep 1000", uid=UID, gid=UID)
    executor = bench.executor(cgroups=real_cgroups, mounts=NO_MOUNTS)
    executor.start(launch)
    bench.ready(launch)
    assert said_beside(executor, launch) == b"ran\n"
    file = bench.paths(launch).launch
    orders = file.read_text()
    file.write_text(orders.replace(str(real_cgroups.devices / permitted.PARENT), "/nowhere"))
    assert b"GPUs of others cannot be denied" in said_beside(executor, launch)
    file.write_text(orders)
    executor.stop(launch.worker, launch.node, 0)
    bench.ended(launch)


def said_beside(executor: Any, launch: Any) -> bytes:
    return b"".join(piece for _, piece in executor.exec.run(launch.worker, ["echo", "ran"]))
