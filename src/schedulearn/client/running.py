"""A command that runs beside a job."""

import json
from collections.abc import Iterator

from schedulearn.client.errors import ApiError, ServiceUnreachable
from schedulearn.client.transport import Stream

STDOUT, STDERR = 1, 2
_EXIT, _PROBLEM = 3, 4
_HEADER = 5  # bytes: the kind, and the length of the content


class Running:
    """Iterate over (STDOUT or STDERR, bytes); then `exit_code` is known. To close it is to kill the command."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.exit_code: int | None = None  # as a shell has it: 128 + N after signal N

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while self.exit_code is None:
            head = self._read(_HEADER)
            kind, content = head[0], self._read(int.from_bytes(head[1:], "big"))
            if kind in (STDOUT, STDERR):
                yield kind, content
            elif kind == _EXIT:
                self.exit_code = int(content)
            elif kind == _PROBLEM:
                raise ApiError(500, "The command was lost", str(json.loads(content).get("detail") or ""))

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size) if size else b""
        if len(data) < size:
            raise ServiceUnreachable("the connection broke: how the command ended is not known")
        return data
