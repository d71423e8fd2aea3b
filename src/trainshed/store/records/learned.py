"""Records of calibrations and of scores of predictions, made from ended jobs."""

from collections.abc import Mapping
from dataclasses import dataclass

from trainshed.store.records.steps import NewEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The calibration and the score of one attempt, written in one transaction."""

    project: str
    key: str
    """The key of the calibration: trainer and machines."""
    document: str
    """The new calibration."""
    model: str
    machine_type: str
    accelerator: str
    jobs: int
    """The number of attempts in the stored calibration; 0 if there is none yet."""
    content: Mapping[str, object]
    """The score of the attempt's prediction; empty if there was no prediction."""
    event: NewEvent | None = None
    """An event to add to the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcome:
    """The score of an attempt's prediction, and its position in the list of its project."""

    create_ns: int
    uid: int
    attempt: int
    content: Mapping[str, object]

    @property
    def place(self) -> tuple[int, int, int]:
        """The argument ``after`` of ``Outcomes.outcomes`` for the page that follows this score."""
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
