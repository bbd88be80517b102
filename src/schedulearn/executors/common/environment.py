"""The environment variables of a worker."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from schedulearn.core.domain.ports import Launch
from schedulearn.core.domain.spec import Launcher
from schedulearn.executors.common.control import threads_for


@dataclass(frozen=True, slots=True)
class Places:
    """Where a worker finds its files, as it sees them itself."""

    token: str
    checkpoint: str
    control: str
    spool: str
    ack: str
    inside: str  # what is put in front of the path of Python programs


# Who sets one of these has chosen a number of threads, and keeps it.
_NUMBERS_OF_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def worker_environment(launch: Launch, places: Places, defaults: Mapping[str, str]) -> dict[str, str]:
    """What the job asked for, defaults below it, and on top what the scheduler alone decides."""
    asked = {**launch.spec.env, **launch.env}
    return {
        **defaults,
        **_usual(launch),
        **asked,
        **_python_path(places.inside, {**defaults, **asked}),
        **_contract(launch, places),
        **_chosen_threads(launch, asked),
        **_devices(launch),
        **_rendezvous(launch),
    }


def _usual(launch: Launch) -> dict[str, str]:
    # Unless it is told, torchrun kills its processes after 30 s: the scheduler's own time must be the shorter one.
    env = {"PYTHONUNBUFFERED": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(math.ceil(launch.spec.grace) + 1)}
    if launch.cpu_limit is not None:
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        env |= dict.fromkeys(names, str(threads_for(launch.cpu_limit, 1)))
    return env


def _python_path(inside: str, env: Mapping[str, str]) -> dict[str, str]:
    own = env.get("PYTHONPATH")
    return {"PYTHONPATH": f"{inside}:{own}" if own else inside}


def _chosen_threads(launch: Launch, asked: Mapping[str, str]) -> dict[str, str]:
    """For the hook on the path: what it may change later. Nothing, if the job has chosen a number itself."""
    if any(asked.get(name) for name in _NUMBERS_OF_THREADS):
        return {}
    return {"SCHEDULEARN_THREADS": "" if launch.cpu_limit is None else str(threads_for(launch.cpu_limit, 1))}


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
        "SCHEDULEARN_ACK": places.ack,
    }


def _devices(launch: Launch) -> dict[str, str]:
    devices = ",".join(launch.devices)
    return {
        "CUDA_VISIBLE_DEVICES": devices,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NVIDIA_VISIBLE_DEVICES": devices or "void",  # an image may say `all`, which would show every GPU
    }


def _rendezvous(launch: Launch) -> dict[str, str]:
    """To torchrun (PET_*) each worker is a node with one process. The rest is for jobs that may have several workers.

    Horovod tells its processes their ranks itself, and all of them inherit what worker 0 has.
    """
    if launch.spec.launcher is Launcher.HOROVOD:
        return {}
    rank, size, port = str(launch.worker.rank), str(launch.world_size), str(launch.master_port)
    torchrun = {
        "PET_NNODES": size,
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": launch.master_addr,
        "PET_MASTER_PORT": port,
    }
    if launch.spec.workers.max <= 1:
        return torchrun
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": str(launch.local_rank),
        "MASTER_ADDR": launch.master_addr,
        "MASTER_PORT": port,
        **torchrun,
    }
