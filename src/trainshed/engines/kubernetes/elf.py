"""Reads the program headers of ELF files (elf(5)), and copies the part that a loader maps.

Section headers, symbol tables and debug information are for tools.  They are most of some
interpreters: 19 of the 23 MB of a libpython that pyenv has built.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from trainshed.model.faults import EngineFault

_MAGIC: Final = b"\x7fELF"
_CLASS_64: Final = 2
_BIG_ENDIAN: Final = 2
_IDENT_BYTES: Final = 16
#: The fields after the identification: type, machine, version, entry, phoff, shoff, flags, ehsize,
#: phentsize, phnum, shentsize, shnum, shstrndx.
_HEADER: Final = "HHIQQQIHHHHHH"
#: A program header: type, flags, offset, vaddr, paddr, filesz, memsz, align.
_SEGMENT: Final = "IIQQQQQQ"
_PT_INTERP: Final = 3


class _Segment(NamedTuple):
    kind: int
    offset: int
    size: int


def read_loader(path: str, data: bytes) -> str:
    """Return the path of the loader that a program names; empty for a program without one.

    Raises EngineFault if the data of the file is no 64-bit ELF file.
    """
    for segment in _list_segments(path, data):
        if segment.kind == _PT_INTERP:
            text = data[segment.offset : segment.offset + segment.size]
            return text.rstrip(b"\0").decode("utf-8", "surrogateescape")
    return ""


def copy_mapped(path: str, data: bytes) -> bytes:
    """Copy a program or library without the bytes behind its last segment.

    Raises EngineFault as ``read_loader`` does.
    """
    end = max((part.offset + part.size for part in _list_segments(path, data)), default=0)
    order = _byte_order(path, data)
    fields = list(struct.unpack_from(order + _HEADER, data, _IDENT_BYTES))
    fields[5] = fields[11] = fields[12] = 0  # no section headers
    header = data[:_IDENT_BYTES] + struct.pack(order + _HEADER, *fields)
    headers_end = fields[4] + fields[8] * fields[9]
    return header + data[len(header) : max(end, headers_end)]


def _list_segments(path: str, data: bytes) -> Iterator[_Segment]:
    order = _byte_order(path, data)
    try:
        fields = struct.unpack_from(order + _HEADER, data, _IDENT_BYTES)
        offset, entry_bytes, count = fields[4], fields[8], fields[9]
        for position in range(offset, offset + entry_bytes * count, entry_bytes or 1):
            kind, _, start, _, _, size, _, _ = struct.unpack_from(order + _SEGMENT, data, position)
            yield _Segment(kind, start, size)
    except struct.error as error:
        raise EngineFault(f"cannot read the program headers of {path}: {error}") from error


def _byte_order(path: str, data: bytes) -> str:
    if not data.startswith(_MAGIC):
        raise EngineFault(f"{path} must be an ELF file, got one that begins with {data[:4]!r}")
    if len(data) < _IDENT_BYTES or data[4] != _CLASS_64:
        raise EngineFault(f"{path} must be a 64-bit ELF file, got one of another class")
    return ">" if data[5] == _BIG_ENDIAN else "<"
