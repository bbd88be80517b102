"""Make, fill and remove control groups. Part of the shim: standard library only, few imports."""
# ruff: noqa: PTH103, PTH106, PTH120
# (part of the shim: importing pathlib would double its time to start)

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

from schedulearn.executors.kernel.procfs import read_text

TYPE_CHECKING = False  # importing typing would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any

    Plan = dict[str, Any]  # one group, as launch.json says: dir, controllers, steps, oom
_TRIES = 500  # to remove a group: on a busy machine what was killed takes its time to be gone


def make_groups(plans: list[Plan]) -> list[Plan]:
    """Those of them that could be made."""
    # Twice, because the last worker to end may remove the common parent between two of our steps.
    return [plan for plan in plans if _make(plan) or _make(plan)]


def _make(plan: Plan) -> bool:
    try:
        _take_steps(plan)
    except OSError:
        remove_group(plan)
        return False
    return True


def _take_steps(plan: Plan) -> None:
    for action, path, value in plan["steps"]:
        if action == "mkdir":
            os.makedirs(path, exist_ok=True)
            continue
        try:
            _write(path, value)
        except OSError:
            if action != "try":
                raise


def enter_groups(plans: list[Plan], pid: int) -> list[Plan]:
    """Put a process into them; those that it is in now."""
    entered = []
    for plan in plans:
        with suppress(OSError):  # it could not be made, or the worker has just ended
            _write(f"{plan['dir']}/cgroup.procs", str(pid))
            entered.append(plan)
    return entered


def controllers_of(plans: list[Plan]) -> set[str]:
    return {controller for plan in plans for controller in plan["controllers"]}


def killed_for_memory(plans: list[Plan]) -> bool:
    for plan in plans:
        try:
            lines = read_text(plan["oom"]).splitlines() if plan["oom"] else []
        except OSError:
            continue
        if any(line.split()[:1] == ["oom_kill"] and line.split()[1] != "0" for line in lines):
            return True
    return False


def must_hold(orders: dict[str, Any]) -> set[str]:
    """The controllers without which a worker may not run: nothing else keeps it from the GPUs of others."""
    return (
        controllers_of(orders["groups"]) & {"devices"}
        if orders["uid"] is not None and orders["view"] is None
        else set()
    )


def close_groups(plans: list[Plan]) -> None:
    """From now on no process in them can fork: else a program that forks faster than it is killed would get away."""
    for plan in plans:
        with suppress(OSError):  # only the group that counts processes has this file
            _write(f"{plan['dir']}/pids.max", "0")


def members_of(plans: list[Plan]) -> set[int]:
    """The processes in groups that are there."""
    found: set[int] = set()
    for plan in plans:
        with suppress(OSError):
            found.update(map(int, read_text(f"{plan['dir']}/cgroup.procs").split()))
    return found - {0}  # one that cannot be seen from here; to a signal it would mean ourselves


def _write(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def remove_group(plan: Plan) -> bool:
    """Remove an empty group, and the common parent if this was the last one. The kernel may need a moment."""
    for _ in range(_TRIES):
        try:
            os.rmdir(plan["dir"])
            break
        except FileNotFoundError:
            break
        except OSError as error:
            if error.errno != errno.EBUSY:
                return False
            time.sleep(0.01)
    else:
        return False
    with suppress(OSError):  # others may still use it
        os.rmdir(os.path.dirname(plan["dir"]))
    return True
