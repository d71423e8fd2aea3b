"""Writes notes on submitted jobs in the background; no submit waits for one.

Notes use at most 1 % of a processor, so that they do not slow requests.  When very many jobs come
at once, the first ones get no note: they may end before their turn.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from trainshed.model.job import JobSpec
from trainshed.model.labels import wants_no_plan
from trainshed.model.resource_names import JobUid
from trainshed.service.learning.turns import CpuBudget
from trainshed.store.opening import Store

#: Share of a processor that notes may use.
SHARE: Final = 0.01
#: The most jobs that wait for a note; beyond it, the oldest is dropped.
_WAITING_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job that was just stored."""

    uid: JobUid
    project: str
    spec: JobSpec
    """The expanded spec."""


@dataclass(kw_only=True)
class PlanNotes:
    """A queue of jobs: any thread may add a job, and one thread processes them."""

    store: Store
    make: Callable[[], Callable[[SubmittedJob], None]]
    """Makes the function that processes a job; called for the first job that can be planned."""
    turns: CpuBudget = field(default_factory=lambda: CpuBudget(share=SHARE))
    _waiting: deque[SubmittedJob] = field(default_factory=lambda: deque(maxlen=_WAITING_MAX))

    def add(self, uid: JobUid, project: str, spec: JobSpec) -> None:
        """Queue a job that was just stored; returns at once."""
        if not wants_no_plan(spec.labels):
            self._waiting.append(SubmittedJob(uid=uid, project=project, spec=spec))

    def write(self) -> None:
        """Process queued jobs, unless it is time to rest.  Raises StoreFault."""
        if self.turns.is_resting:
            return
        has_calibrations: dict[str, bool] = {}
        with self.turns.one() as has_time:
            while self._waiting and has_time():
                self._note(self._waiting.popleft(), has_calibrations)

    def _note(self, submitted: SubmittedJob, has_calibrations: dict[str, bool]) -> None:
        if submitted.project not in has_calibrations:
            has_calibrations[submitted.project] = bool(
                self.store.calibrations(submitted.project, 1)
            )
        if has_calibrations[submitted.project]:
            self._write_note(submitted)

    @cached_property
    def _write_note(self) -> Callable[[SubmittedJob], None]:
        return self.make()
