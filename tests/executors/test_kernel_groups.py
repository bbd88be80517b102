"""Reading and writing control groups of both versions, as far as plain files can stand in for the kernel's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.usage import WEIGHTS, Limits, Usage, cores_used
from schedulearn.executors.kernel.groups import (
    PERIOD,
    Cgroups,
    Counters,
    in_force,
    members,
    quota_for,
    read_counters,
    read_limits,
    shares_for,
    weight_of,
    write_limits,
)
from schedulearn.executors.kernel.usage import network_bytes

MB = 1_000_000
V1_FILES = {
    "cpuacct.usage": "2500000000\n",
    "cpu.cfs_quota_us": "-1\n",
    "cpu.cfs_period_us": "100000\n",
    "cpu.shares": "1024\n",
    "memory.usage_in_bytes": "9000000\n",
    "memory.stat": "cache 5\ninactive_file 7\ntotal_inactive_file 1000000\n",
    "memory.limit_in_bytes": "9223372036854771712\n",
    "memory.memsw.limit_in_bytes": "9223372036854771712\n",
    "blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 10\n8:16 Read 4\nTotal 4110\n",
    "cgroup.procs": "12\n13\n",
}
V2_FILES = {
    "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
    "cpu.max": "max 100000\n",
    "cpu.weight": "100\n",
    "memory.current": "9000000\n",
    "memory.stat": "anon 5\ninactive_file 1000000\n",
    "memory.max": "max\n",
    "io.stat": "8:0 rbytes=4096 wbytes=10 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=4 wbytes=0\n",
    "cgroup.procs": "12\n13\n",
}


def filled(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(params=["v1", "v2"])
def groups(request: pytest.FixtureRequest, tmp_path: Path) -> Cgroups:
    return made(tmp_path, request.param)


def made(folder: Path, version: str) -> Cgroups:
    if version == "v2":
        return Cgroups(unified=filled(folder / "v2", V2_FILES))
    both = filled(folder / "v1", V1_FILES)
    return Cgroups(both, both, both, both)


def test_counters(groups: Cgroups) -> None:
    assert read_counters(groups) == Counters(2.5, 8 * MB, 4100, 10)
    assert members(groups) == [12, 13]


def test_no_limits(groups: Cgroups) -> None:
    assert read_limits(groups) == Limits(None, 100, None)


def test_limits_are_read_back(groups: Cgroups) -> None:
    asked = Limits(0.125, 30, 20 * MB)
    assert write_limits(groups, asked) == asked
    assert read_limits(groups) == asked
    assert write_limits(groups, Limits(weight=200)) == Limits(0.125, 200, 20 * MB)
    assert write_limits(groups, Limits(memory=90 * MB)) == Limits(0.125, 200, 90 * MB)


def test_memory_below_what_is_held(groups: Cgroups) -> None:
    with pytest.raises(ExecutorError, match="7 MB is below the 8 MB"):
        write_limits(groups, Limits(cpus=0.5, memory=7 * MB))
    assert read_limits(groups) == Limits(None, 100, None)


def test_what_no_group_counts_is_unknown(tmp_path: Path) -> None:
    assert read_counters(Cgroups()) == Counters()
    assert read_limits(Cgroups()) == Limits()
    assert members(Cgroups()) == []
    assert not Cgroups()
    bare = Cgroups(unified=filled(tmp_path, {"cpu.stat": V2_FILES["cpu.stat"]}))
    assert read_counters(bare) == Counters(cpu_seconds=2.5)
    assert read_limits(bare) == Limits()


def test_newer_kernels_that_count_no_block_traffic(tmp_path: Path) -> None:
    folder = filled(tmp_path, {**V1_FILES, "blkio.throttle.io_service_bytes_recursive": "Total 0\n"})
    assert read_counters(Cgroups(blkio=folder)) == Counters()


@pytest.mark.parametrize("asked", [Limits(cpus=1.0), Limits(weight=5), Limits(memory=MB)])
def test_a_group_that_is_not_there(tmp_path: Path, asked: Limits) -> None:
    bare = Cgroups(unified=filled(tmp_path, {"cpu.stat": V2_FILES["cpu.stat"]}))
    for groups in (Cgroups(), bare):
        with pytest.raises(ExecutorError, match="no control group for it"):
            write_limits(groups, asked)


def test_what_was_written_before_a_refusal_is_taken_back(groups: Cgroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes the CPU limit and refuses the memory limit."""
    write = os.open

    def refuse(path: Path, flags: int, *rest: int) -> int:
        if "memory" in str(path) and flags & os.O_WRONLY:
            raise OSError(16, "Device or resource busy")
        return write(path, flags, *rest)

    monkeypatch.setattr("schedulearn.executors.kernel.groups.os.open", refuse)
    with pytest.raises(ExecutorError, match=r"refuses 20000000 in memory.*: Device or resource busy"):
        write_limits(groups, Limits(cpus=0.5, weight=7, memory=20 * MB))
    assert read_limits(groups) == Limits(None, 100, None)


