"""Reads a value in a thread of its own, so that a database that hangs costs a caller little time.

A caller that waited for the database itself would also occupy a thread that answers requests.
"""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from trainshed.model.refusals import Refusal
from trainshed.store.base import StoreFault

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class TimedReader(Generic[T]):
    """Reads a value at most once at a time.  Calls of ``read`` must not overlap."""

    def __init__(self, read: Callable[[], T], name: str) -> None:
        """``read`` returns the value; ``name`` is that of its thread.

        It may raise StoreFault or Refusal; other errors are logged.
        """
        self._read = read
        self._name = name
        self._thread: threading.Thread | None = None

    def read(self, seconds_max: float) -> T | None:
        """Return the value; None if it cannot be read, or not within the time.

        While an earlier reading waits for the database, no other one begins.
        """
        if self._thread is not None and self._thread.is_alive():
            return None
        values: list[T] = []
        self._thread = threading.Thread(
            target=self._read_into, args=[values], name=self._name, daemon=True
        )
        self._thread.start()
        self._thread.join(seconds_max)
        return values[0] if values else None

    def _read_into(self, values: list[T]) -> None:
        try:
            values.append(self._read())
        except (StoreFault, Refusal):
            return
        except Exception:  # noqa: BLE001 - logged; the page has other parts
            _LOG.exception("cannot read for the page of metrics")
