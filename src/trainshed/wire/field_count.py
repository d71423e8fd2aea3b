"""Counts the fields of a protobuf message before it is parsed.

Two bytes of a message can become an object of a hundred bytes in memory, and protobuf's parser
limits only the bytes of the message.  The wire format is protobuf.dev/programming-guides/encoding.
"""

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

_TEXTS: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
_VARINT_BYTES_MAX: Final = 10


def holds_more(data: bytes, descriptor: Any, fields_max: int) -> bool:
    """Whether a message has more than ``fields_max`` fields, including nested ones.

    A malformed message is counted up to the fault; the parser refuses it later.
    """
    if len(data) <= 2 * fields_max:  # a field has at least two bytes
        return False
    count, parts = 0, [(0, len(data), descriptor)]
    while parts and count <= fields_max:
        at, end, kind = parts.pop()
        while at < end and count <= fields_max:
            tag, at = _varint(data, at)
            field = kind.fields_by_number.get(tag >> 3) if kind else None
            size, at = _size(data, at, tag & 7)
            count += 1
            if field is not None and tag & 7 == _LENGTH:
                if field.message_type:
                    parts.append((at, min(at + size, end), field.message_type))
                elif field.type not in _TEXTS:
                    count += size // 8  # numbers without tags, of eight bytes or fewer
            at += size
    return count > fields_max


def _size(data: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """Return the size of a field's content in bytes, and the offset of the content."""
    if wire_type == _LENGTH:
        return _varint(data, at)
    if wire_type == _VARINT:
        return 0, _varint(data, at)[1]
    return {_FIXED_64: 8, _FIXED_32: 4}.get(wire_type, 0), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length number at an offset, and the offset after it."""
    value = 0
    for shift, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:  # noqa: PLR2004  # the last byte has no high bit
            return value, at + shift + 1
    return value, at + _VARINT_BYTES_MAX
