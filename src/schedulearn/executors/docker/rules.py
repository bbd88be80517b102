"""What the administrator decided for all containers, and what of a job is refused because of it."""

from dataclasses import dataclass

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.core.domain.ports import Launch

WORK, CHECKPOINT, CONTROL = "/work", "/checkpoint", "/schedulearn"  # the same paths in every container
NONE_RUNNING = 65534
NETWORKS = "198.18.0.0/15"  # set aside for tests between networks: no real addresses, no server's own network


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for every job on an engine."""

    uid: int = NONE_RUNNING  # of jobs whose user was given none
    gid: int = NONE_RUNNING
    mounts: tuple[str, ...] = ()  # folders of servers that jobs may mount; with :rw at the end also to write
    shared_checkpoints: str = ""  # a folder that is the same on every server; "": checkpoints are copied
    network: str | None = None  # the same for all; None: one for each attempt, or the host's where there is no bridge
    host_network: bool = True  # whether jobs that cannot do without may share their server's
    networks: str = NETWORKS  # where those of attempts take their addresses
    processes: int = 4096  # of one worker, threads included: a runaway fork must not take the machine with it
    shm: int = 1 << 30  # bytes of /dev/shm for jobs that do not say: Docker's own 64 MB stop many data loaders
    setup_seconds: float = 3600.0  # what `setup` may take; it has no end of its own
    setup_cpus: float = 2.0  # cores that it has at least
    setup_memory: int = 8 << 30  # bytes that it has for a job that does not say
    setup_disk: int = 64 << 30  # bytes that it may write
    log_size: int = 16 << 20  # bytes of one file of output that the engine keeps
    log_files: int = 4  # with fewer than two, following breaks at each rotation


def identity(launch: Launch, rules: Rules) -> tuple[int, int]:
    """The uid and gid that a container runs as: what the administrator gave the user, never root."""
    if launch.uid is None:
        uid, gid = rules.uid, rules.gid
    else:
        uid, gid = launch.uid, launch.uid if launch.gid is None else launch.gid
    if uid <= 0 or gid <= 0:
        raise ExecutorError(f"containers never run as root: give the user another uid and gid than {uid}:{gid}")
    return uid, gid
