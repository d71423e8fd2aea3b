"""Writes refused calls of jobs to the audit log, at a limited rate.

Allowed calls of jobs are not logged.
"""

import time
from collections.abc import Callable
from typing import Final

from starlette.requests import Request

from trainshed.model.access import Caller

#: Writes an entry with these fields to the audit log.
Audit = Callable[..., None]

#: Entries per minute of one attempt, or of all unidentified callers together.
ENTRIES_PER_MINUTE_MAX: Final = 20
_MINUTE_S: Final = 60.0
_CALLERS_MAX: Final = 1024


class Denials:
    """Logs refused calls.  For one event loop: no locks."""

    def __init__(
        self, audit: Audit = lambda **_: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._audit = audit
        self._clock = clock
        self._counts: dict[str, tuple[float, int]] = {}

    def note(self, request: Request, caller: Caller | None, status: str) -> None:
        """Log a refused call, unless its caller has reached the limit."""
        if not self._may_log(caller.credential if caller else ""):
            return
        self._audit(
            caller=caller.name if caller else "",
            credential=caller.credential if caller else "",
            address=request.client.host if request.client else "",
            method=f"{request.method} gateway",
            resource=request.url.path,
            project=caller.project if caller else "",
            status=status,
        )

    def _may_log(self, credential: str) -> bool:
        now = self._clock()
        since, count = self._counts.get(credential, (now, 0))
        if now - since >= _MINUTE_S:
            since, count = now, 0
        if len(self._counts) >= _CALLERS_MAX:
            self._counts.clear()
        self._counts[credential] = since, count + 1
        return count < ENTRIES_PER_MINUTE_MAX
