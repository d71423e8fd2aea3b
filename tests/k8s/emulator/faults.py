"""Trouble on order: the next requests that match fail in the way that a test wants."""

import threading
from collections.abc import Collection
from dataclasses import dataclass

from .statuses import ApiError, Expired

EXPIRED = "expired"
TOO_MANY = "too_many_requests"
SERVER_ERROR = "server_error"
BAD_GATEWAY = "bad_gateway"
CLOSED = "closed"
HANG = "hang"
SILENT = "silent_watch"
KINDS = (EXPIRED, TOO_MANY, SERVER_ERROR, BAD_GATEWAY, CLOSED, HANG, SILENT)
FOREVER = 1_000_000_000


@dataclass(slots=True)
class Disturbance:
    """``kind`` for the next ``count`` requests of ``verbs`` whose path contains ``path``."""

    kind: str
    count: int
    verbs: Collection[str]
    path: str
    retry_after_s: int
    released: threading.Event

    def matches(self, verb: str, path: str) -> bool:
        return self.count > 0 and (not self.verbs or verb in self.verbs) and self.path in path


class Faults:
    """Ordered trouble; ``clear`` ends it, also for requests that hang."""

    def __init__(self) -> None:
        self._rows: list[Disturbance] = []
        self._lock = threading.Lock()
        self._released = threading.Event()

    def order(
        self,
        kind: str,
        count: int = 1,
        *,
        verbs: Collection[str] = (),
        path: str = "",
        retry_after_s: int = 1,
    ) -> None:
        """``verbs`` are those of the API (get, list, watch, create, ...); () means all."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind}")
        with self._lock:
            row = Disturbance(kind, count, verbs, path, retry_after_s, self._released)
            self._rows.append(row)

    def take(self, verb: str, path: str) -> Disturbance | None:
        """The trouble that the next request of a verb gets; it is used up by that."""
        with self._lock:
            for row in self._rows:
                if row.kind == SILENT and verb != "watch":
                    continue
                if row.matches(verb, path):
                    row.count -= 1
                    return row
        return None

    @property
    def remaining(self) -> int:
        """How many requests are still to fail."""
        with self._lock:
            return sum(row.count for row in self._rows)

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._released.set()
            self._released = threading.Event()


def make_refusal(row: Disturbance) -> ApiError:
    """The answer of a fault that answers."""
    if row.kind == EXPIRED:
        return Expired("The resourceVersion for the provided list is too old.")
    if row.kind == TOO_MANY:
        message = "too many requests, please try again later"
        details = {"retryAfterSeconds": row.retry_after_s}
        return ApiError(429, "TooManyRequests", message, details, retry_after_s=row.retry_after_s)
    message = "Internal error occurred: etcdserver: request timed out"
    return ApiError(500, "InternalError", message, {"causes": [{"message": message}]})
