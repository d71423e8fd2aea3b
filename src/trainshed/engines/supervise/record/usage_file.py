"""Writes and reads the usage of an attempt: ``usage.jsonl``, older lines in ``usage.jsonl.gz``.

A day of 8 GPUs is 2 MB as JSON, and a fifth of that when packed.  So the writer moves its lines to
the packed file from time to time: first it appends them there, then it empties the other file.  If
it is killed in between, some lines are in both files, and readers ignore the repetitions.
"""

import io
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.files.beneath import NOT_A_FILE, Beneath, PathBeneath
from trainshed.model.usage import (
    FULL_S,
    LINE_BYTES_MAX,
    THIN_S,
    UsageLine,
    encode_lines,
    parse_line,
    parse_lines,
    thin_lines,
)

_PRIVATE_FILE: Final = 0o600
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: The format of the packed file, as zlib calls it, with a window of 8 KiB, and a use of memory: a
#: supervisor has little, and the largest ones would save a tenth of the file.
_GZIP: Final = 16 + 13
_ANY_GZIP: Final = 16 + 15
_LEVEL: Final = 6
_MEMORY_LEVEL: Final = 4
#: The size from which the lines are packed.
_PACK_BYTES: Final = 1 << 15
#: The size from which they are packed at the end: two blocks of most file systems.
_PACK_LAST_BYTES: Final = 1 << 13
_READ_BYTES: Final = 1 << 12
#: The bytes that are unpacked at a time: at most 1,000 times as many come out.
_PIECE_BYTES: Final = 1 << 11
#: The largest file that is read, and the most bytes that are unpacked: a week of the longest lines
#: (``usage_lines``) has 40 MB.
_FILE_BYTES_MAX: Final = 1 << 24
_UNPACKED_BYTES_MAX: Final = 1 << 26
#: The share of these bytes from which on old lines get twice the time.
_UNPACKED_SHARE: Final = 0.75
#: The beginning of each pack, and the places at which it is looked for: packed bytes may be equal.
_GZIP_HEAD: Final = b"\x1f\x8b\x08"
_PACKS_TRIED: Final = 4
_PACK_UNPACKED_BYTES_MAX: Final = 1 << 20
#: The number of lines that ``read_newest_usage`` returns at most.
NEWEST_MAX: Final = 16
#: Seconds between two times at which old lines are merged, and the longest time of such a line.
_THIN_EVERY_S: Final = 86_400.0
#: The beginning of each line, before its time.
_HEAD: Final = b'{"at":'
#: What a line has in which a replica reported steps.
_STEP: Final = b'"step":'
_HEAD_BYTES_MAX: Final = 64


class UsageFile:
    """The usage of one attempt, as its supervisor or launcher writes it."""

    __slots__ = ("_folder", "_is_torn", "_thin_at", "_thin_s")

    def __init__(self, folder: AttemptFolder) -> None:
        """Write nothing yet."""
        self._folder = folder
        self._is_torn = False
        self._thin_at: float | None = None
        self._thin_s = THIN_S

    def append(self, lines: Iterable[bytes], at: float, *, are_last: bool = False) -> None:
        """Append lines, given without newlines.  ``at`` is the time in seconds since 1970.

        ``are_last``: no line follows.  Raises OSError; the next call then continues in a new line.
        """
        data = b"\n" * self._is_torn + b"".join(line + b"\n" for line in lines)
        self._is_torn = True
        size = _append(self._folder.usage, data)
        self._is_torn = False
        if size > _FILE_BYTES_MAX:  # a program of the job has changed it
            _empty(self._folder.usage)
        elif size >= (_PACK_LAST_BYTES if are_last else _PACK_BYTES):
            self._pack(at)

    def _pack(self, at: float) -> None:
        """Move the lines to the packed file; once a day, merge the old lines there."""
        import zlib  # noqa: PLC0415 - most attempts end before

        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP, _MEMORY_LEVEL)
        with _open(self._folder.usage) as file:
            pieces = [packer.compress(piece) for piece in iter(lambda: file.read(_READ_BYTES), b"")]
        _append(self._folder.packed_usage, b"".join(pieces) + packer.flush())
        _empty(self._folder.usage)
        if self._thin_at is None:
            self._thin_at = at + FULL_S
        elif at >= self._thin_at:
            self._thin_at = at + _THIN_EVERY_S
            unpacked_bytes = thin(self._folder, at, self._thin_s)
            if unpacked_bytes > _UNPACKED_SHARE * _UNPACKED_BYTES_MAX:
                self._thin_s = min(2 * self._thin_s, _THIN_EVERY_S)


