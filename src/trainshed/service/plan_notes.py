"""Notes on jobs that were submitted, made beside the submits: no submit waits for one.

Notes take a hundredth of a processor and no more, so they slow nobody: where very many jobs come at
once the last ones go without.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from trainshed.model.job import JobSpec
from trainshed.model.plan_wishes import wants_no_plan
from trainshed.model.resource_names import JobUid
from trainshed.store.opening import Store

#: Share of a processor that notes may take.
SHARE: Final = 0.01
#: Seconds of work without a rest.
_AT_ONCE_S: Final = 0.02
#: Jobs that wait for a note.
_WAITING_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that was just stored."""

    uid: JobUid
    project: str
    spec: JobSpec
    """Expanded."""


@dataclass(kw_only=True)
class PlanNotes:
    """Takes jobs from any thread; one other has them looked at."""

    store: Store
    make: Callable[[], Callable[[Submitted], None]]
    """Gives what looks at a job; called when there is one that could be planned."""
    share: float = SHARE
    clock: Callable[[], float] = time.monotonic
    work_clock: Callable[[], float] = time.thread_time
    _waiting: deque[Submitted] = field(default_factory=lambda: deque(maxlen=_WAITING_MAX))
    _rests_until_s: float = 0.0

    def add(self, uid: JobUid, project: str, spec: JobSpec) -> None:
        """A job that was just stored, expanded; returns at once."""
        if not wants_no_plan(spec.labels):
            self._waiting.append(Submitted(uid=uid, project=project, spec=spec))

    def write(self) -> None:
        """Look at those that wait, unless it is time to rest.  Raises StoreFault."""
        if self.clock() < self._rests_until_s:
            return
        began, spent = self.work_clock(), 0.0
        taught: dict[str, bool] = {}
        while self._waiting and spent < _AT_ONCE_S:
            asked = self._waiting.popleft()
            if asked.project not in taught:
                taught[asked.project] = bool(self.store.calibrations(asked.project, 1))
            if taught[asked.project]:
                self._look(asked)
            spent = self.work_clock() - began
        self._rests_until_s = self.clock() + spent / self.share

    @cached_property
    def _look(self) -> Callable[[Submitted], None]:
        return self.make()
