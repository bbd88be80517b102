"""Calls to one engine. Their errors are sorted: what it refused, and what is not known because it did not answer."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from schedulearn.core.domain.errors import ExecutorError
from schedulearn.executors.common.base import Unreachable
from schedulearn.executors.docker.connect import Engine

if TYPE_CHECKING:
    import docker

PATIENCE = 30.0  # seconds for one answer: a busy disk may take its time to start a container
CONNECTIONS = 20  # kept open for the next call


class Refused(ExecutorError):
    """The engine answered that it cannot, or will not; the text is its own."""

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        super().__init__(words)


class NotThere(Refused):
    """There is no such container, image or file."""


class WrongState(Refused):
    """It is in that state already, or in another that does not allow it."""


def refusal(status: int, words: str) -> Refused:
    kinds: dict[int, type[Refused]] = {HTTPStatus.NOT_FOUND: NotThere, HTTPStatus.CONFLICT: WrongState}
    return kinds.get(status, Refused)(status, words)


class Calls:
    """Thread-safe. A connection that failed is not used again."""

    def __init__(self, engine: Engine, timeout: float = PATIENCE) -> None:
        self._engine, self._timeout = engine, timeout
        self._client: docker.DockerClient | None = None
        self._lock = threading.Lock()

    @property
    def socket(self) -> str:
        """Where the engine's own socket is on its machine; "": that is not known."""
        return self._engine.address.path

    @contextmanager
    def api(self) -> Iterator[Any]:
        """The engine's API as the Docker SDK has it; raises Unreachable or Refused, never an error of the SDK."""
        import docker.errors
        import requests
        import urllib3

        client = self._connected()
        try:
            yield client.api
        except docker.errors.APIError as error:
            raise self._refusal(client, error) from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, docker.errors.DockerException) as error:
            self._drop(client)
            raise Unreachable(self._engine.words(error)) from error

    def stream(self, chunks: Iterable[Any]) -> Iterator[Any]:
        """What the engine sends, piece by piece. What is done with a piece raises its own errors."""
        pieces = iter(chunks)
        while True:
            with self.api():
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client:
            client.close()

    def _connected(self) -> "docker.DockerClient":
        with self._lock:
            if self._client is None:
                try:
                    self._client = self._engine.client(self._timeout, CONNECTIONS)
                except ExecutorError as error:
                    raise Unreachable(str(error)) from error
            return self._client

    def _refusal(self, client: "docker.DockerClient", error: Any) -> ExecutorError:
        """An engine that is being shut down answers with errors that say nothing of what was asked."""
        words = str(error.explanation or error).strip()
        if error.is_server_error():
            try:
                client.ping()
            except Exception as silent:
                self._drop(client)
                return Unreachable(self._engine.words(silent))
        return refusal(error.status_code or 0, words)

    def _drop(self, client: "docker.DockerClient") -> None:
        with self._lock:
            if self._client is client:
                self._client = None
        with suppress(Exception):
            client.close()
