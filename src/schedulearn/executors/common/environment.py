"""The environment variables of a worker, and the limits that it can read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from schedulearn.domain.group import Group
from schedulearn.domain.ports import Launch
from schedulearn.executors.common.control import group_values


@dataclass(frozen=True, slots=True)
class Places:
    """Where a worker finds its files, as it sees them itself."""

    token: str
    checkpoint: str
    control: str
    spool: str


def worker_environment(launch: Launch, places: Places, defaults: Mapping[str, str]) -> dict[str, str]:
    """What the job asked for, defaults below it, and on top what the scheduler alone decides."""
    return {
        **defaults,
        **_usual(launch),
        **launch.spec.env,
        **launch.env,
        **_contract(launch, places),
        **_devices(launch),
        **_rendezvous(launch),
    }


def present_limits(launch: Launch, machine_cores: float) -> dict[str, object]:
    """What control.json says at the start."""
    return {
        "cpus": launch.cpu_limit,
        "threads": threads_for(launch.cpu_limit, machine_cores),
        "memory": launch.spec.resources.memory,
        **group_values(launch.group or Group(0, tuple(range(launch.world_size)))),
    }


def threads_for(cpu_limit: float | None, cores: float) -> int:
    """Threads above the limit collapse throughput, so never more than it allows."""
    return max(1, math.floor(cores if cpu_limit is None else cpu_limit))


def _usual(launch: Launch) -> dict[str, str]:
    env = {"PYTHONUNBUFFERED": "1"}
    if launch.cpu_limit is not None:
        env["OMP_NUM_THREADS"] = str(threads_for(launch.cpu_limit, 1))
    return env


def _contract(launch: Launch, places: Places) -> dict[str, str]:
    worker = launch.worker
    return {
        "SCHEDULEARN_JOB_ID": str(worker.job),
        "SCHEDULEARN_ATTEMPT": str(worker.of),
        "SCHEDULEARN_WORKER": str(worker),
        "SCHEDULEARN_URL": launch.url,
        "SCHEDULEARN_TOKEN_FILE": places.token,
        "SCHEDULEARN_CHECKPOINT_DIR": places.checkpoint,
        "SCHEDULEARN_CONTROL": places.control,
        "SCHEDULEARN_SPOOL": places.spool,
    }


def _devices(launch: Launch) -> dict[str, str]:
    devices = ",".join(launch.devices)
    return {
        "CUDA_VISIBLE_DEVICES": devices,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_VISIBLE_DEVICES": devices or "void",  # an image may say `all`, which would show every GPU
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
