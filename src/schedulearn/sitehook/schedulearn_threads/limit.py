"""How many threads this process may use: by the executor's control file, and by its control groups."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

CHOSEN = "SCHEDULEARN_THREADS"
FROM_IT = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")  # what the executor made of it


class Limit:
    """Cheap to ask often."""

    def __init__(self, control: str, proc: str = "/proc/self") -> None:
        self._control = control
        self._told: float | None = None  # what the control file says
        self._folders = list(cpu_folders(proc))
        self._processes = processes_of_worker(os.environ)

    def threads(self) -> int | None:
        """The smallest of all limits, rounded down, at least 1; None: there is no limit."""
        known = [cpus for cpus in (self._read_control(), *map(quota, self._folders)) if cpus is not None]
        return max(1, int(min(known) / self._processes)) if known else None

    def _read_control(self) -> float | None:
        """While it is being replaced, what was known before."""
        try:
            with open(self._control, encoding="utf-8") as file:
                cpus = json.load(file)["cpus"]
            self._told = None if cpus is None else float(cpus)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return self._told


def processes_of_worker(env: Mapping[str, str]) -> int:
    """torchrun may start several training processes in one worker: they share its limit."""
    number = env.get("LOCAL_WORLD_SIZE", "1") if "TORCHELASTIC_RUN_ID" in env else "1"
    return max(1, int(number)) if number.isdigit() else 1


def quota(folder: str) -> float | None:
    """The cores that a control group allows, version 2 or 1; None: no limit, or none that we could see."""
    try:
        words = _read(folder, "cpu.max").split()
    except (OSError, ValueError):
        try:
            words = [_read(folder, "cpu.cfs_quota_us"), _read(folder, "cpu.cfs_period_us")]
        except (OSError, ValueError):
            return None
    try:
        given, period = int(words[0]), int(words[1])
        return given / period if given > 0 and period > 0 else None
    except (ValueError, IndexError):  # "max 100000"
        return None


def cpu_folders(proc: str) -> Iterator[str]:
    """The control groups around this process that may limit its CPU time, from its own to the outermost we can see."""
    try:
        groups = dict(_groups(_read(proc, "cgroup")))
        mounts = _read(proc, "mountinfo").splitlines()
    except (OSError, ValueError):
        return
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        controller = {"cgroup": "cpu", "cgroup2": ""}.get(kind[0] if kind else "")
        if controller is None or controller not in groups or (controller and controller not in kind[2].split(",")):
            continue
        root, point = fields[3].rstrip("/"), fields[4]
        group = groups[controller]
        yield from _upwards(point, group[len(root) :] if group.startswith(root) else "")


def _groups(text: str) -> Iterator[tuple[str, str]]:
    """(controller, path) from /proc/self/cgroup; version 2 has no name."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _upwards(point: str, below: str) -> Iterator[str]:
    names = [name for name in below.split("/") if name]
    for count in range(len(names), -1, -1):
        folder = os.path.join(point, *names[:count])
        if any(os.path.exists(os.path.join(folder, file)) for file in ("cpu.max", "cpu.cfs_quota_us")):
            yield folder


def _read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def renew_environment(env: MutableMapping[str, str], threads: int | None) -> None:
    """The present number in place of the one that the executor gave at the start, as far as that was not changed."""
    before = env.get(CHOSEN, "")
    if threads is None or not before or before == str(threads):
        return
    for name in FROM_IT:
        if env.get(name) == before:
            env[name] = str(threads)
    env[CHOSEN] = str(threads)
