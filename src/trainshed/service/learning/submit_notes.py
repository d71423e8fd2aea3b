"""Predicts a submitted job from earlier jobs of its trainer, and writes a note on it."""

import logging
from dataclasses import dataclass, field
from typing import Final

from trainshed.catalog.catalog import Catalog
from trainshed.model.bounded import BoundedDict
from trainshed.model.job import JobSpec
from trainshed.planning.job_runs import trainer_key
from trainshed.planning.planned_jobs import PlannedJob, planned_job
from trainshed.planning.prices import OwnPrices, PriceList
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.calibration_file import read
from trainshed.planning.submit_note import SubmitNote, predict_step_s, submit_note
from trainshed.service.costs.prices import PriceSource
from trainshed.service.learning.plan_notes import SubmittedJob
from trainshed.store.opening import Store
from trainshed.store.records.learned import StoredCalibration
from trainshed.store.records.steps import NewEvent

#: The kind of the event.
KIND: Final = "PLAN_NOTE"
#: The most notes in the cache: many jobs are alike.
_NOTES_MAX: Final = 256

_LOG = logging.getLogger(__name__)

_NoteKey = tuple[str, str, int, PlannedJob, str | None]


@dataclass(slots=True, kw_only=True)
class SubmitNotes:
    """Writes notes as events of jobs."""

    store: Store
    catalog: Catalog
    prices: PriceSource = field(default_factory=PriceSource)
    _notes: dict[_NoteKey, SubmitNote | None] = field(
        default_factory=lambda: BoundedDict(_NOTES_MAX)
    )
    _own: OwnPrices | None = None
    """The owner's prices by which the cached notes were computed."""

    def look(self, submitted: SubmittedJob) -> None:
        """Write the note of a job, if the planner has one.  Raises StoreFault."""
        trainer = trainer_key(submitted.spec)
        stored = self.store.calibration_of(submitted.project, trainer) if trainer else None
        note = self._note(submitted, stored) if stored else None
        record = self.store.job_by_uid(submitted.uid) if note else None
        if note and record and not record.job.status.state.is_final:
            message = f"From jobs of this trainer: {note.message}"
            data = {**note.numbers, "severity": "WARNING"}
            self.store.add_event(submitted.uid, NewEvent(kind=KIND, message=message, data=data))

    def _note(self, submitted: SubmittedJob, stored: StoredCalibration) -> SubmitNote | None:
        job, region = planned_job(submitted.spec, self.catalog), submitted.spec.region
        if not isinstance(job, PlannedJob):
            return None
        prices = self.prices.list_for(region)
        if prices.own is not self._own:
            self._notes.clear()
            self._own = prices.own
        key = (submitted.project, stored.key, stored.jobs, job, region)
        if key not in self._notes:
            self._notes[key] = _compute_note(submitted.project, stored, job, prices)
        return self._notes[key]


def predict_job_step_s(
    store: Store, catalog: Catalog, prices: PriceSource, project: str, spec: JobSpec
) -> float | None:
    """Return the predicted seconds of a job's step, from earlier jobs of its trainer.

    None if nothing can be predicted.  Raises StoreFault.
    """
    trainer = trainer_key(spec)
    stored = store.calibration_of(project, trainer) if trainer else None
    job = planned_job(spec, catalog) if stored else None
    calibration = _read_calibration(project, stored) if stored else None
    if calibration is None or not isinstance(job, PlannedJob):
        return None
    return predict_step_s(calibration, job, prices.list_for(spec.region))


def _compute_note(
    project: str, stored: StoredCalibration, job: PlannedJob, prices: PriceList
) -> SubmitNote | None:
    calibration = _read_calibration(project, stored)
    return submit_note(calibration, job, prices) if calibration else None


def _read_calibration(project: str, stored: StoredCalibration) -> Calibration | None:
    """Read a stored calibration; None for an invalid one."""
    try:
        return read(stored.document)
    except ValueError as error:  # the next job of its trainer makes another
        _LOG.warning(
            "cannot read calibration %s of project %s: %s; the next job makes a new one",
            stored.key,
            project,
            error,
        )
        return None
