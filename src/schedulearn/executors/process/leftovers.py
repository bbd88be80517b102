"""What a worker leaves behind when its shim is killed: find it, kill it, remove its control groups; how it ended."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedulearn.core.domain.ids import WorkerId
from schedulearn.core.domain.outcome import Ending, Outcome
from schedulearn.executors.common.endings import End
from schedulearn.executors.common.paths import WorkerPaths, read_orders
from schedulearn.executors.kernel.procfs import all_pids, boot_id, send, stat_fields
from schedulearn.executors.process.claim import Claim
from schedulearn.executors.process.groups import close_groups, members_of, remove_group

PATIENCE = 5.0  # seconds until a process that does not die is left alone


def end_without_record(claim: Claim | None) -> End:
    """How a worker ended whose claim is not held, if its shim has not written it down."""
    if claim is None or claim.void:
        return End(Outcome(Ending.LOST, detail="it was never started"))
    if claim.boot_id != boot_id():
        return End(Outcome(Ending.LOST, detail="the machine was restarted"))
    return End(Outcome(Ending.SIGNALLED, signal=signal.SIGKILL, detail="its supervisor was killed"))


def clean(worker: WorkerId, paths: WorkerPaths, claim: Claim) -> None:
    """Only for a worker of this boot: after a restart of the machine its pids are other processes'."""
    if claim.boot_id != boot_id():
        return
    plans = read_orders(paths).get("groups", [])
    close_groups(plans)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pids = set(_survivors(worker, paths, claim, plans))
        if not pids:
            break
        for pid in pids:
            send(pid, signal.SIGKILL)
        time.sleep(0.01)
    for plan in plans:
        remove_group(plan)


def _survivors(worker: WorkerId, paths: WorkerPaths, claim: Claim, plans: list[Any]) -> Iterator[int]:
    yield from members_of(plans)
    # The path tells our 17.2.0 from that of a service with another data folder.
    marks = {f"SCHEDULEARN_WORKER={worker}".encode(), f"SCHEDULEARN_CONTROL={paths.control}".encode()}
    session = _session_of(claim)
    for pid in all_pids():
        if pid == os.getpid():
            continue
        with suppress(OSError, IndexError):
            fields = stat_fields(pid)
            if fields[0] != "Z" and (int(fields[3]) == session or marks <= _environ(pid)):
                yield pid


def _environ(pid: int) -> set[bytes]:
    return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


def _session_of(claim: Claim) -> int | None:
    """The session that the command led. Its number is taken while members live: ours, unless a new leader has it."""
    if not claim.child_pid:
        return None
    try:
        leader = int(stat_fields(claim.child_pid)[19])
    except (OSError, IndexError):
        return claim.child_pid
    return claim.child_pid if leader == claim.child_start_time else None
