"""A tar archive from outside, member by member. Whatever its bytes are, reading takes little memory and linear time.

The standard library's reader believes what headers say of themselves: how long a name is, how large a number, how often
one header changes the next. This one takes what tar programs really write (ustar, GNU's long names, PAX), refuses the
rest, and says why.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class Source(Protocol):
        """What is read: as many bytes as are asked for, fewer only at the end."""

        def read(self, size: int, /) -> bytes: ...


BLOCK = 512
CHUNK = 1 << 16
FILE, FOLDER, LINK, HARD_LINK, SPECIAL = "file", "folder", "link", "hard link", "special"
MOST_HEADER = 1 << 16  # bytes of one extended header: names have 4096 at most
MOST_PATH, MOST_NAME, MOST_DEPTH = 4096, 255, 128
_ZEROS = bytes(BLOCK)
_KINDS = {
    b"0": FILE, b"\0": FILE, b"7": FILE, b"5": FOLDER, b"2": LINK, b"1": HARD_LINK,
    b"3": SPECIAL, b"4": SPECIAL, b"6": SPECIAL,
}  # fmt: skip
_LONG = {b"L": b"path", b"K": b"linkpath"}  # GNU's long names, as PAX calls them
_LATEST = 1 << 33  # seconds: later times are of no use, and some file systems refuse them
_DIGITS = 19  # of a size


class BadArchive(Exception):
    """It is not read, or not any further; the text says why."""


class Damaged(BadArchive):
    """Not an archive, or not a whole one."""


class Refused(BadArchive):
    """An archive with something in it that is not taken."""


class TooLarge(BadArchive):
    """More bytes or files than are taken."""


class Member:
    """What an archive says of one thing in it."""

    __slots__ = ("gid", "kind", "mode", "mtime", "name", "size", "target", "uid")

    def __init__(self, kind: str, name: str, size: int, target: str) -> None:
        self.kind, self.name, self.size, self.target = kind, name, size, target
        self.mode, self.mtime, self.uid, self.gid = 0, 0.0, 0, 0


class Reader:
    """Reads on, never back. The content of a member is there until the next one is asked for."""

    def __init__(self, source: Source, most_bytes: int | None = None, most_members: int | None = None) -> None:
        """`most_bytes` counts everything, headers too, and what a header announces before it is read."""
        self._source, self._most_bytes, self._most_members = source, most_bytes, most_members
        self._taken = self._members = 0
        self._left = self._padding = 0  # of the present member's content

    def __iter__(self) -> Iterator[Member]:
        while member := self._next():
            yield member

    def read(self, most: int) -> bytes:
        """The next bytes of the present member; b"" at its end."""
        if not self._left:
            return b""
        data = self._exactly(min(most, self._left))
        self._left -= len(data)
        return data

    def drain(self) -> None:
        """Read whatever follows the end: checksums stand there."""
        while data := self._source.read(CHUNK):
            self._count(len(data))

    def _next(self) -> Member | None:
        self._skip(self._left + self._padding)
        self._left = self._padding = 0
        said: dict[bytes, bytes] = {}
        while True:
            block = self._exactly(BLOCK)
            if block == _ZEROS:
                return None
            _check_sum(block)
            kind = block[156:157]
            if kind not in _LONG and kind != b"x":
                return self._member(block, kind, said)
            fresh = self._extended(block, kind)
            if said.keys() & fresh.keys() & set(_LONG.values()):
                raise Refused("it names one file twice")
            said |= fresh

    def _extended(self, block: bytes, kind: bytes) -> dict[bytes, bytes]:
        """What a header before the member's own says of it."""
        size = _number(block[124:136], "size")
        if size > MOST_HEADER:
            raise Refused(f"a header of {size} bytes (at most {MOST_HEADER})")
        data = self._exactly(size)
        self._skip(-size % BLOCK)
        return {_LONG[kind]: data.rstrip(b"\0")} if kind in _LONG else _records(data)

    def _member(self, block: bytes, kind: bytes, said: dict[bytes, bytes]) -> Member:
        name = _text(said.get(b"path") or _plain_name(block), "name")
        member = Member(_kind(kind, name), name, _size(block, said), _target(block, said))
        if member.kind is FILE and name.endswith("/"):  # how folders were written before there was a kind for them
            member.kind = FOLDER
        if member.size and member.kind is not FILE:
            raise Refused(f"{shown(name)} has content, but is no file")
        member.mode, member.mtime = _number(block[100:108], "mode") & 0o7777, _time(block, said)
        member.uid, member.gid = _number(block[108:116], "uid"), _number(block[116:124], "gid")
        self._members += 1
        if self._most_members is not None and self._members > self._most_members:
            raise TooLarge(f"it holds more than {self._most_members:,} files")
        self._check_room(member.size)
        self._left, self._padding = member.size, -member.size % BLOCK
        return member

    def _check_room(self, size: int) -> None:
        if self._most_bytes is not None and self._taken + size > self._most_bytes:
            raise TooLarge(f"it unpacks to more than {sized(self._most_bytes)}")

    def _count(self, size: int) -> None:
        self._check_room(size)
        self._taken += size

    def _skip(self, size: int) -> None:
        while size:
            size -= len(self._exactly(min(size, CHUNK)))

    def _exactly(self, size: int) -> bytes:
        self._count(size)
        data = self._source.read(size)
        while len(data) < size:
            more = self._source.read(size - len(data))
            if not more:
                raise Damaged("it ends too early")
            data += more
        return data