@given(st.floats(0.01, 512))
def test_a_fraction_of_a_core_stays_a_fraction(cpus: float) -> None:
    assert abs(quota_for(cpus) / PERIOD - cpus) <= 0.5 / PERIOD
    assert in_force(Limits(cpus=cpus), Limits(cpus=quota_for(cpus) / PERIOD))
    assert not in_force(Limits(cpus=cpus), Limits(cpus=quota_for(cpus) / PERIOD + 0.001))


@given(st.integers(*WEIGHTS))
def test_a_weight_survives_version_1(weight: int) -> None:
    assert weight_of(shares_for(weight)) == weight


@pytest.mark.parametrize("version", ["v1", "v2"])
@given(
    st.lists(
        st.builds(
            Limits,
            st.none() | st.floats(0.01, 64),
            st.none() | st.integers(*WEIGHTS),
            st.none() | st.integers(9 * MB, 2**40),
        ),
        max_size=5,
    )
)
def test_the_last_word_of_each_kind_holds(
    tmp_path_factory: pytest.TempPathFactory, version: str, asked: list[Limits]
) -> None:
    groups, expected = made(tmp_path_factory.mktemp("groups"), version), Limits(weight=100)
    for limits in asked:
        expected = limits.over(expected)
        assert in_force(expected, write_limits(groups, limits))


def test_nothing_asked_is_in_force() -> None:
    assert in_force(Limits(), Limits(0.5, 3, 4))
    assert not in_force(Limits(memory=MB), Limits())
    assert not in_force(Limits(weight=1), Limits(weight=2))


def test_cores_used() -> None:
    assert cores_used(Usage(10.0, 5.0), Usage(14.0, 7.0)) == 0.5
    assert cores_used(Usage(10.0, 5.0), Usage(10.0, 7.0)) is None
    assert cores_used(Usage(10.0, 5.0), Usage(12.0, 1.0)) is None, "another worker, or counting began anew"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network")
def test_a_network_of_its_own() -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    command = ["unshare", "-n", sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        assert network_bytes(process.pid) == (0, 0)
        process.terminate()
    assert network_bytes(os.getpid()) == (None, None)
    assert network_bytes(2**22 + 1) == (None, None)


def test_every_interface_but_loopback_counts(tmp_path: Path) -> None:
    heading = "Inter-| Receive | Transmit\n face |bytes packets\n"
    lines = "    lo: 5 1 0 0 0 0 0 0 6 1\n  eth0: 100 1 0 0 0 0 0 0 200 1\n  eth1:10 1 0 0 0 0 0 0 20 1\n"
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "9" / "ns").mkdir(parents=True)
    (tmp_path / "9" / "net").mkdir()
    (tmp_path / "self" / "ns" / "net").symlink_to("net:[1]")
    (tmp_path / "9" / "ns" / "net").symlink_to("net:[2]")
    (tmp_path / "9" / "net" / "dev").write_text(heading + lines)
    assert network_bytes(9, tmp_path) == (110, 220)
