"""Stores the reports of a trial in a file.

The file has one JSON line per report and only grows; a reader remembers its offset and continues
from there.
"""

import errno
import json
import os
from collections.abc import Iterable
from typing import BinaryIO, Final, NamedTuple

from trainshed.files.beneath import Beneath, PathBeneath
from trainshed.model import codec
from trainshed.model.attempt import Report

_PRIVATE_FILE: Final = 0o600
#: Limits of the names in a sentence, and of the characters of each.
_NAMES_MAX: Final = 20
_NAME_CHARS_MAX: Final = 80


class Reported(NamedTuple):
    """One value of one metric, as a program wrote it."""

    tag: str
    value: float
    step: int
    at_s: float | None
    """Seconds since 1970; None: the program did not write a time."""


class ReportLog:
    """The file of one attempt, as its supervisor writes it.

    On a full disk, the bytes not written yet wait for the next try.  So the file contains each line
    completely and once.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting = bytearray()

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that are not written yet."""
        return len(self._waiting)

    def add(self, reports: Iterable[Report]) -> None:
        """Add reports, which the next ``write`` appends to the file."""
        for report in reports:
            self._waiting += encode(report) + b"\n"

    def write(self, *, durably: bool = False) -> bool:
        """Write the reports not written yet; return False if the caller has to try again."""
        if not self._waiting and not durably:
            return True
        try:
            self._write(durably=durably)
        except OSError:
            return False
        return True

    def _write(self, *, durably: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, _PRIVATE_FILE)
        try:
            while self._waiting:
                del self._waiting[: os.write(descriptor, self._waiting)]
            if durably:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Names:
    """The first names of metrics, for a sentence; a hostile program may write millions."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._has_more = False

    def __bool__(self) -> bool:
        """Return whether there is a name."""
        return bool(self._names)

    def add(self, name: str) -> None:
        """Add a name, unless it is in the list or the list is full."""
        printable_name = printable(name, _NAME_CHARS_MAX)
        if printable_name in self._names:
            return
        if len(self._names) < _NAMES_MAX:
            self._names.append(printable_name)
        else:
            self._has_more = True

    def after(self, word: str) -> str:
        """Return ``metric loss`` or ``metrics loss, lr``, where ``word`` is ``metric``."""
        names = [*self._names, *(["and more"] if self._has_more else [])]
        return f"{word}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def open_file(place: PathBeneath) -> tuple[BinaryIO, int]:
    """Open a program's file; return it and its size.  Raises OSError also for a link or device."""
    with Beneath(place.root) as folder:
        file = folder.read(place.name)
    return file, os.fstat(file.fileno()).st_size


def why(error: OSError) -> str:
    """Return the reason why a file cannot be read, as a part of a sentence."""
    if error.errno == errno.ELOOP:
        return "it is a symbolic link"
    if error.errno == errno.EINVAL:
        return "it is not a file"
    return error.strerror or type(error).__name__


def printable(text: str, chars_max: int) -> str:
    """Return a program's text as one line of at most ``chars_max`` characters and an ellipsis."""
    line = "".join(c if c.isprintable() else "?" for c in text[: chars_max + 1])
    return line if len(text) <= chars_max else line[:chars_max] + "…"


def encode(report: Report) -> bytes:
    """Return a report as one line, without its newline; NaN and infinity as Python's json."""
    return json.dumps(codec.encode(report)).encode()


def decode(line: bytes) -> Report:
    """Parse a line.  Raises ValueError if it is not a report."""
    return codec.decode(Report, json.loads(line))
