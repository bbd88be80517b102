"""The environment variables of a worker."""

import math
import os
import pwd
from collections.abc import Mapping

from schedulearn.domain.ports import Launch
from schedulearn.executors.process.paths import WorkerPaths


def worker_environment(launch: Launch, paths: WorkerPaths, service: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the job asked for, defaults below it, and on top what the scheduler alone decides."""
    return {
        **_defaults(launch, service),
        **launch.spec.env,
        **launch.env,
        **_contract(launch, paths),
        **_devices(launch),
        **_rendezvous(launch),
    }


def threads_for(cpu_limit: float | None, cores: float) -> int:
    """Threads above the limit collapse throughput, so never more than it allows."""
    return max(1, math.floor(cores if cpu_limit is None else cpu_limit))


def _defaults(launch: Launch, service: Mapping[str, str]) -> dict[str, str]:
    env = {name: service[name] for name in ("PATH", "HOME", "LANG", "USER") if name in service}
    env.setdefault("PATH", os.defpath)
    if launch.uid is not None:
        env |= _identity(launch.uid)
    env["PYTHONUNBUFFERED"] = "1"
    if launch.cpu_limit is not None:
        env["OMP_NUM_THREADS"] = str(threads_for(launch.cpu_limit, 1))
    return env


def _identity(uid: int) -> dict[str, str]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return {"HOME": "/", "USER": str(uid)}
    return {"HOME": user.pw_dir, "USER": user.pw_name}


def _contract(launch: Launch, paths: WorkerPaths) -> dict[str, str]:
    worker = launch.worker
    return {
        "SCHEDULEARN_JOB_ID": str(worker.job),
        "SCHEDULEARN_ATTEMPT": str(worker.of),
        "SCHEDULEARN_WORKER": str(worker),
        "SCHEDULEARN_URL": launch.url,
        "SCHEDULEARN_TOKEN_FILE": str(paths.token),
        "SCHEDULEARN_CHECKPOINT_DIR": str(paths.job.checkpoint),
        "SCHEDULEARN_CONTROL": str(paths.control),
        "SCHEDULEARN_SPOOL": str(paths.spool),
    }


def _devices(launch: Launch) -> dict[str, str]:
    devices = ",".join(launch.devices)
    return {
        "CUDA_VISIBLE_DEVICES": devices,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_VISIBLE_DEVICES": devices or "void",
    }


def _rendezvous(launch: Launch) -> dict[str, str]:
    """For jobs that may have several workers. To torchrun (PET_*) each worker is a node with one process."""
    if launch.spec.workers.max <= 1:
        return {}
    rank, size, port = str(launch.worker.rank), str(launch.world_size), str(launch.master_port)
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": str(launch.local_rank),
        "MASTER_ADDR": launch.master_addr,
        "MASTER_PORT": port,
        "PET_NNODES": size,
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": launch.master_addr,
        "PET_MASTER_PORT": port,
    }
