"""This worker's side of the rendezvous: how the workers of a job find each other. Standard library only.

The service forms the groups, see `POST /attempts/…/group` in docs/reference/api.md. What a group does with itself is
not its business: `schedulearn.job.torch` makes a process group of it.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from schedulearn.job.service import Service

_ANSWER = 10.0  # seconds for the service to answer, besides those that it was asked to wait
_LOOK = 0.02  # seconds between two looks whether there is still a reason to wait
_GONE = 404
_CONFLICT = 409


class Away(Exception):
    """The service does not answer now. It will later."""


class Refused(Exception):
    """The service will not do this: the attempt is over, or the request is wrong."""


class GroupGone(Exception):
    """The group is no more: a member has left it, or a newer one was formed."""


@dataclass(frozen=True)
class Joined:
    """What the rendezvous said."""

    generation: int  # the newest that any worker has named
    group: str | None = None  # None: not formed yet
    rank: int = 0
    size: int = 1
    newest: int = 0  # the place of the member that has come furthest
    differ: bool = False  # whether others have another state
    over: bool = False  # the training has ended


class Rendezvous:
    """The calls that a worker makes. Each has its own connection, so threads may call at the same time."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def join(
        self,
        generation: int,
        members: Iterable[int],
        step: int,
        wait: float = 15.0,
        enough: Callable[[], bool] = lambda: False,
    ) -> Joined | None:
        """Wait to be let into the group; None once `enough` says that this has no more point."""
        body = {
            "worker": self._service.worker,
            "generation": generation,
            "members": list(members),
            "step": step,
            "wait": wait,
        }
        said = self._call("POST", "/group", body, wait, enough)
        if said is None:
            return None
        return Joined(**{field.name: said[field.name] for field in fields(Joined) if said[field.name] is not None})

    def waiting(self) -> tuple[int, set[int]]:
        """The newest generation that was named, and which of its members wait to be let in."""
        said = self._call("GET", "/group")
        return said["generation"], set(said["waiting"])

    def end(self) -> None:
        """Tell the workers that wait that the training is over."""
        self._call("DELETE", "/group")

    def set(self, group: str, key: str, value: str) -> None:
        self._call("POST", f"/groups/{group}/keys/set", {"key": key, "value": value})

    def get(self, group: str, keys: list[str], wait: float, enough: Callable[[], bool]) -> dict[str, str]:
        """The values that are there within `wait` seconds."""
        said = self._call("POST", f"/groups/{group}/keys/get", {"keys": keys, "wait": wait}, wait, enough)
        return dict(said["values"]) if said else {}

    def add(self, group: str, key: str, amount: int) -> int:
        return int(self._call("POST", f"/groups/{group}/keys/add", {"key": key, "amount": amount})["value"])

    def own_address(self) -> str:
        """The address of this machine on the way to the service: the others can reach it there, too."""
        host, port = self._service.address.host, self._service.address.port or 80
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(address)  # nothing is sent
                return str(probe.getsockname()[0])
        raise Away(f"there is no address for {host}")

    def _call(
        self, method: str, path: str, body: Any = None, wait: float = 0.0, enough: Callable[[], bool] | None = None
    ) -> Any:
        connection = self._service.address.connect(wait + _ANSWER)
        try:
            data = None if body is None else json.dumps(body)
            self._service.send(connection, method, path, data, Connection="close")
            if enough is not None and not _wait_for(connection.sock, wait + _ANSWER, enough):
                return None
            response = connection.getresponse()
            return _read(response.status, response.read())
        except (OSError, http.client.HTTPException) as problem:
            why = self._service.distrusted(problem, "the other workers are not met")
            raise Away(why or str(problem) or type(problem).__name__) from problem
        finally:
            connection.close()


def _wait_for(sock: socket.socket, seconds: float, enough: Callable[[], bool]) -> bool:
    """Whether there is an answer to read. Returns often enough for signal handlers to run."""
    until = time.monotonic() + seconds
    poll = select.poll()  # select itself takes no descriptor above 1023
    poll.register(sock, select.POLLIN)
    while not poll.poll(1000 * _LOOK):
        if enough():
            return False
        if time.monotonic() > until:
            raise TimeoutError("the service does not answer")
    return True


def _read(status: int, content: bytes) -> Any:
    if status >= 500 or status == _CONFLICT:  # too many wait, or there is no room for more at present
        raise Away(f"the service answers with status {status}")
    try:
        said = json.loads(content) if content else {}
    except ValueError:
        raise Away("the answer is not the service's") from None
    if status == _GONE:
        raise GroupGone(said.get("detail", ""))
    if status >= 400:
        raise Refused(said.get("detail", f"status {status}"))
    return said
