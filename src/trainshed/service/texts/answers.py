"""Responses of the native API about the text of a job: its check, and a stored job as a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from trainshed.model.explanation import Reason
from trainshed.model.roles import Role
from trainshed.store.listed_jobs import ListedKind
from trainshed.wire.native_v1 import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdit(Answer):
    """A replacement in the checked text.

    Lines and columns count from 1, columns in characters; the end is behind the last character.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    title: str
    """What the edit does, for a button: ``Use 4``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextViolation(Answer):
    """A broken rule, and where it is in the text.

    Lines and columns count from 1, columns in characters; the end is behind the last character.
    They are None for a violation of the whole text, or of a field outside of it (``location``).
    """

    field: str
    rule: str
    message: str
    accepted: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    edit: TextEdit | None = None
    """An edit after which this violation is gone and no other has come; None if none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMachines(Answer):
    """The machines of one role of a job."""

    role: Role
    count: int
    machine_type: str | None = None
    vcpus: int | None = None
    memory_gb: float | None = None
    accelerator_type: str | None = None
    accelerator_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPrice(Answer):
    """The price of an hour of all machines; of a study, of one trial's machines."""

    hourly: float | None = None
    """None if the price of a machine is missing."""
    currency: str | None = None
    list_date: str | None = None
    """The day of the oldest price list that was used."""
    missing: Sequence[str]
    """A sentence for each machine type without a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChange(Answer):
    """One change with which the job would start, or could run."""

    sentence: str
    """``would start now with 2 instead of 4 NVIDIA_TESLA_T4``."""
    edit: TextEdit | None = None
    """The change as an edit of the text; None if it changes the location, or no single value."""
    location: str | None = None
    """The region to use as location instead; None for any other change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForecast(Answer):
    """Whether a job would start now, by the fleet and the queue at this moment."""

    now: bool
    refused: bool
    """Whether a submission would be refused, because the job can never run here."""
    reason: Reason | None = None
    message: str | None = None
    """Why it would wait or be refused; None if it would start now."""
    change: StartChange | None = None
    emulated_on: Sequence[str] = ()
    """The nodes of the job that would emulate its GPUs: its replicas there run without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCheck(Answer):
    """The result of checking the text of a job; nothing was stored or started."""

    valid: bool
    """Whether there are no violations; a valid job may still be refused (``start``)."""
    kind: ListedKind | None = None
    """None if the text cannot be read as a job."""
    violations: Sequence[TextViolation]
    notes: Sequence[str]
    """Hints that are not faults, a sentence each."""
    cluster: Sequence[ClusterMachines]
    price: ClusterPrice | None = None
    """None for a text that is not valid."""
    start: StartForecast | None = None
    """None for a text that is not valid."""


_TextRange = TypeVar("_TextRange", TextEdit, TextViolation)


def shift_first_line(check: TextCheck) -> TextCheck:
    """Return the check of a text that has one more character at its beginning."""
    violations = [
        replace(_shift(violation), edit=violation.edit and _shift(violation.edit))
        for violation in check.violations
    ]
    start = check.start
    if start and start.change and start.change.edit:
        change = replace(start.change, edit=_shift(start.change.edit))
        start = replace(start, change=change)
    return replace(check, violations=violations, start=start)


def _shift(text_range: _TextRange) -> _TextRange:
    if text_range.line is None or text_range.column is None or text_range.end_column is None:
        return text_range
    return replace(
        text_range,
        column=text_range.column + (text_range.line == 1),
        end_column=text_range.end_column + (text_range.end_line == 1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJobName(Answer):
    """A job that was stored."""

    name: str
    """Its resource name in its own API."""
    display_name: str
    """Its id for an AI Platform job."""
    project: str
    job: str
    """Its id in native routes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument(Answer):
    """A stored job in the words of its own API, and as a text to submit again."""

    kind: ListedKind
    location: str | None = None
    """The region of a Vertex job, which is no part of its document; None in AI Platform."""
    document: Mapping[str, object]
    """The document as it was submitted, with the current labels."""
    text: str
    """The document as YAML, to submit again; a job of AI Platform has a new, free id in it."""
    changed_text: str | None = None
    """The text with the change that would start the waiting job; None without such a change."""
    changed_location: str | None = None
    """The location with that change; None if the change is in the text."""
    change_sentence: str | None = None
    """``would start now with 2 instead of 4 NVIDIA_TESLA_T4``; None without such a change."""
    cluster: Sequence[ClusterMachines]
