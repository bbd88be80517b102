"""Archives made by hand, header by header: what a library would not write."""

import gzip

BLOCK = 512
END = bytes(2 * BLOCK)


def head(
    name: bytes = b"f", size: int | bytes = 0, kind: bytes = b"0", target: bytes = b"", mode: int = 0o644
) -> bytes:
    """One header with a good checksum. `size`: as it stands in its field, if it is no number."""
    field = size if isinstance(size, bytes) else b"%011o\0" % size
    block = bytearray(BLOCK)
    block[:100] = name[:100].ljust(100, b"\0")
    block[100:124] = b"%07o\0" % mode + b"%07o\0" % 0 + b"%07o\0" % 0
    block[124:136] = field.ljust(12, b"\0")
    block[136:148] = b"%011o\0" % 1
    block[156:157] = kind
    block[157:257] = target[:100].ljust(100, b"\0")
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def member(name: bytes = b"f", data: bytes = b"", **more: bytes | int) -> bytes:
    return head(name, len(data), **more) + padded(data)  # type: ignore[arg-type]


def pax(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """An extended header for the member that follows."""
    data = b"".join(record(key, value) for key, value in records)
    return member(b"pax", data, kind=kind)


def record(key: bytes, value: bytes) -> bytes:
    rest = b" %s=%s\n" % (key, value)
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest


def packed(*pieces: bytes, end: bytes = END) -> bytes:
    return gzip.compress(b"".join(pieces) + end, mtime=0)
