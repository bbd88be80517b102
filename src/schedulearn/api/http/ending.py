"""SIGTERM and Ctrl-C end the process by unwinding it, so that leases and locks are given back.

Python throws an exception away that is raised while it clears something up (a weak reference, `__del__`), also the
one of a signal that comes just then. So it is remembered, and asked for where the process would begin to wait.
"""

import signal

_told = False


def end_on_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
            signal.signal(number, _end)


def told_to_end() -> bool:
    """Whether a signal has come since."""
    return _told


def _end(*_: object) -> None:
    global _told  # as the handlers of signals, it belongs to the whole process
    _told = True
    raise KeyboardInterrupt
