"""What jobs have taught, as the native API tells it."""

from typing import Any, Final

from trainshed.planning.scaling.calibration_file import read
from trainshed.store.opening import Store
from trainshed.store.records import StoredCalibration
from trainshed.wire.times import timestamp

#: The most of one answer.
LIST_MAX: Final = 1000


def outcomes(store: Store, project: str, limit: int) -> dict[str, Any]:
    """``GET .../outcomes``: the newest first."""
    return {"outcomes": store.outcomes(project, limit)}


def calibrations(store: Store, project: str, limit: int) -> dict[str, Any]:
    """``GET .../calibrations``: what was learned last first."""
    return {"calibrations": [_shown(each) for each in store.calibrations(project, limit)]}


def _shown(stored: StoredCalibration) -> dict[str, Any]:
    known = read(stored.document)
    return {
        "key": stored.key,
        "jobs": stored.jobs,
        "updateTime": timestamp(stored.update_ns),
        "model": known.training.model,
        "machineType": known.host.machine_type,
        "accelerator": known.host.accelerator,
        "document": stored.document,
    }