def inside(name: str) -> tuple[str, ...]:
    """The parts of a path in the archive; Refused if it leads out of it, or no file system would take it."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts:
        raise Refused(f"{shown(name)} leads outside of it")
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > MOST_PATH or any(len(part) > MOST_NAME for part in encoded.split(b"/")):
        raise Refused(f"{shown(name)} is too long a name")
    if len(parts) > MOST_DEPTH:
        raise Refused(f"{shown(name)} lies deeper than {MOST_DEPTH} folders")
    return parts


def shown(name: str) -> str:
    """For messages: short, and without characters that do something."""
    text = repr(name[:100])
    return text if len(name) <= 60 else f"{text[:58]}…'"


def sized(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:,.4g} {unit}"
    return f"{size} bytes"


def _kind(kind: bytes, name: str) -> str:
    if kind == b"g":
        raise Refused("a global header, which would change every file after it")
    if kind == b"S":
        raise Refused(f"{shown(name)} is a sparse file in a format that is not taken")
    if kind not in _KINDS:
        raise Refused(f"{shown(name)} is of an unknown kind ({kind!r})")
    return _KINDS[kind]


def _check_sum(block: bytes) -> None:
    told = _number(block[148:156], "checksum")
    if told != sum(block) - sum(block[148:156]) + 8 * 0x20:
        raise Damaged("a header's checksum is wrong")


def _number(field: bytes, what: str) -> int:
    """Octal digits, or (first bit set) binary: GNU's way to write large ones."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if field[0] == 0xFF or b"-" in field:
        raise Refused(f"a negative {what}")
    digits = field.split(b"\0", 1)[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise Damaged(f"a header's {what} is no number")
    return int(digits or b"0", 8)


def _plain_name(block: bytes) -> bytes:
    name = block[:100].split(b"\0", 1)[0]
    prefix = block[345:500].split(b"\0", 1)[0] if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _size(block: bytes, said: dict[bytes, bytes]) -> int:
    told = said.get(b"size")
    if told is None:
        return _number(block[124:136], "size")
    if told.startswith(b"-"):
        raise Refused("a negative size")
    if not told.isdigit() or len(told) > _DIGITS:
        raise Refused("a size that is no number")
    return int(told)


def _target(block: bytes, said: dict[bytes, bytes]) -> str:
    if block[156:157] not in (b"1", b"2"):
        return ""
    return _text(said.get(b"linkpath") or block[157:257].split(b"\0", 1)[0], "target of a link")


def _text(data: bytes, what: str) -> str:
    if not data or b"\0" in data:
        raise Refused(f"a {what} that is empty, or has a zero byte in it")
    if len(data) > MOST_PATH:
        raise Refused(f"a {what} of {len(data)} bytes (at most {MOST_PATH})")
    return data.decode("utf-8", "surrogateescape")


def _time(block: bytes, said: dict[bytes, bytes]) -> float:
    """A time that cannot be is no reason to refuse a file."""
    told = said.get(b"mtime", b"")
    whole, _, fraction = told.partition(b".")
    if whole.isdigit() and len(told) <= 2 * _DIGITS and (not fraction or fraction.isdigit()):
        return min(float(told), _LATEST)
    try:
        return min(float(_number(block[136:148], "time")), _LATEST)
    except BadArchive:
        return 0.0


def _records(data: bytes) -> dict[bytes, bytes]:
    """PAX: lines of `LENGTH KEY=VALUE`, each length counting its own line."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + len(str(MOST_HEADER)) + 1)
        if space < 0 or not data[at:space].isdigit():
            raise Damaged("an extended header has no lengths")
        end = at + int(data[at:space])
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not key or not equals or end > len(data) or data[end - 1 : end] != b"\n":
            raise Damaged("an extended header is no list of keys and values")
        if key.startswith((b"GNU.sparse.", b"SCHILY.realsize")):
            raise Refused("a sparse file in a format that is not taken")
        found[key] = value
        at = end
    return found
