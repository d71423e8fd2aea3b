"""Inputs and results of a step of a study (``tuning.advance``).

This module needs no numpy, which a server without studies never imports.
"""

from dataclasses import dataclass
from datetime import datetime

from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.trials import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSnapshot:
    """A trial with its measurements, and the state of its job."""

    trial: TrialRecord
    job_state: JobState
    job_message: str = ""
    """Why the job has ended."""
    job_start: datetime | None = None
    job_end: datetime | None = None
    reports: tuple[Report, ...] = ()
    search_note: str = ""
    """The files that the engine read for reports, and their contents (``Measured``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The changes of a study to be written."""

    state: JobState
    error: str | None = None
    changed: tuple[TrialRecord, ...] = ()
    new: tuple[TrialRecord, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    """Kind and sentence of each event of the study's story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyContext:
    """The inputs of a study's next step, except its trials."""

    now: datetime
    began: datetime | None
    """The time when the first trial began to run; None: no trial has run."""
    seed: int
    prior: tuple[TrialRecord, ...] = ()
    """The trials of an earlier study, whose numbers are not used again."""
    has_news: bool = True
    """Whether a report arrived or a trial ended since the last step."""
