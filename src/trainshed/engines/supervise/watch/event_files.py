"""Reads scalars from the event files that TensorFlow and PyTorch write for TensorBoard.

A file is a sequence of records: the length (8 bytes), its checksum (4), the data, its checksum (4).
The data is a protobuf message ``Event``.  This module parses its time, its step and its scalar
values without protobuf or TensorFlow, which are too large for a supervisor.  Files grow while they
are read.  Source: tensorflow/core/lib/io/record_writer.h, core/util/event.proto, core/framework/
{summary,tensor}.proto.
"""

import os
import re
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from trainshed.engines.supervise.record.reports import Reported, open_file, why
from trainshed.files.beneath import PathBeneath

#: Larger records (images, graphs) are not loaded: only the needed fields are read from the file.
_LOADED_BYTES_MAX: Final = 1 << 16
_HEAD: Final = struct.Struct("<QI")
_FOOT: Final = struct.Struct("<I")
_READS_MAX: Final = 1 << 16
#: The largest size of the key and the length of a field.
_FIELD_BYTES_MAX: Final = 20
_TAG_BYTES_MAX: Final = 1 << 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}

# numbers of fields
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
_DTYPE, _CONTENT = 1, 4
#: The format of the content of a tensor, by its dtype: float, double, int32, int64.
_DTYPES: Final = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
#: Fields of a tensor that contain values themselves: float_val, double_val.
_PACKED: Final = {5: "<f", 6: "<d"}

#: The begin of an event with one value: its time, perhaps its step, and then keys and lengths below
#: 128 of the summary, of the value and of the tag.
_SIMPLE: Final = re.compile(
    rb"\x09(.{8})(?:\x10([\x80-\xff]{0,9}[\0-\x7f]))?\x2a[\0-\x7f]\x0a[\0-\x7f]\x0a[\0-\x7f]",
    re.DOTALL,
)
_SIMPLE_VALUE_KEY: Final = _SIMPLE_VALUE << 3 | _FIXED32
_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")

_Get = Callable[[int, int], bytes]
"""Returns bytes of a record; the arguments are the offset and the count."""


class MessageField(NamedTuple):
    """One field of a message: the offsets of its bytes, or its integer."""

    number: int
    kind: int
    begin: int
    end: int
    integer: int


class EventFile:
    """One event file; each reading continues at the end of the last one."""

    __slots__ = ("_offset", "_place", "_size", "damaged", "trouble")

    def __init__(self, place: PathBeneath, offset: int = 0) -> None:
        """Begin to read at the byte ``offset``."""
        self._place = place
        self.trouble = ""
        """The reason if the last reading failed, for people; else empty."""
        self.damaged = 0
        """The number of damaged records that were skipped."""
        self._offset = offset
        self._size = offset

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._place.path

    def has_changed(self) -> bool:
        """Return whether the size differs from that at the last complete reading."""
        try:
            return os.lstat(self.path).st_size != self._size
        except OSError:
            return False

    def is_cut_off(self) -> bool:
        """Return whether the file has become shorter than what was read, or was replaced so."""
        try:
            return os.lstat(self.path).st_size < self._offset
        except OSError:
            return False

    @property
    def read_bytes(self) -> int:
        """The number of bytes that were read so far."""
        return self._offset

    def read(self) -> Iterator[list[Reported]]:
        """Yield the scalars of each complete record, mostly none or one; never raises.

        A caller that stops early may continue with another call.
        """
        try:
            file, size = open_file(self._place)
        except OSError as error:
            self.trouble = why(error)
            return
        with file:
            try:
                self.trouble = ""
                yield from self._records(file.fileno(), size)
                self._size = size
            except OSError as error:
                self.trouble = why(error)

    def _records(self, descriptor: int, size: int) -> Iterator[list[Reported]]:
        while self._offset + _HEAD.size + _FOOT.size <= size:
            head = os.pread(descriptor, _HEAD.size, self._offset).ljust(_HEAD.size, b"\0")
            length, checksum = _HEAD.unpack(head)
            if masked_crc(head[:8]) != checksum:
                self.trouble = f"it is damaged at byte {self._offset}"
                return
            begin = self._offset + _HEAD.size
            end = begin + length + _FOOT.size
            if end > size:
                return
            self._offset = end
            yield self._read_scalars(descriptor, begin, length)

    def _read_scalars(self, descriptor: int, begin: int, length: int) -> list[Reported]:
        """Read the scalars of a record; empty if its data is damaged or not an event."""
        try:
            if length > _LOADED_BYTES_MAX:
                return scalars(_make_reader(descriptor, begin), length)
            data = os.pread(descriptor, length + _FOOT.size, begin)
            reports = parse_simple(data, length)
            if reports is None:
                reports = scalars(lambda at, count: data[at : at + count], length)
            if not reports or masked_crc(data[:length]) == _FOOT.unpack_from(data, length)[0]:
                return reports
        except (IndexError, ValueError, struct.error):
            pass
        self.damaged += 1
        return []


