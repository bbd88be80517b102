"""The API's end of what is done beside running jobs; `server` is the other."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from schedulearn.core.domain.errors import Conflict
from schedulearn.service.exec.protocol import (
    BEGUN,
    EXIT,
    HEADER,
    PROBLEM,
    SILENCE,
    STDOUT,
    frame,
    short_path,
    to_error,
)

BEGIN_WITHIN = 25.0  # seconds: clients wait for 30
_BACKLOG = 5.0  # seconds for the scheduler to let us in


class Session:
    """One command, or one stream of files. Close it: that ends whatever it began."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def begin(cls, path: Path, asked: dict[str, Any]) -> "Session":
        """Conflict, NotFound, … if it cannot be done."""
        try:
            session = cls(*await asyncio.open_unix_connection(sock=await asyncio.to_thread(_connect, path)))
        except OSError as error:
            raise Conflict(f"the scheduler cannot be asked ({error.strerror or error}): does it run?") from error
        try:
            session._writer.write(frame(0, json.dumps(asked).encode()))
            kind, content = await session._receive(BEGIN_WITHIN)
            if kind == PROBLEM:
                raise to_error(content)
            assert kind == BEGUN
        except BaseException:
            session.close()
            raise
        return session

    async def frames(self) -> AsyncIterator[bytes]:
        """All that comes, signs of life included; the last one says how it ended."""
        try:
            kind = BEGUN
            while kind not in (EXIT, PROBLEM):
                kind, content = await self._receive(SILENCE)
                yield frame(kind, content)
        finally:
            self.close()

    async def content(self) -> AsyncIterator[bytes]:
        """Standard output alone; an error if it was cut off."""
        try:
            while (got := await self._receive(SILENCE))[0] != EXIT:
                if got[0] == PROBLEM:
                    raise to_error(got[1])
                if got[0] == STDOUT:
                    yield got[1]
        finally:
            self.close()

    def close(self) -> None:
        self._writer.close()

    async def _receive(self, within: float) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(within):
                kind, size = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                return kind, await self._reader.readexactly(size)
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            raise Conflict("the scheduler does not answer any more") from error


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_BACKLOG)
        with short_path(path) as name:
            connection.connect(name)
        connection.setblocking(False)
    except BaseException:
        connection.close()
        raise
    return connection
