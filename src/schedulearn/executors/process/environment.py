"""The environment variables of a worker that is a process of this machine."""

import os
import pwd
import sys
from collections.abc import Mapping
from pathlib import Path

from schedulearn.core.domain.ports import Launch
from schedulearn.executors.common.environment import Places, worker_environment
from schedulearn.executors.common.paths import WorkerPaths
from schedulearn.executors.common.sitehook import hook_folder


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