def _make_reader(descriptor: int, begin: int) -> _Get:
    """Return a function that reads parts of a record from its file.

    The function raises ValueError after many calls: a million fields would take too long to read.
    """
    remaining = iter(range(_READS_MAX))

    def get(at: int, count: int) -> bytes:
        if next(remaining, None) is None:
            raise ValueError("it has too many fields")
        return os.pread(descriptor, count, begin + at)

    return get


def parse_simple(data: bytes, length: int) -> list[Reported] | None:
    """Parse an ``Event`` with one ``simple_value``, as PyTorch writes it; None for any other.

    ``scalars`` would return the same, and take four times as long.
    """
    match = _SIMPLE.match(data)
    if match is None:
        return None
    clock, varint = match.groups()
    begin = match.end()
    summary_size, value_size, tag_size = data[begin - 5], data[begin - 3], data[begin - 1]
    end = begin + tag_size
    is_one_value = summary_size - 2 == value_size == tag_size + 7 and end + 5 == length
    if not is_one_value or data[end] != _SIMPLE_VALUE_KEY or not tag_size:
        return None
    (at_s,), (value,) = _DOUBLE.unpack(clock), _FLOAT.unpack_from(data, end + 1)
    step = _to_signed(_parse_varint(varint, 0)[0]) if varint else 0
    return [Reported(data[begin:end].decode(), value, step, at_s)]


def scalars(get: _Get, length: int) -> list[Reported]:
    """Parse the scalars of one ``Event``.  Raises IndexError, ValueError or struct.error."""
    at_s: float | None = None
    step = 0
    values: list[tuple[str, float]] = []
    for field in _list_fields(get, 0, length):
        if field.number == _WALL_TIME and field.kind == _FIXED64:
            (at_s,) = struct.unpack("<d", get(field.begin, 8))
        elif field.number == _STEP and field.kind == _VARINT:
            step = _to_signed(field.integer)
        elif field.number == _SUMMARY and field.kind == _BYTES:
            values += _parse_summary(get, field)
    return [Reported(tag, value, step, at_s) for tag, value in values]


def _parse_summary(get: _Get, summary: MessageField) -> Iterator[tuple[str, float]]:
    for field in _list_fields(get, summary.begin, summary.end):
        if field.number == _VALUE and field.kind == _BYTES:
            tag, value = _parse_value(get, field)
            if tag and value is not None:
                yield tag, value


def _parse_value(get: _Get, message: MessageField) -> tuple[str, float | None]:
    tag, value = "", None
    for field in _list_fields(get, message.begin, message.end):
        size = field.end - field.begin
        if field.number == _TAG and field.kind == _BYTES and size <= _TAG_BYTES_MAX:
            tag = get(field.begin, size).decode()
        elif field.number == _SIMPLE_VALUE and field.kind == _FIXED32:
            (value,) = struct.unpack("<f", get(field.begin, 4))
        elif field.number == _TENSOR and field.kind == _BYTES:
            value = _parse_tensor(get, field)
    return tag, value


def _parse_tensor(get: _Get, tensor: MessageField) -> float | None:
    """Parse the number in a tensor; None unless it contains exactly one."""
    dtype = 0
    scalar: float | None = None
    for field in _list_fields(get, tensor.begin, tensor.end):
        form = _DTYPES.get(dtype) if field.number == _CONTENT else _PACKED.get(field.number)
        if field.number == _DTYPE:
            dtype = field.integer
        elif form and field.end - field.begin == struct.calcsize(form):
            (scalar,) = struct.unpack(form, get(field.begin, field.end - field.begin))
    return scalar


def _list_fields(get: _Get, at: int, end: int) -> Iterator[MessageField]:
    """Yield the fields of a message in order, without parsing their content."""
    while at < end:
        head = get(at, min(_FIELD_BYTES_MAX, end - at))
        key, used = _parse_varint(head, 0)
        kind, integer, size = key & 7, 0, _FIXED.get(key & 7, 0)
        if kind in {_VARINT, _BYTES}:
            integer, used = _parse_varint(head, used)
            size = integer if kind == _BYTES else 0
        elif not size:
            raise ValueError(f"no field begins at {at}")
        begin = at + used
        at = begin + size
        if at > end:
            raise ValueError(f"the field at {begin} is longer than its message")
        yield MessageField(key >> 3, kind, begin, at, integer)


def _parse_varint(data: bytes, at: int) -> tuple[int, int]:
    """Parse an integer of variable length; return it and the offset of its end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that there is more
            return value, at
        shift += 7


def _to_signed(value: int) -> int:
    """Return the int64 of a varint: protobuf writes negative numbers as their two's complement."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def masked_crc(data: bytes) -> int:
    """Return CRC-32C (Castagnoli), masked as TensorFlow does: the data may contain checksums."""
    crc, table = 0xFFFFFFFF, _CRC_TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_of(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC_TABLE: Final = tuple(map(_crc_of, range(256)))
