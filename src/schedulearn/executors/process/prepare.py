"""Everything a worker needs before its shim starts: folders, code, token, limits, orders."""

import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from schedulearn.archive.confined import Owner
from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ports import Launch
from schedulearn.executors.common.archive import Entry, pack, unpack
from schedulearn.executors.common.control import present_limits
from schedulearn.executors.common.environment import Places, worker_environment
from schedulearn.executors.common.folders import commit, make_folder, prepare_job_folders
from schedulearn.executors.common.keys import worker_key
from schedulearn.executors.common.launching import HOSTS, carries_group, launched, most_in, needs_hosts
from schedulearn.executors.common.paths import WorkerPaths, write_file, write_json
from schedulearn.executors.common.sitehook import hook_folder, install_hook
from schedulearn.executors.process.cgroups import Plan
from schedulearn.executors.process.view import NO_MOUNTS, Mounts, User


@dataclass(frozen=True, slots=True)
class Limits:
    """How a worker is held to its share of the machine."""

    groups: list[Plan]
    cores: list[int]  # pinned to these where no group can hold it
    log_cap: int  # bytes of output that are kept
    machine_cores: float
    mounts: Mounts = NO_MOUNTS
    masked: tuple[str, ...] = ()  # files of devices that it was not given


def prepare(launch: Launch, paths: WorkerPaths, limits: Limits) -> None:
    """Make folders and files; launch.json comes last. The caller holds the worker's lock."""
    owner = _owner(launch)
    prepare_job_folders(launch.worker, paths.job, launch.snapshot, owner)
    _hand_over(launch, paths, owner)
    make_folder(paths.log, 0o700)
    worker_key(paths.folder)  # so that what it is made of is there, while there is room on the disk
    write_file(paths.token, launch.token.encode(), 0o600, owner)
    if not paths.spool.exists():
        write_file(paths.spool, b"", 0o600, owner)
    install_hook(paths.job.root)
    write_file(paths.ack, b"", 0o600, owner)
    if needs_hosts(launch):
        write_file(paths.hosts, HOSTS.encode())
    write_json(paths.control, present_limits(launch, limits.machine_cores))
    write_json(paths.launch, _orders(launch, paths, limits, owner), 0o600)


def _hand_over(launch: Launch, paths: WorkerPaths, owner: Owner) -> None:
    """Folders of an earlier attempt that ran as another user are copied: uids may be given out differently now."""
    for folder in (paths.job.run, paths.job.checkpoint):
        if owner and folder.lstat().st_uid != owner[0]:
            packed = pack([Entry(folder.name, folder)], owner)
            commit(launch.worker, paths.job, folder, partial(unpack, packed, owner=owner))


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
        return []


def _orders(launch: Launch, paths: WorkerPaths, limits: Limits, owner: Owner) -> dict[str, object]:
    command = launched(launch, str(paths.hosts), str(paths.first.exit))
    uid, gid = owner or (None, None)
    groups = _groups_of(*owner) if owner else []
    view = limits.mounts.view(paths.job, User(*owner, tuple(groups)), limits.masked) if owner else None
    memory = launch.spec.resources.memory
    return {
        "argv": ["/bin/sh", "-c", command] if isinstance(command, str) else list(command),
        "env": process_environment(launch, paths, own_user=owner is not None),
        "cwd": str(paths.job.run),
        "uid": uid,
        "gid": gid,
        "groups_of_user": groups,
        "view": view,
        "grace": launch.spec.grace,
        "memory": None if memory is None else memory * most_in(launch),
        "carries_group": carries_group(launch),
        "groups": limits.groups,
        "cores": limits.cores,
        "log_cap": limits.log_cap,
    }


def process_environment(
    launch: Launch, paths: WorkerPaths, service: Mapping[str, str] = os.environ, *, own_user: bool = False
) -> dict[str, str]:
    """A few of the service's own variables below what the job asked for and what the scheduler decides.

    `own_user`: it runs as another user than the service, and may not reach the programs of its submitter's home.
    """
    own = (paths.token, paths.job.checkpoint, paths.control, paths.spool, paths.ack, hook_folder(paths.job.root))
    places = Places(*map(str, own))
    defaults = {name: service[name] for name in ("PATH", "HOME", "LANG", "USER") if name in service}
    defaults.setdefault("PATH", os.defpath)
    if launch.uid is not None:
        defaults |= _identity(launch.uid, str(paths.job.run))
    env = worker_environment(launch, places, defaults)
    if own_user:  # our own Python comes last: it is there for every job
        env["PATH"] = f"{env['PATH']}{os.pathsep}{Path(sys.executable).parent}"
    return env


def _identity(uid: int, run: str) -> dict[str, str]:
    """A user that the system does not know has no home, and programs want one to write to."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return {"HOME": run, "USER": str(uid)}
    return {"HOME": user.pw_dir, "USER": user.pw_name}
