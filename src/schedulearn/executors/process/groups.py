"""Make, fill and remove control groups. Part of the shim: standard library only, few imports."""
# ruff: noqa: PTH103, PTH106, PTH120
# (part of the shim: importing pathlib would double its time to start)

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

from schedulearn.executors.process.procfs import read_text

TYPE_CHECKING = False  # importing typing would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any


class Groups:
    """The control groups of one worker, made as launch.json says. What cannot be made is reported, not fatal."""

    def __init__(self, plans: list[dict[str, Any]]) -> None:
        self.made: list[dict[str, Any]] = []
        for plan in plans:
            # Twice, because the last worker to end may remove the common parent between two of our steps.
            if self._make(plan) or self._make(plan):
                self.made.append(plan)

    def _make(self, plan: dict[str, Any]) -> bool:
        try:
            self._take_steps(plan)
        except OSError:
            remove_group(plan)
            return False
        return True

    def _take_steps(self, plan: dict[str, Any]) -> None:
        for action, path, value in plan["steps"]:
            if action == "mkdir":
                os.makedirs(path, exist_ok=True)
                continue
            try:
                _write(path, value)
            except OSError:
                if action != "try":
                    raise

    def enter(self, pid: int) -> set[str]:
        """Put a process into all of them; the controllers that now hold it."""
        controllers: set[str] = set()
        for plan in list(self.made):
            try:
                _write(f"{plan['dir']}/cgroup.procs", str(pid))
                controllers.update(plan["controllers"])
            except OSError:
                self.made.remove(plan)
                remove_group(plan)
        return controllers

    def killed_for_memory(self) -> bool:
        for plan in self.made:
            try:
                lines = read_text(plan["oom"]).splitlines() if plan["oom"] else []
            except OSError:
                continue
            if any(line.split()[:1] == ["oom_kill"] and line.split()[1] != "0" for line in lines):
                return True
        return False

    def close(self) -> None:
        close_groups(self.made)

    def members(self) -> set[int]:
        return members_of(self.made)

    def remove(self) -> None:
        for plan in self.made:
            remove_group(plan)


def must_hold(orders: dict[str, Any]) -> set[str]:
    """The controllers without which a worker may not run: nothing else keeps it from the GPUs of others."""
    planned = {controller for plan in orders["groups"] for controller in plan["controllers"]}
    return planned & {"devices"} if orders["uid"] is not None and orders["view"] is None else set()


def close_groups(plans: list[dict[str, Any]]) -> None:
    """From now on no process in them can fork: else a program that forks faster than it is killed would get away."""
    for plan in plans:
        with suppress(OSError):  # only the group that counts processes has this file
            _write(f"{plan['dir']}/pids.max", "0")


def members_of(plans: list[dict[str, Any]]) -> set[int]:
    """The processes in groups that are there."""
    found: set[int] = set()
    for plan in plans:
        with suppress(OSError):
            found.update(map(int, read_text(f"{plan['dir']}/cgroup.procs").split()))
    return found - {0}  # one that cannot be seen from here; to a signal it would mean ourselves


def join(plans: list[dict[str, Any]], pid: int) -> set[str]:
    """Put a process into groups that are there; the controllers that now hold it."""
    held: set[str] = set()
    for plan in plans:
        with suppress(OSError):  # it could not be made, or the worker has just ended
            _write(f"{plan['dir']}/cgroup.procs", str(pid))
            held.update(plan["controllers"])
    return held


def _write(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def remove_group(plan: dict[str, Any], tries: int = 100) -> bool:
    """Remove an empty group, and the common parent if this was the last one. The kernel may need a moment."""
    for _ in range(tries):
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
