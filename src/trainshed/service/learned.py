"""What jobs have taught, as the native API tells it."""

from typing import Any, Final

from trainshed.model.refusals import Code, Refusal
from trainshed.store.opening import Store
from trainshed.store.records import CalibrationHead
from trainshed.wire.times import timestamp

#: The most of one answer.
LIST_MAX: Final = 1000


def outcomes(store: Store, project: str, limit: int) -> dict[str, Any]:
    """``GET .../outcomes``: the newest first."""
    return {"outcomes": store.outcomes(project, limit)}


def calibrations(store: Store, project: str, limit: int) -> dict[str, Any]:
    """``GET .../calibrations``: what was learned last first, without the documents."""
    return {"calibrations": [_head(each) for each in store.calibrations(project, limit)]}


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