def thin(folder: AttemptFolder, at: float, every_s: float = THIN_S) -> int:
    """Merge the packed lines that are older than a week at the time ``at``.  Raises OSError.

    They become one for each ``every_s``.  Returns the number of unpacked bytes that remain.  Takes
    about 20 ms for each megabyte of them.
    """
    import zlib  # noqa: PLC0415 - most attempts end before

    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP, _MEMORY_LEVEL)
    draft = f"{folder.packed_usage}.new"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    descriptor = os.open(draft, _WRITE | os.O_EXCL, _PRIVATE_FILE)
    unpacked_bytes = 0
    try:
        with open(descriptor, "wb") as target:
            for line in _thin(read_packed(folder.packed_usage), at, every_s):
                target.write(packer.compress(line + b"\n"))
                unpacked_bytes += len(line) + 1
            target.write(packer.flush())
        os.replace(draft, folder.packed_usage)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    return unpacked_bytes


def _thin(lines: Iterable[bytes], at: float, every_s: float) -> Iterator[bytes]:
    """Yield the lines with the old ones merged; only these are parsed, and few at a time."""
    old: list[UsageLine] = []
    for data in lines:
        line = parse_line(data) if _is_due(data, at) else None
        if line is not None and line.s > every_s / 2:
            line = None
        if line is None or (old and line.at // every_s != old[0].at // every_s):
            yield from _merge(old, at, every_s)
            old = []
        if line is None:
            yield data
        else:
            old.append(line)
    yield from _merge(old, at, every_s)


def _merge(lines: list[UsageLine], at: float, every_s: float) -> Iterator[bytes]:
    for line in thin_lines(lines, at, every_s):
        yield from encode_lines(line)


def _is_due(data: bytes, at: float) -> bool:
    return _read_time(data) < at - FULL_S


def _append(path: str, data: bytes) -> int:
    """Append bytes and return the new size; if that fails, leave the file as it was if possible."""
    descriptor = os.open(path, _WRITE | os.O_APPEND, _PRIVATE_FILE)
    size = os.fstat(descriptor).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
    finally:
        os.close(descriptor)
    return size + len(data)


def _empty(path: str) -> None:
    descriptor = os.open(path, _WRITE)
    try:
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def read_usage(
    folder: AttemptFolder, since_s: float = -math.inf, until_s: float = math.inf
) -> list[UsageLine]:
    """Return the lines of an attempt in the order of their times; empty if there are none.

    ``since_s`` and ``until_s`` are the first and the last time, in seconds since 1970.  Programs
    may have changed the files, so the sizes are limited and invalid lines are skipped.  Raises
    OSError if the files cannot be read now.
    """
    lines = filter(None, [*read_packed(folder.packed_usage), *_read_lines(folder.usage)])
    if since_s > -math.inf or until_s < math.inf:  # a line takes 0.1 ms to parse
        lines = filter(lambda line: since_s <= _read_time(line) <= until_s, lines)
    return parse_lines(lines)


def read_newest_usage(folder: AttemptFolder, after_s: float = -math.inf) -> list[UsageLine]:
    """Return the newest lines of an attempt, at most ``NEWEST_MAX``; empty if there are none.

    Only those later than ``after_s``, in seconds since 1970.  Raises OSError if the files cannot be
    read now.
    """
    lines = _read_end(folder.usage).split(b"\n")
    if len(lines) <= NEWEST_MAX and not _has_earlier(lines, after_s):
        lines = [*_read_last_pack(folder.packed_usage), *lines]
    later = [line for line in lines if line and not _read_time(line) <= after_s]
    newest = parse_lines(later[-NEWEST_MAX - 1 :])  # the first of the lines may be cut off
    if not newest and not _has_earlier(lines, after_s):
        newest = [line for line in read_usage(folder, after_s) if line.at > after_s]
    return newest[-NEWEST_MAX:]


def read_newest_steps(folder: AttemptFolder) -> list[UsageLine]:
    """Return the newest lines in which a replica reported steps, at most ``NEWEST_MAX``.

    Raises OSError if the files cannot be read now.
    """
    lines = [*read_packed(folder.packed_usage), *_read_lines(folder.usage)]
    with_steps = parse_lines([line for line in lines if _STEP in line][-NEWEST_MAX:])
    return [line for line in with_steps if any(one.step for one in line.replicas.values())]


def _has_earlier(lines: Iterable[bytes], after_s: float) -> bool:
    """Return whether a line is not later than ``after_s``; then all later lines follow it."""
    return any(_read_time(line) <= after_s for line in lines)


def _read_time(data: bytes) -> float:
    """Return the time of a line without parsing it; NaN for no line of ``encode_lines``."""
    with suppress(ValueError):
        if data.startswith(_HEAD):
            return float(data[len(_HEAD) : data.index(b",", len(_HEAD), _HEAD_BYTES_MAX)])
    return math.nan


def _read_end(path: str) -> bytes:
    with _open(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LINE_BYTES_MAX))
        return file.read(LINE_BYTES_MAX)


