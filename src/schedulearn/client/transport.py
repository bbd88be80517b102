"""HTTP as the client needs it: one kept-alive connection for calls, and one of its own for each stream."""

import http.client
import json
import select
import ssl
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from schedulearn import __version__
from schedulearn.client.errors import ApiError, ClientError, NoAnswer, NotTrusted, ServiceUnreachable
from schedulearn.pinned import address_of, distrust, with_pin, without_pin

API = "/api/v1"
Query = Mapping[str, Any]  # None is left out, a list is repeated, True is "true"
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_NOT_READY = frozenset({502, 503, 504})  # what stands in front of the service says that it is away
_JSON = {"Content-Type": "application/json"}
_CHUNK = 64 * 1024
SILENCE = 30.0  # seconds


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body) if self.body else None
        except ValueError:
            raise ServiceUnreachable("what answers at this address is not Schedulearn: no JSON") from None


class Stream:
    """An answer that is read while it comes. A broken or silent connection raises ServiceUnreachable."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response
        self.headers = response.headers

    def read(self, size: int = _CHUNK) -> bytes:
        """`size` bytes; fewer only at the end."""
        return self._checked(self._response.read, size)

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they come."""
        while data := self._checked(self._response.read1, _CHUNK):
            yield data

    def _checked(self, read: Any, size: int) -> bytes:
        try:
            data: bytes = read(size)
        except (OSError, http.client.HTTPException) as problem:
            raise ServiceUnreachable(f"the connection broke: {_words(problem)}") from problem
        if not data and size and self._response.length:  # http.client does not notice a short body by itself
            raise ServiceUnreachable("the connection broke: the answer is incomplete")
        return data

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transport:
    """Requests to one service. For one thread at a time."""

    def __init__(self, url: str, token: str, timeout: float) -> None:
        self.more: Mapping[str, str] = {}  # headers that go with every request, besides our own
        try:
            self._address = address_of(url)
        except ValueError as problem:
            raise ClientError(str(problem)) from None
        self.url = with_pin(url, self._address.pin)
        self._prefix = self._address.path + API
        self._token = token
        self._timeout = timeout
        self.silence = SILENCE
        self._kept: http.client.HTTPConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        upload: Path | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One call; `body` is sent as JSON, `upload` as the file's bytes. ApiError if the service says no."""
        if self._kept and _is_stale(self._kept):
            self.close()
        reused = self._kept is not None
        try:
            answer = self._exchange(method, path, query, body, upload, headers)
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            # The service may have closed the kept connection just now. A call that changes nothing when it is
            # made twice is made again; of any other it is not known whether it was carried out.
            if not reused or method not in _IDEMPOTENT or isinstance(problem, TimeoutError):
                raise self._unreachable(problem) from problem
            try:
                answer = self._exchange(method, path, query, body, upload, headers)
            except (OSError, http.client.HTTPException) as again:
                self.close()
                raise self._unreachable(again) from again
        _raise_for(answer)
        return answer

    def stream(
        self, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Stream:
        """A GET whose answer is read bit by bit, or a POST if there is a body, sent as JSON.

        After `silence` seconds without a byte it counts as broken.
        """
        connection = self._address.connect(self._timeout)
        given = {**self._headers(), **(headers or {}), **({} if body is None else _JSON)}
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request("GET" if data is None else "POST", self._target(path, query), data, given)
            response = connection.getresponse()
            if response.status >= 300:
                _raise_for(Answer(response.status, response.headers, response.read()))
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise self._unreachable(problem) from problem
        except BaseException:
            connection.close()
            raise
        if connection.sock:  # gone already if the answer ends with the connection
            connection.sock.settimeout(self.silence)
        return Stream(connection, response)

    def close(self) -> None:
        if self._kept:
            self._kept.close()
            self._kept = None

    def _exchange(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Any,
        upload: Path | None,
        more: Mapping[str, str] | None,
    ) -> Answer:
        connection = self._kept = self._kept or self._address.connect(self._timeout)
        headers = {**self._headers(), **(more or {})}
        if upload:
            headers |= {"Content-Type": "application/gzip", "Content-Length": str(upload.stat().st_size)}
        elif body is not None:
            headers |= _JSON
        sent = None if body is None else json.dumps(body).encode()
        with upload.open("rb") if upload else nullcontext(sent) as data:
            try:
                connection.request(method, self._target(path, query), body=data, headers=headers)
            except (BrokenPipeError, ConnectionResetError):
                # A service that refuses a large body answers and closes before it has read it all: the answer
                # says why, so it is worth looking for. If there is none, this raises again.
                if connection.sock is None:
                    raise
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"schedulearn/{__version__}", "Accept": "application/json", **self.more}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _target(self, path: str, query: Query | None) -> str:
        pairs = [
            (name, "true" if item is True else "false" if item is False else item)
            for name, value in (query or {}).items()
            if value is not None
            for item in (value if isinstance(value, list | tuple) else [value])
        ]
        return self._prefix + path + ("?" + urlencode(pairs) if pairs else "")

    def _unreachable(self, problem: Exception) -> ServiceUnreachable:
        where = without_pin(self.url)
        if why := distrust(problem):
            return NotTrusted(f"what answers at {where} is not trusted: {why}")
        kind = NoAnswer if _was_heard(problem) else ServiceUnreachable
        return kind(f"the service at {where} does not answer: {_words(problem)}")


def _was_heard(problem: Exception) -> bool:
    """Whether the request may have been taken."""
    refused = isinstance(problem, ConnectionRefusedError)
    return isinstance(problem, ConnectionError | TimeoutError | http.client.HTTPException) and not refused


def _is_stale(connection: http.client.HTTPConnection) -> bool:
    """Whether the other side has closed an idle connection: then there is something to read, namely the end."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _words(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, ssl.SSLError) and problem.reason == "WRONG_VERSION_NUMBER":
        return "it speaks no TLS: its address begins with http://"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror.lower()
    return str(problem) or type(problem).__name__


def _raise_for(answer: Answer) -> None:
    """Turn an answer that says no into an error."""
    if answer.status < 300:
        return
    try:
        problem = json.loads(answer.body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    detail = str(problem.get("detail") or "")
    if answer.status in _NOT_READY:
        raise NoAnswer(detail or f"the service is not ready ({answer.status})")
    errors = [e for e in problem.get("errors") or [] if isinstance(e, dict)]
    first = errors[0] if errors else {}
    raise ApiError(
        answer.status,
        str(problem.get("title") or http.client.responses.get(answer.status, "")),
        detail,
        problem.get("field") or first.get("field"),
        problem.get("allowed") or first.get("allowed"),
        errors,
    )
