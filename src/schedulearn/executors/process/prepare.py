"""Everything a worker needs before its shim starts: folders, code, token, limits, orders."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from schedulearn.domain.errors import ExecutorError
from schedulearn.domain.ports import Launch
from schedulearn.executors.process.cgroups import Plan
from schedulearn.executors.process.environment import threads_for, worker_environment
from schedulearn.executors.process.paths import WorkerPaths, locked, write_file, write_json
from schedulearn.executors.process.snapshot import Owner, fill_run_folder


@dataclass(frozen=True, slots=True)
class Limits:
    """How a worker is held to its share of the machine."""

    groups: list[Plan]
    cores: list[int]  # pinned to these where no group can hold it
    log_cap: int  # bytes of output that are kept
    machine_cores: float


def prepare(launch: Launch, paths: WorkerPaths, limits: Limits) -> None:
    """Make folders and files; launch.json comes last. The caller holds the worker's lock."""
    owner = _owner(launch)
    with locked(paths.job.lock):
        if not paths.job.run.exists():
            fill_run_folder(paths.job.run, launch.snapshot, owner)
        if not paths.job.checkpoint.exists():
            _folder(paths.job.checkpoint, 0o700, owner)
    _folder(paths.log, 0o700)
    write_file(paths.token, launch.token.encode(), 0o600, owner)
    if not paths.spool.exists():
        write_file(paths.spool, b"", 0o600, owner)
    write_json(paths.control, _control(launch, limits))
    write_json(paths.launch, _orders(launch, paths, limits, owner), 0o600)


def make_worker_folder(paths: WorkerPaths) -> None:
    """Down to the worker's own folder. A job with its own user must be able to pass, but not to look around."""
    job = paths.job
    for folder in (job.folder.parent, job.folder, job.attempts, paths.folder.parent, paths.folder):
        _folder(folder, 0o711)


def _folder(path: Path, mode: int, owner: Owner = None) -> None:
    path.mkdir(exist_ok=True, parents=True)
    path.chmod(mode)  # mkdir's own mode is cut down by the umask
    if owner:
        os.chown(path, *owner)


def _owner(launch: Launch) -> Owner:
    if launch.uid is None or (launch.uid == os.geteuid() and launch.gid in (None, os.getegid())):
        return None
    if os.geteuid() != 0:
        raise ExecutorError(f"only a service that runs as root can run jobs as user {launch.uid}")
    return launch.uid, _main_group(launch.uid) if launch.gid is None else launch.gid


def _main_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _groups_of(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]


def _control(launch: Launch, limits: Limits) -> dict[str, object]:
    return {
        "cpus": launch.cpu_limit,
        "threads": threads_for(launch.cpu_limit, limits.machine_cores),
        "memory": launch.spec.resources.memory,
        "world_size": launch.world_size,
    }


def _orders(launch: Launch, paths: WorkerPaths, limits: Limits, owner: Owner) -> dict[str, object]:
    command = launch.spec.command
    uid, gid = owner or (None, None)
    return {
        "argv": ["/bin/sh", "-c", command] if isinstance(command, str) else list(command),
        "env": worker_environment(launch, paths),
        "cwd": str(paths.job.run),
        "uid": uid,
        "gid": gid,
        "groups_of_user": _groups_of(*owner) if owner else [],
        "grace": launch.spec.grace,
        "memory": launch.spec.resources.memory,
        "groups": limits.groups,
        "cores": limits.cores,
        "log_cap": limits.log_cap,
    }