def _read_last_pack(path: str) -> list[bytes]:
    """Return the lines that were packed last; empty if they are too long to read."""
    import zlib  # noqa: PLC0415 - supervisors do not need it

    data = _read_end(path)
    start = len(data)
    for _ in range(_PACKS_TRIED):
        start = data.rfind(_GZIP_HEAD, 0, start)
        if start < 0:
            break
        unpacker = zlib.decompressobj(_ANY_GZIP)
        with suppress(zlib.error):
            content = unpacker.decompress(data[start:], _PACK_UNPACKED_BYTES_MAX)
            if unpacker.eof and not unpacker.unused_data:
                return content.split(b"\n")
    return []


def _read_lines(path: str) -> list[bytes]:
    with _open(path) as file:
        return file.read(_FILE_BYTES_MAX).split(b"\n")


def read_packed(path: str) -> Iterator[bytes]:
    """Yield the lines of a packed file; the last may be cut off."""
    rest = b""
    with _open(path) as file:
        for piece in _unpack(file):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
            if len(rest) > LINE_BYTES_MAX:
                rest = b""  # no line is as long
    if rest:
        yield rest


def _open(path: str) -> BinaryIO:
    """Open a file; an empty one if it is missing or not a regular file.  Raises OSError."""
    place = PathBeneath.of_file(path)
    try:
        with Beneath(place.root) as folder:
            return folder.read(place.name)
    except OSError as error:
        if error.errno in NOT_A_FILE:
            return io.BytesIO()
        raise


def _unpack(file: BinaryIO) -> Iterator[bytes]:
    """Yield the unpacked content in pieces, as far as it is valid, at most 64 MiB."""
    import zlib  # noqa: PLC0415 - supervisors of most attempts do not need it

    unpacked_bytes, data = 0, file.read(_PIECE_BYTES)
    unpacker = zlib.decompressobj(_ANY_GZIP)
    while data and unpacked_bytes < _UNPACKED_BYTES_MAX:
        try:
            piece = unpacker.decompress(data)
        except zlib.error:
            return
        unpacked_bytes += len(piece)
        yield piece
        data = unpacker.unused_data or file.read(_PIECE_BYTES)
        if unpacker.eof:
            unpacker = zlib.decompressobj(_ANY_GZIP)
