"""What a step of a study is given, and what it says (``tuning.advance``).

They need no numpy: a server that tunes nothing never imports it.
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
    """Where reports were looked for, and what was there (``engines.base.Measured``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What is to be written about a study."""

    state: JobState
    error: str | None = None
    changed: tuple[TrialRecord, ...] = ()
    new: tuple[TrialRecord, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    """Kind and sentence of each event of the study's story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyContext:
    """What beside its trials a study's next step depends on."""

    now: datetime
    began: datetime | None
    """When its first trial began to run."""
    seed: int
    prior: tuple[TrialRecord, ...] = ()
    """What an earlier study has found out; its numbers are not given again."""
    has_news: bool = True
    """Whether anything was reported or has ended since the last step, as far as is known."""
