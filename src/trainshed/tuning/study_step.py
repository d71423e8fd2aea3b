"""Inputs and results of a step of a study (``tuning.advance``).

This module needs no numpy, which a server without studies never imports.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.trials import TrialRecord, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSnapshot:
    """A trial with its measurements, and the state of its job."""

    trial: TrialRecord
    job_state: JobState
    job_is_held: bool = False
    """Whether the job waits until a user, or the study, resumes it."""
    job_message: str = ""
    """Why the job has ended."""
    job_start: datetime | None = None
    job_end: datetime | None = None
    reports: tuple[Report, ...] = ()
    search_note: str = ""
    """The files that the engine read for reports, and their contents (``Measured``)."""
    can_pause: bool = False
    """Whether the trial has a checkpoint from which its program can go on later."""


class StudyEvent(NamedTuple):
    """One event of a study's story."""

    kind: str
    message: str
    data: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The changes of a study to be written."""

    state: JobState
    error: str | None = None
    changed: tuple[TrialRecord, ...] = ()
    new: tuple[TrialRecord, ...] = ()
    events: tuple[StudyEvent, ...] = ()
    """The events of the study's story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyContext:
    """The inputs of a study's next step, except its trials."""

    now: datetime
    began: datetime | None
    """The time when the first trial began to run; None: no trial has run."""
    seed: int
    prior: tuple[TrialRecord, ...] = ()
    """The trials of an earlier study, whose numbers are not used again, and known results."""
    first_points: tuple[Values, ...] = ()
    """The points to try before the search."""
    has_news: bool = True
    """Whether a report arrived or a trial ended since the last step."""
