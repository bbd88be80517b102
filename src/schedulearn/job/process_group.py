"""The workers that train together now, as one of them sees it: a torch process group that comes and goes.

The group is a plain `ProcessGroupGloo`, not torch's global one, so it can be dropped and made anew while the program
runs. Its members find each other through the service; what they send goes straight from one to the other.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from schedulearn.job.control import Control, read_control
from schedulearn.job.group import Away, GroupGone, Joined, Rendezvous
from schedulearn.job.service import service_from_environment
from schedulearn.job.stopping import stop_asked

_FORMING = 10.0  # seconds for members that are all there to connect to each other
_LOOK = 0.02  # seconds between two looks at the control file, while there is nothing else to do
_AGAIN = 0.2  # seconds between two questions to the service
_PATIENCE = 10.0  # seconds that workers which have to leave train on until the newcomers are ready
_PIECE = 1 << 28  # bytes sent at once
_log = logging.getLogger("schedulearn.job")


class Broken(Exception):
    """A member is gone: the group cannot be used any more."""


class Dismissed(Exception):
    """This worker is not a member any more."""


class Over(Exception):
    """The others have come to the end of the training."""


class StopAsked(Exception):
    """SIGTERM came while this worker waited for the others."""


class ProcessGroup:
    """Alone until it has joined others. Outside of Schedulearn it stays alone."""

    def __init__(self, timeout: float) -> None:
        self.rank, self.size, self.generation = 0, 1, 0
        self._timeout = timedelta(seconds=timeout)
        self._group: Any = None
        self._members: tuple[int, ...] = ()
        self._newcomers: _Newcomers | None = None
        service = service_from_environment() if "SCHEDULEARN_CONTROL" in os.environ else None
        self._rendezvous = Rendezvous(service) if service else None
        self._own = int(os.environ.get("SCHEDULEARN_WORKER", "0").rpartition(".")[2])

    # --- coming and going

    def join(self, step: int, generation: int = 0) -> Joined:
        """Become part of the newest group, of this generation or a later one; waits as long as that takes.

        `step` says how far this worker's state has come, -1 that it has none.
        """
        self.close()
        while True:
            control = self._control(generation)
            if len(control.members) == 1:
                self._settle(control, 0)
                return Joined(control.generation, differ=step < 0)
            joined = self._try(control, step)
            if joined is not None and joined.over:
                raise Over
            if joined is not None and joined.group:
                self._settle(control, joined.rank)
                return joined
            generation = max(generation, joined.generation if joined else 0)

    def change(self) -> int:
        """The generation that it is time to change to; 0: none. Only the leader ever says so."""
        if self.rank != 0 or self._rendezvous is None:
            return 0
        control = read_control()
        if control.generation <= self.generation:
            return 0
        if self._newcomers is None or self._newcomers.control != control:
            if self._newcomers:
                self._newcomers.stop()
            self._newcomers = _Newcomers(self._rendezvous, control, self._members)
        return control.generation if self._newcomers.ready else 0

    def close(self) -> None:
        """Leave the group, if there is one."""
        self._group = None
        if self._newcomers:
            self._newcomers.stop()
            self._newcomers = None

    def end(self) -> None:
        """The training is over. Workers that were still on their way are told so."""
        self.close()
        if self._rendezvous is not None and self.rank == 0:
            try:
                self._rendezvous.end()
            except Exception:
                _log.debug("the service was not told that the training is over", exc_info=True)

    # --- talking to each other

    def sum(self, numbers: torch.Tensor) -> None:
        """Replace the numbers by the sum over all members, the same to the last bit in each."""
        if self.size > 1:
            options = dist.AllreduceOptions()
            options.timeout = self._timeout
            self._do(lambda group: group.allreduce([numbers], options))

    def send(self, data: bytes | None, source: int) -> bytes:
        """What member `source` gives, in every member."""
        length = torch.tensor([len(data) if data is not None else 0])
        self._broadcast(length, source)
        content = torch.frombuffer(bytearray(data or bytes(int(length))), dtype=torch.uint8)
        for piece in content.split(_PIECE):
            self._broadcast(piece, source)
        return bytes(content.numpy())

    def _broadcast(self, numbers: torch.Tensor, source: int) -> None:
        if self.size > 1:
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor, options.timeout = source, 0, self._timeout
            self._do(lambda group: group.broadcast([numbers], options))

    def _do(self, collective: Callable[[Any], Any]) -> None:
        try:
            collective(self._group).wait()
        except RuntimeError as problem:
            self.close()
            raise Broken(str(problem)) from problem

    # --- forming

    def _control(self, generation: int) -> Control:
        """What the control file says, once it knows of this generation."""
        while True:
            if stop_asked():
                raise StopAsked
            control = read_control() if self._rendezvous else Control(members=(self._own,))
            if control.generation >= generation:
                break
            time.sleep(_LOOK)
        if self._own not in control.members:
            raise Dismissed
        return control

    def _settle(self, control: Control, rank: int) -> None:
        self.rank, self.size, self.generation = rank, len(control.members), control.generation
        self._members = control.members

    def _try(self, control: Control, step: int) -> Joined | None:
        """One attempt to form the group; None: try again."""

        def enough() -> bool:
            return stop_asked() or read_control() != control

        assert self._rendezvous is not None
        try:
            joined = self._rendezvous.join(control.generation, control.members, step, enough=enough)
            if joined is not None and joined.group:
                self._group = _connect(self._rendezvous, joined.group, joined.rank, joined.size, enough)
        except Away as problem:
            _log.info("waiting for the service: %s", problem)
            time.sleep(_AGAIN)
            return None
        except (GroupGone, RuntimeError) as problem:
            _log.info("the group was not formed, trying again: %s", problem)
            return None
        return joined


class _Newcomers:
    """Looks, from a thread of its own, whether all new workers are ready. Until then the others train on."""

    def __init__(self, rendezvous: Rendezvous, control: Control, before: tuple[int, ...]) -> None:
        self.control = control
        self._rendezvous = rendezvous
        self._new = set(control.members) - set(before)
        self._patience = _PATIENCE if set(before) - set(control.members) else float("inf")
        self._ready, self._stopped = threading.Event(), threading.Event()
        if self._new:
            threading.Thread(target=self._run, name="schedulearn-newcomers", daemon=True).start()
        else:
            self._ready.set()

    @property
    def ready(self) -> bool:
        return self._ready.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        until = time.monotonic() + self._patience
        while not self._stopped.is_set():
            try:
                generation, waiting = self._rendezvous.waiting()
                if (generation == self.control.generation and self._new <= waiting) or time.monotonic() > until:
                    self._ready.set()
                    return
            except Exception:  # without the service there is no change: the training goes on as it is
                _log.debug("the service was not asked for newcomers", exc_info=True)
            self._stopped.wait(_AGAIN)


class _Store(dist.Store):  # type: ignore[misc] # torch is not looked at by the type checker
    """What gloo uses to connect the members: a few small values, kept by the service."""

    def __init__(self, rendezvous: Rendezvous, group: str, enough: Callable[[], bool]) -> None:
        super().__init__()
        self._rendezvous, self._name, self._enough = rendezvous, group, enough
        self._known: dict[str, bytes] = {}  # values do not change

    def set(self, key: str, value: str | bytes) -> None:
        data = value.encode() if isinstance(value, str) else bytes(value)
        self._rendezvous.set(self._name, key, base64.b64encode(data).decode())

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._known[key]

    def wait(self, keys: list[str], timeout: timedelta = timedelta(seconds=_FORMING)) -> None:
        until = time.monotonic() + timeout.total_seconds()
        while missing := [key for key in keys if key not in self._known]:
            rest = until - time.monotonic()
            if rest <= 0 or self._enough():
                raise RuntimeError(f"no other member has set {missing}")
            found = self._rendezvous.get(self._name, missing, min(rest, _FORMING), self._enough)
            self._known.update((key, base64.b64decode(value)) for key, value in found.items())

    def check(self, keys: list[str]) -> bool:
        return len(self._rendezvous.get(self._name, keys, 0.0, self._enough)) == len(set(keys))

    def add(self, key: str, amount: int) -> int:
        return self._rendezvous.add(self._name, key, amount)

    def set_timeout(self, timeout: timedelta) -> None:
        """Every wait comes with its own."""


def _connect(rendezvous: Rendezvous, group: str, rank: int, size: int, enough: Callable[[], bool]) -> Any:
    gloo = dist.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname=rendezvous.own_address())]
    options._timeout = timedelta(seconds=_FORMING)
    return gloo(_Store(rendezvous, group, enough), rank, size, options)
