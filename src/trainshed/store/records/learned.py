"""Calibrations and scores of predictions that jobs leave, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

from trainshed.store.records.steps import NewEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What one attempt taught: all of it is written, or nothing."""

    project: str
    key: str
    """Of the trainer and its machines."""
    document: str
    """The calibration from now on."""
    model: str
    machine_type: str
    accelerator: str
    jobs: int
    """How many attempts had taught it before; 0: there was none."""
    content: Mapping[str, object]
    """How its prediction did; empty for an attempt that nothing was predicted of."""
    event: NewEvent | None = None
    """For the story of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutcome:
    """How the prediction of an attempt did, and where it stands among those of its project."""

    create_ns: int
    uid: int
    attempt: int
    content: Mapping[str, object]

    @property
    def place(self) -> tuple[int, int, int]:
        """Where the next page goes on."""
        return self.create_ns, self.uid, self.attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationHead:
    """Of what jobs of a project have taught: one trainer on one kind of machine."""

    key: str
    jobs: int
    update_ns: int
    model: str
    machine_type: str
    accelerator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalibration(CalibrationHead):
    """The same with what they have taught."""

    document: str
