"""The scalars in TensorBoard's event files: TFRecord framing and the few protobuf fields that hold them.

A record is its length (8 bytes), a checksum of that, the data, and a checksum of the data; checksums are CRC-32C,
"masked" as TensorFlow does. The data is an `Event`: time, step, and values of which those with one number count,
written as `simple_value` (torch, TensorFlow 1) or as a tensor (TensorFlow 2, Keras).
"""

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

HEADER = 12  # bytes: length and its checksum
LARGEST = 1 << 16  # bytes; a larger record is a picture, a sound or a graph, and is stepped over unread
FOOTER = 4

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # ways to write a field


def _key(number: int, way: int) -> int:
    return number << 3 | way


_WALL_TIME, _STEP, _SUMMARY = _key(1, _FIXED64), _key(2, _VARINT), _key(5, _BYTES)  # Event
_VALUE = _key(1, _BYTES)  # Summary
_TAG, _SIMPLE, _TENSOR, _METADATA = _key(1, _BYTES), _key(2, _FIXED32), _key(8, _BYTES), _key(9, _BYTES)  # its Value
_PLUGIN, _PLUGIN_NAME = _key(1, _BYTES), _key(1, _BYTES)  # SummaryMetadata, PluginData
_DTYPE, _SHAPE, _CONTENT = _key(1, _VARINT), _key(2, _BYTES), _key(4, _BYTES)  # TensorProto
_DIMENSION, _SIZE = _key(2, _BYTES), _key(1, _VARINT)  # TensorShapeProto
# By dtype: how a number is written in the tensor's bytes, and the number of the field that holds it otherwise.
_NUMBERS = {1: ("<f", 5), 2: ("<d", 6), 3: ("<i", 7), 9: ("<q", 10), 19: ("<e", 13)}
_AS_VARINT = frozenset({7, 10, 13})


class Scalar(NamedTuple):
    at: float  # seconds, by the clock of the program that wrote it
    step: int
    tag: str
    value: float  # may be nan


def scan(data: bytes) -> tuple[list[Scalar], int, int]:
    """The scalars of all whole records at the beginning of `data`, where they end, and how much to step over there.

    The last is the size of a large record. Both are 0 where the first record is not whole yet, or its length is
    damaged: where the next one begins is not known then. A record with damaged data is left out.
    """
    found: list[Scalar] = []
    place = 0
    while place + HEADER <= len(data):
        length, check = struct.unpack_from("<QI", data, place)
        if masked_crc(data[place : place + 8]) != check:
            break
        begin, end = place + HEADER, place + HEADER + length
        if length > LARGEST:
            return found, place, HEADER + length + FOOTER
        if end + FOOTER > len(data):
            break
        (check,) = struct.unpack_from("<I", data, end)
        payload = data[begin:end]
        if masked_crc(payload) == check:
            found += scalars(payload)
        place = end + FOOTER
    return found, place, 0


def scalars(event: bytes) -> list[Scalar]:
    """Those of one event; none if it is no event, or holds something else."""
    try:
        return list(_scalars(event))
    except (ValueError, struct.error):
        return []


def _scalars(event: bytes) -> Iterator[Scalar]:
    at, step = math.nan, 0
    summaries: list[bytes] = []
    for key, number, data in _fields(event):
        if key == _WALL_TIME:
            (at,) = struct.unpack("<d", data)
        elif key == _STEP:
            step = _signed(number)
        elif key == _SUMMARY:
            summaries.append(data)
    if not math.isfinite(at):
        return
    for summary in summaries:
        for key, _, data in _fields(summary):
            if key == _VALUE and (named := _value(data)):
                yield Scalar(at, step, *named)


def _value(message: bytes) -> tuple[str, float] | None:
    tag, plugin = "", b""
    found: float | None = None
    for key, _, data in _fields(message):
        if key == _TAG:
            tag = data.decode("utf-8", "replace")
        elif key == _SIMPLE:
            (found,) = struct.unpack("<f", data)
        elif key == _TENSOR:
            found = _number(data)
        elif key == _METADATA:
            plugin = _only(_only(data, _PLUGIN), _PLUGIN_NAME)
    if not tag or found is None or plugin not in (b"", b"scalars"):
        return None
    return tag, found


def _number(tensor: bytes) -> float | None:
    """The one number of a tensor; None if it has more, or none that can be read."""
    fields = list(_fields(tensor))
    kind = next((number for key, number, _ in fields if key == _DTYPE), 0)
    if kind not in _NUMBERS or any(size != 1 for size in _sizes(_only(tensor, _SHAPE))):
        return None
    form, own = _NUMBERS[kind]
    for key, number, data in fields:
        if key == _CONTENT:
            return float(struct.unpack(form, data)[0])
        if key >> 3 == own:
            return _own_field(form, own, number, data)
    return 0.0  # what is zero need not be written


def _own_field(form: str, own: int, number: int, data: bytes) -> float:
    """In a field of its own a number may be packed (`data`) or not."""
    if own not in _AS_VARINT:
        return float(struct.unpack(form, data)[0])
    number = _varint(data, 0)[0] if data else number
    if form == "<e":  # the bits of a half
        return float(struct.unpack(form, struct.pack("<H", number & 0xFFFF))[0])
    return float(_signed(number))


def _sizes(shape: bytes) -> Iterator[int]:
    for key, _, data in _fields(shape):
        if key == _DIMENSION:
            yield next((number for inner, number, _ in _fields(data) if inner == _SIZE), 0)


def _only(message: bytes, wanted: int) -> bytes:
    return next((data for key, _, data in _fields(message) if key == wanted), b"")


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(key, number if it is a varint, bytes if it is not) of each field; ValueError if this is no message."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, place = _varint(message, place) if key & 7 in (_VARINT, _BYTES) else (0, place)
        length = {_VARINT: 0, _FIXED64: 8, _BYTES: number, _FIXED32: 4}.get(key & 7)
        if length is None or place + length > len(message):
            raise ValueError("this is no message")
        yield key, number, message[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number in groups of 7 bits, and where it ends."""
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, place
        shift += 7
    raise ValueError("a number does not end")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _table() -> tuple[int, ...]:
    """Of CRC-32C (Castagnoli), a byte at a time."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
