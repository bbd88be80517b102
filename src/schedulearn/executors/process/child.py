"""How a process becomes a job's. Part of the shim and of the companion: standard library only, few imports."""

from __future__ import annotations

import ctypes
import os
import signal

from schedulearn.executors.process.confine import drop_rights, gain_nothing, see_as, see_only

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_DENIED = "the GPUs of others cannot be denied to it: its control group for devices cannot be made"
_IGNORED = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGTTOU,
    signal.SIGTTIN,
)


class NotStarted(Exception):
    """The command could not be started; the text says why."""

    code = 126  # a shell's exit code for it


class NoSuchCommand(NotStarted):
    code = 127


def become(orders: dict[str, Any], argv: list[str], parent: int, namespace: int | None = None) -> NoReturn:
    """In a forked child, with its output in place: take on the user, the folder and the environment of launch.json.

    `namespace`: of the mounts that it should see; None: they are made for it, if launch.json has any.
    NotStarted if that cannot be. The process then ends with its parent.
    """
    doing = "start"
    try:
        _default_signals()
        import warnings  # noqa: F401 - execvpe needs it, and the user to become may not be able to read it

        if orders["uid"] is not None:
            _confine(orders, namespace)
        elif os.geteuid() != 0:
            doing = "give up what rights it could gain"
            gain_nothing()
        end_with(parent)
        doing = f"enter {orders['cwd']}"
        os.chdir(orders["cwd"])
        doing = f"run {argv[0]!r}"
        os.execvpe(argv[0], argv, orders["env"])
    except NotStarted:
        raise
    except Exception as error:
        if doing.startswith("run ") and isinstance(error, FileNotFoundError):
            raise NoSuchCommand(f"command not found: {argv[0]}") from error
        why = error.strerror if isinstance(error, OSError) else repr(error)
        raise NotStarted(f"cannot {doing}: {why}") from error


def end_with(parent: int) -> None:
    """Be killed when the parent dies; at once, if it is dead already. A change of user takes this away."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _confine(orders: dict[str, Any], namespace: int | None) -> None:
    try:
        if namespace is not None:
            see_as(namespace)
        elif orders["view"] is not None:
            see_only(orders["view"])
    except OSError as error:
        raise NotStarted(f"cannot be given mounts of its own: {error.strerror}") from error
    try:
        drop_rights(orders["uid"], orders["gid"], orders["groups_of_user"])
    except OSError as error:
        raise NotStarted(f"cannot become user {orders['uid']}: {error.strerror}") from error


def _default_signals() -> None:
    """Python, the shim and the companion ignore some signals, and ignoring is inherited."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
