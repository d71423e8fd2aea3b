"""A value that is read again when its file has changed.

An unreadable, invalid or missing file leaves the value unchanged and is logged once, so that an
error of an editor does not stop a running server.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from trainshed.model.faults import UsageFault

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class RereadFile(Generic[T]):
    """The value of a file.  Thread-safe."""

    def __init__(self, first: T, file: Path, read: Callable[[], T], noun: str) -> None:
        """``read`` returns the new value and raises UsageFault; ``noun`` is the value in logs."""
        self._value = first
        self._file = file
        self._read = read
        self._noun = noun
        self._stamp = _stamp_of(file)
        self._lock = threading.Lock()

    def current(self) -> T:
        """Return the value by the current file."""
        if _stamp_of(self._file) != self._stamp:
            with self._lock:
                self._reread()
        return self._value

    def _reread(self) -> None:
        stamp = _stamp_of(self._file)
        if stamp == self._stamp:  # another thread has read it meanwhile
            return
        self._stamp = stamp
        try:
            self._value = self._read()
        except (UsageFault, OSError) as fault:
            _LOG.warning(
                "cannot read the %s again: %s; the server keeps the old ones", self._noun, fault
            )
        else:
            _LOG.info("read the %s of %s again", self._noun, self._file)


def _stamp_of(file: Path) -> tuple[int, int, int] | None:
    """Return values of a file that change with its content; None without a file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
