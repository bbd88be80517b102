"""Looks at the limit now and then, makes the pools follow in the right threads, and says so to the executor."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
import threading

from .limit import CHOSEN
from .pools import Pools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .limit import Limit

PERIOD = 0.2  # seconds between two looks
ACK_SIZE = 64  # bytes: every acknowledgement is written over the whole of the one before, at once
_OF_TENSORFLOW = "TF_NUM_INTRAOP_THREADS"


class Follower:
    """Pools of BLAS libraries are changed by the thread that looks. torch and OpenMP have a number for each thread of
    the program: it is changed in threads that train between two steps, and in the main thread between two byte codes.

    There is no lock: a program may be forked at any moment, and every change can be made twice.
    """

    def __init__(self, limit: Limit, ack: str) -> None:
        self.limit, self._ack = limit, ack
        self._pools = Pools()
        self._wanted = limit.threads()
        self._turn = 0  # grows whenever each thread has to look at its own number again
        self._done: dict[int, int] = {}  # thread -> the turn in which it did
        self._trainers: set[int] = set()  # threads that were seen between two steps
        self._asked = -1  # the turn for which the main thread was asked
        self._fixed = 0  # the number of threads of TensorFlow, which cannot change
        self._written = b""
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()
        self._call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._in_main_thread)
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self._leave)

    def add(self, name: str, module: Any) -> None:
        """A numeric library was imported just now."""
        if name == "torch":
            self._pools.add_torch(module)
            optimizer = sys.modules.get("torch.optim.optimizer")
            register = getattr(optimizer, "register_optimizer_step_post_hook", None)  # not in old ones
            if register:
                register(lambda *_: self.at_step())
        elif name == "tensorflow" and os.environ.get(_OF_TENSORFLOW, "") == os.environ.get(CHOSEN, ""):
            self._fixed = int(os.environ.get(CHOSEN) or 0) or os.cpu_count() or 1
        self._pools.search()
        self._wanted = self.limit.threads()
        self._turn += 1
        self._follow_here()
        self._look()
        self._start()

    def at_step(self) -> None:
        """Called often, so quick when there is nothing to do."""
        here = threading.get_ident()
        if self._done.get(here) != self._turn or here not in self._trainers or self._thread is None:
            self._trainers.add(here)
            self._start()
            self._follow_here()

    # --- in the background

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="schedulearn-threads", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._leaving.wait(PERIOD):
            try:
                self._look()
            except Exception:  # no reason to trouble the program; perhaps it works the next time
                pass

    def _look(self) -> None:
        wanted = self.limit.threads()
        if self._pools.search() or wanted != self._wanted:
            self._wanted = wanted
            self._turn += 1
        for pool in self._pools.all:
            if not pool.bound:
                pool.follow(self._wanted)
        if self._done.get(_main()) != self._turn and self._asked != self._turn and self._pools.bound:
            turn = self._turn
            if ctypes.PyDLL(None).Py_AddPendingCall(self._call, None) == 0:
                self._asked = turn
        self._acknowledge()

    def _forked(self) -> None:
        """In the child, which has only the one thread that forked. If it trains, its first step starts another."""
        self._thread, self._leaving = None, threading.Event()
        self._done, self._trainers, self._asked = {}, set(), -1

    def _leave(self) -> None:
        """Before the interpreter ends: it would end this thread wherever it is, and within C++ code of a library that
        aborts the whole program.
        """
        self._leaving.set()
        if self._thread is not None:
            self._thread.join()

    # --- in the program's own threads

    def _in_main_thread(self, _: object) -> int:
        """A signal may come just now, and what its handler raises must not be lost: C code called us."""
        try:
            self._follow_here()
        except BaseException as error:
            raise_later(error)
        return 0

    def _follow_here(self) -> None:
        turn = self._turn  # read first: a thread that a change overtakes has to come again
        for pool in self._pools.bound:
            pool.follow(self._wanted)
        self._done[threading.get_ident()] = turn
        self._acknowledge()

    # --- to the executor

    def _acknowledge(self) -> None:
        text = self._text()
        if text is None or text == self._written or not self._ack:
            return
        self._written = text
        try:
            file = os.open(self._ack, os.O_WRONLY)
            try:
                os.pwrite(file, text, 0)
                os.ftruncate(file, len(text))
            finally:
                os.close(file)
        except OSError:  # a full disk, or the job was forgotten: then it is not waited for either
            pass

    def _text(self) -> bytes | None:
        """None: there are threads that have not followed yet. Empty: the program's own choice, not to be waited for."""
        if self._fixed and "torch" not in sys.modules:
            return _line(self._fixed, fixed=True)
        if not self._settled():
            return None
        most = max((pool.number for pool in self._pools.all), default=1)
        if self._wanted is not None and most > self._wanted:
            return b""
        return _line(self._wanted or most, fixed=False)

    def _settled(self) -> bool:
        if not self._pools.bound:
            return True
        self._trainers &= set(sys._current_frames())  # without those that have ended
        return all(self._done.get(thread) == self._turn for thread in self._trainers or {_main()})


def _line(threads: int, *, fixed: bool) -> bytes:
    return json.dumps({"threads": threads, "fixed": fixed}).ljust(ACK_SIZE - 1).encode() + b"\n"


def _main() -> int:
    return threading.main_thread().ident or 0


def raise_later(error: BaseException) -> None:
    """In this thread, at the program's next byte code. Only a class can be raised so: one that knows its values."""
    kind = type(error)
    args = error.args
    again = type(kind.__name__, (kind,), {"__init__": lambda self: kind.__init__(self, *args)})
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(again))
