"""Reads the usage of an attempt: ``usage.jsonl``, and ``usage.jsonl.gz`` with older lines.

A day of 8 GPUs is 2 MB as JSON, and a fifth of that when packed.  So a writer moves its lines to
the packed file from time to time: first it appends them there, then it empties the other file.  If
it is killed in between, some lines are in both files, and readers ignore the repetitions.
"""

import os
import zlib
from collections.abc import Iterator
from typing import Final

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.files.beneath import NOT_A_FILE, Beneath, PathBeneath
from trainshed.model.usage import UsageLine, parse_lines

_PRIVATE_FILE: Final = 0o600
_APPEND: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)
_GZIP: Final = 31
"""The format of the packed file, as zlib calls it."""
_PIECE_BYTES: Final = 1 << 16
#: The most bytes that a reader reads of each file, and unpacks of the packed one: those of a job of
#: 8 GPUs that has run for a year are fewer.
_FILE_BYTES_MAX: Final = 1 << 24
#: The number of lines that ``read_newest_usage`` returns at most.
NEWEST_MAX: Final = 16
_UNPACKED_BYTES_MAX: Final = 1 << 26


def read_usage(folder: AttemptFolder) -> list[UsageLine]:
    """Return the lines of an attempt in the order of their times; empty if there are none.

    Programs may have changed the files, so the sizes are limited and invalid lines are skipped.
    Raises OSError if the files cannot be read now.
    """
    packed, newest = _read(folder.packed_usage), _read(folder.usage)
    lines = b"".join([*unpack(packed), b"\n", newest])
    return parse_lines(filter(None, lines.split(b"\n")))


def read_newest_usage(folder: AttemptFolder) -> list[UsageLine]:
    """Return the newest lines of an attempt, at most ``NEWEST_MAX``; empty if there are none.

    Raises OSError if the files cannot be read now.
    """
    lines = _read(folder.usage, _PIECE_BYTES, from_end=True).split(b"\n")
    newest = parse_lines(filter(None, lines[-NEWEST_MAX - 1 :]))
    return newest or read_usage(folder)[-NEWEST_MAX:]


def _read(path: str, bytes_max: int = _FILE_BYTES_MAX, *, from_end: bool = False) -> bytes:
    """Read a file as far as its size is allowed; empty if it is missing or not a regular file."""
    place = PathBeneath.of_file(path)
    try:
        with Beneath(place.root) as folder, folder.read(place.name) as file:
            if from_end:
                file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
            return file.read(bytes_max)
    except OSError as error:
        if error.errno in NOT_A_FILE:
            return b""
        raise


def unpack(data: bytes) -> Iterator[bytes]:
    """Yield the unpacked content piece by piece, as far as it is valid, at most 64 MiB."""
    remaining = _UNPACKED_BYTES_MAX
    while data and remaining > 0:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            while data and remaining > 0 and not unpacker.eof:
                piece = unpacker.decompress(data, min(remaining, _PIECE_BYTES))
                data = unpacker.unconsumed_tail
                remaining -= len(piece)
                yield piece
        except zlib.error:
            return
        data = unpacker.unused_data or data
