"""The environment variables of a worker that is a process of this machine."""

import os
import pwd
from collections.abc import Mapping

from schedulearn.domain.ports import Launch
from schedulearn.executors.common.environment import Places, worker_environment
from schedulearn.executors.common.inside import inside_folder
from schedulearn.executors.common.paths import WorkerPaths


def process_environment(launch: Launch, paths: WorkerPaths, service: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A few of the service's own variables below what the job asked for and what the scheduler decides."""
    own = (paths.token, paths.job.checkpoint, paths.control, paths.spool, paths.ack, inside_folder(paths.job.root))
    places = Places(*map(str, own))
    defaults = {name: service[name] for name in ("PATH", "HOME", "LANG", "USER") if name in service}
    defaults.setdefault("PATH", os.defpath)
    if launch.uid is not None:
        defaults |= _identity(launch.uid)
    return worker_environment(launch, places, defaults)


def _identity(uid: int) -> dict[str, str]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return {"HOME": "/", "USER": str(uid)}
    return {"HOME": user.pw_dir, "USER": user.pw_name}
