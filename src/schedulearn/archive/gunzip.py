"""What a gzip file holds, piece by piece: never more in memory than was asked for."""

from __future__ import annotations

import zlib

from schedulearn.archive.reader import CHUNK, Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from schedulearn.archive.reader import Source

_GZIP = 31  # a window of 32 KiB, with gzip's header and checksum
_MOST_PARTS = 10_000  # files may be joined; each part costs time, however little it holds


class Gunzip:
    """Implements `reader.Source`. Damaged if the bytes are no gzip, are cut off, or do not fit their checksum."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._part = zlib.decompressobj(_GZIP)
        self._parts = 1
        self._input = b""

    def read(self, size: int, /) -> bytes:
        pieces = []
        while size:
            piece = self._piece(size)
            if not piece:
                break
            size -= len(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, most: int) -> bytes:
        """b"" at the end."""
        while True:
            if self._part.eof and not self._begin_part():
                return b""
            self._input = self._input or self._source.read(CHUNK)
            at_end = not self._input
            try:
                piece = self._part.decompress(self._input, most)
            except zlib.error as error:
                raise Damaged("it is no gzip file, or a damaged one") from error
            self._input = self._part.unconsumed_tail
            if piece:
                return piece
            if at_end and not self._part.eof:
                raise Damaged("it ends too early")

    def _begin_part(self) -> bool:
        rest = (self._part.unused_data or self._source.read(CHUNK)).lstrip(b"\0")  # tapes were filled up with zeros
        if not rest:
            return False
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise Damaged(f"it has more than {_MOST_PARTS} parts")
        self._part, self._input = zlib.decompressobj(_GZIP), rest
        return True
