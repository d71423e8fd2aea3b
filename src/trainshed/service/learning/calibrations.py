"""Lists calibrations and prediction scores for the native API."""

from typing import Any, Final

from trainshed.model.refusals import Code, Refusal
from trainshed.service.jobs.paging import digest_of, parts_of, token_of
from trainshed.store.opening import Store
from trainshed.store.records.learned import CalibrationHead
from trainshed.wire.native_v1 import score_json
from trainshed.wire.times import timestamp

#: The most rows of one response.
LIST_MAX: Final = 1000

_TOKEN_LENGTH_MAX: Final = 1000
_PLACE: Final = 3  # numbers, as StoredOutcome.place
_NUMBER_LIMIT: Final = 1 << 63  # databases have no larger ones


def outcomes(store: Store, project: str, limit: int, page_token: str = "") -> dict[str, Any]:
    """``GET .../outcomes``: a page of them, the newest first.  Raises Refusal."""
    after = _place(project, page_token) if page_token else None
    rows = store.outcomes(project, limit + 1, after)
    page: dict[str, Any] = {"outcomes": [score_json(row.content) for row in rows[:limit]]}
    if len(rows) > limit:
        page["nextPageToken"] = token_of(_digest(project), *rows[limit - 1].place)
    return page


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


def calibrations(store: Store, project: str, limit: int) -> dict[str, Any]:
    """``GET .../calibrations``: what was learned last first, without the documents."""
    return {"calibrations": [_head(row) for row in store.calibrations(project, limit)]}


def calibration(store: Store, project: str, key: str) -> dict[str, Any]:
    """``GET .../calibrations/KEY``: one with its document.  Raises Refusal."""
    stored = store.calibration(project, key)
    if stored is None:
        raise Refusal(Code.NOT_FOUND, f"project {project} has no calibration {key}")
    return {**_head(stored), "document": stored.document}


def _head(stored: CalibrationHead) -> dict[str, Any]:
    return {
        "key": stored.key,
        "jobs": stored.jobs,
        "updateTime": timestamp(stored.update_ns),
        "model": stored.model,
        "machineType": stored.machine_type,
        "accelerator": stored.accelerator,
    }
