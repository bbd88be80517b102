"""The limit that a program sees: its control file, its control groups of both versions, and its environment."""

import json
from pathlib import Path

import pytest

from schedulearn.sitehook.schedulearn_hook import may_choose
from schedulearn.sitehook.schedulearn_threads.limit import Limit, cpu_folders, renew_environment


def group(folder: Path, quota: str) -> Path:
    """A version 2 group for "200000 100000" or "max 100000", a version 1 group for "200000/100000"."""
    folder.mkdir(parents=True, exist_ok=True)
    if "/" in quota:
        for name, value in zip(("cpu.cfs_quota_us", "cpu.cfs_period_us"), quota.split("/"), strict=True):
            (folder / name).write_text(f"{value}\n")
    else:
        (folder / "cpu.max").write_text(f"{quota}\n")
    return folder


def proc(folder: Path, mounts: str, own: str) -> str:
    folder.mkdir()
    (folder / "mountinfo").write_text(mounts)
    (folder / "cgroup").write_text(own)
    return str(folder)


def control(path: Path, cpus: float | None) -> str:
    path.write_text(json.dumps({"cpus": cpus, "threads": 9}))
    return str(path)


@pytest.mark.parametrize(
    ("outer", "inner", "threads"),
    [
        ("max 100000", "200000 100000", 2),
        ("max 100000", "290000 100000", 2),
        ("max 100000", "50000 100000", 1),
        ("max 100000", "max 100000", None),
        ("300000 100000", "400000 100000", 3),
        ("nonsense", "", None),
    ],
)
def test_version_2(tmp_path: Path, outer: str, inner: str, threads: int | None) -> None:
    """The smallest of all groups around the process holds."""
    point = tmp_path / "v2"
    group(group(point, "max 100000") / "outer", outer)
    group(point / "outer" / "inner", inner)
    made = proc(tmp_path / "proc", f"30 23 0:26 / {point} rw - cgroup2 cgroup2 rw\n", "0::/outer/inner\n")
    assert Limit("", made).threads() == threads


@pytest.mark.parametrize(
    ("quota", "threads"), [("150000/100000", 1), ("40000/10000", 4), ("-1/100000", None), ("/", None)]
)
def test_version_1_in_a_container_that_sees_only_its_own_part(tmp_path: Path, quota: str, threads: int | None) -> None:
    point = group(tmp_path / "cpu,cpuacct", quota)
    mounts = f"30 23 0:26 /docker/abc {point} ro - cgroup cgroup rw,cpu,cpuacct\n"
    mounts += f"31 23 0:27 / {group(tmp_path / 'memory', '100000/100000')} rw - cgroup cgroup rw,memory\n"
    made = proc(tmp_path / "proc", mounts, "5:memory:/\n1:cpu,cpuacct:/docker/abc\n0::/\n")
    assert Limit("", made).threads() == threads


def test_a_group_that_is_not_below_what_is_mounted(tmp_path: Path) -> None:
    point = group(tmp_path / "v2", "200000 100000")
    mounts = f"30 23 0:26 /elsewhere {point} ro - cgroup2 cgroup2 rw\n"
    assert list(cpu_folders(proc(tmp_path / "proc", mounts, "0::/\n"))) == [str(point)]


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    assert Limit("", str(tmp_path)).threads() is None


@pytest.mark.parametrize(("told", "quota", "threads"), [(3.5, 2, 2), (1.5, 4, 1), (None, 2, 2), (2.0, None, 2)])
def test_the_smaller_of_both_holds(tmp_path: Path, told: float | None, quota: int | None, threads: int) -> None:
    point = group(tmp_path / "v2", f"{quota * 100000} 100000" if quota else "max 100000")
    made = proc(tmp_path / "proc", f"30 23 0:26 / {point} rw - cgroup2 cgroup2 rw\n", "0::/\n")
    assert Limit(control(tmp_path / "control.json", told), made).threads() == threads


def test_both_may_change_and_a_file_that_is_being_replaced_changes_nothing(tmp_path: Path) -> None:
    point = group(tmp_path / "v2", "400000 100000")
    made = proc(tmp_path / "proc", f"30 23 0:26 / {point} rw - cgroup2 cgroup2 rw\n", "0::/\n")
    file = tmp_path / "control.json"
    limit = Limit(control(file, 3.0), made)
    assert limit.threads() == 3
    for content in ("", "{", "[]", '{"cpus": "many"}', '{"threads": 1}'):
        file.write_text(content)
        assert limit.threads() == 3, content
    file.unlink()
    assert limit.threads() == 3
    control(file, 2.0)
    assert limit.threads() == 2
    group(point, "100000 100000")
    assert limit.threads() == 1
    control(file, None)
    group(point, "max 100000")
    assert limit.threads() is None


# --- the environment

GIVEN = {"SCHEDULEARN_THREADS": "2", "OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize(
    ("env", "may"),
    [
        (GIVEN, True),
        ({"SCHEDULEARN_THREADS": ""}, True),
        ({"SCHEDULEARN_THREADS": "", "OMP_NUM_THREADS": "4"}, False),
        (GIVEN | {"OMP_NUM_THREADS": "4"}, False),
        (GIVEN | {"MKL_NUM_THREADS": "2"}, False),
        (GIVEN | {"OPENBLAS_NUM_THREADS": "1"}, False),
        ({"OMP_NUM_THREADS": "2"}, False),
        ({}, False),
    ],
)
def test_who_has_chosen_a_number_keeps_it(env: dict[str, str], may: bool) -> None:
    assert may_choose(env) is may


def test_programs_that_start_later_are_told_the_present_number() -> None:
    env = GIVEN | {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "7", "HOME": "2"}
    renew_environment(env, 1)
    ours = {"SCHEDULEARN_THREADS": "1", "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
    assert env == {**ours, "TF_NUM_INTEROP_THREADS": "7", "HOME": "2"}
    for threads in (1, None):
        renew_environment(env, threads)
        assert env["OMP_NUM_THREADS"] == "1"
    without: dict[str, str] = {"SCHEDULEARN_THREADS": ""}
    renew_environment(without, 4)
    assert without == {"SCHEDULEARN_THREADS": ""}


@pytest.mark.parametrize(
    ("env", "threads"),
    [
        ({}, 4),
        ({"LOCAL_WORLD_SIZE": "2"}, 4),  # not torchrun's: anybody may set it
        ({"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "2"}, 2),
        ({"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "9"}, 1),
        ({"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "many"}, 4),
    ],
)
def test_processes_of_one_worker_share_its_limit(
    tmp_path: Path, env: dict[str, str], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert Limit(control(tmp_path / "control.json", 4.0), str(tmp_path)).threads() == threads
