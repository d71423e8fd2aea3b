"""Lists calibrations and prediction scores for the native API."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from trainshed.model.refusals import Code, Refusal
from trainshed.service.jobs.paging import digest_of, parts_of, token_of
from trainshed.store.opening import Store
from trainshed.store.records.learned import CalibrationHead
from trainshed.wire.native_v1 import Answer, PredictionScore, answer_of, prediction_score
from trainshed.wire.times import timestamp

#: The most rows of one response.
LIST_MAX: Final = 1000

_TOKEN_LENGTH_MAX: Final = 1000
_PLACE: Final = 3  # numbers, as StoredOutcome.place
_NUMBER_LIMIT: Final = 1 << 63  # integers of databases are smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionScores(Answer):
    """The scores of the predictions for a project's jobs, newest first."""

    outcomes: Sequence[PredictionScore]
    next_page_token: str | None = None
    """The token of the next, older page; empty on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSummary(Answer):
    """A calibration from jobs of one trainer on one machine type, without its document."""

    key: str
    jobs: int
    update_time: str
    model: str
    machine_type: str
    accelerator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFile(CalibrationSummary):
    """A calibration from jobs of one trainer on one machine type, with its document."""

    document: str
    """The file that ``trainshed plan --calibration`` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrations(Answer):
    """The calibrations of a project, most recently changed first."""

    calibrations: Sequence[CalibrationSummary]


_C = TypeVar("_C", bound=CalibrationSummary)


def outcomes(store: Store, project: str, limit: int, page_token: str = "") -> PredictionScores:
    """``GET .../outcomes``: a page of prediction scores, newest first.  Raises Refusal."""
    after = _place(project, page_token) if page_token else None
    rows = store.outcomes(project, limit + 1, after)
    last = rows[limit - 1] if len(rows) > limit else None
    return PredictionScores(
        outcomes=[prediction_score(row.content) for row in rows[:limit]],
        next_page_token=token_of(_digest(project), *last.place) if last else None,
    )


def _digest(project: str) -> str:
    return digest_of("outcomes", project)


def _place(project: str, token: str) -> tuple[int, int, int]:
    """Parse a page token.  Raises Refusal for a malformed one."""
    digest, *place = parts_of(token[:_TOKEN_LENGTH_MAX]) or [None]
    if digest == _digest(project) and len(place) == _PLACE and all(map(_is_number, place)):
        created_ns, uid, attempt = place
        return created_ns, uid, attempt
    raise Refusal(Code.INVALID_ARGUMENT, "pageToken is malformed; list again from the first page")


def _is_number(part: Any) -> bool:
    return type(part) is int and 0 <= part < _NUMBER_LIMIT


def calibrations(store: Store, project: str, limit: int) -> Calibrations:
    """``GET .../calibrations``: the most recently changed first, without documents."""
    rows = store.calibrations(project, limit)
    return Calibrations(calibrations=[_answer(CalibrationSummary, row) for row in rows])


def calibration(store: Store, project: str, key: str) -> CalibrationFile:
    """``GET .../calibrations/KEY``: a calibration with its document.  Raises Refusal."""
    stored = store.calibration(project, key)
    if stored is None:
        raise Refusal(Code.NOT_FOUND, f"project {project} has no calibration {key}")
    return _answer(CalibrationFile, stored)


def _answer(kind: type[_C], stored: CalibrationHead) -> _C:
    return answer_of(kind, stored, update_time=timestamp(stored.update_ns))
