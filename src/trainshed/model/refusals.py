"""Refusals of calls, with the canonical codes of google.rpc that all of Google's clients read."""

import enum
from collections.abc import Iterable

from trainshed.model.faults import Violation


class Code(enum.Enum):
    """The canonical codes that the server uses: (google.rpc number, HTTP status)."""

    CANCELLED = (1, 499)
    INVALID_ARGUMENT = (3, 400)
    NOT_FOUND = (5, 404)
    ALREADY_EXISTS = (6, 409)
    PERMISSION_DENIED = (7, 403)
    RESOURCE_EXHAUSTED = (8, 429)
    FAILED_PRECONDITION = (9, 400)
    ABORTED = (10, 409)
    OUT_OF_RANGE = (11, 400)
    UNIMPLEMENTED = (12, 400)
    INTERNAL = (13, 500)
    UNAVAILABLE = (14, 503)
    UNAUTHENTICATED = (16, 401)

    @property
    def number(self) -> int:
        """The google.rpc.Code number, which gRPC uses too."""
        return self.value[0]

    @property
    def http(self) -> int:
        """The HTTP status (docs/sources/vertex.md 4.6: FAILED_PRECONDITION is 400).

        UNIMPLEMENTED is not 501: gcloud repeats every 5xx for half a minute and then blames the
        network (docs/sources/gcloud.md 8.2).
        """
        return self.value[1]


class Refusal(Exception):
    """A call that is answered with an error.

    Every client shows ``message`` and some show nothing else, so it must be complete.  The fields
    of ``violations`` are in the caller's own words.
    """

    def __init__(self, code: Code, message: str, violations: Iterable[Violation] = ()) -> None:
        """Keep the parts of the response."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.violations = tuple(violations)


class Throttled(Refusal):
    """The caller sends too many requests; it may retry after ``retry_after_s`` whole seconds."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        """Keep the time to wait."""
        super().__init__(Code.RESOURCE_EXHAUSTED, message)
        self.retry_after_s = retry_after_s
