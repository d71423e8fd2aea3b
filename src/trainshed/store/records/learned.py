"""Calibrations and scores of predictions from ended jobs, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

from trainshed.store.records.steps import NewEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The calibration and the score of one attempt, written in one transaction."""

    project: str
    key: str
    """The key of the trainer and its machines."""
    document: str
    """The new calibration."""
    model: str
    machine_type: str
    accelerator: str
    jobs: int
    """How many attempts the calibration had before; 0: it is new."""
    content: Mapping[str, object]
    """The score of its prediction; empty for an attempt without a prediction."""
    event: NewEvent | None = None
    """The event for the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcome:
    """The score of an attempt's prediction, and its position in the list of its project."""

    create_ns: int
    uid: int
    attempt: int
    content: Mapping[str, object]

    @property
    def place(self) -> tuple[int, int, int]:
        """The position after which the next page begins."""
        return self.create_ns, self.uid, self.attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationHead:
    """A calibration without its document: one trainer on one kind of machine."""

    key: str
    jobs: int
    update_ns: int
    model: str
    machine_type: str
    accelerator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalibration(CalibrationHead):
    """A calibration with its document."""

    document: str
