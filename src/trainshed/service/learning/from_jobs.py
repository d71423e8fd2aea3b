"""Learns calibrations from ended jobs, and scores the predictions of these jobs."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from trainshed.catalog.catalog import Catalog
from trainshed.model.step_times import OUTCOME
from trainshed.planning.goodput import JobTimes, job_goodput
from trainshed.planning.job_outcome import JobOutcome, outcome_of
from trainshed.planning.job_runs import JobRun, count_nodes, job_run
from trainshed.planning.prices import machines_of
from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.calibration_file import read, written
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.updating import add_run
from trainshed.service.costs.prices import PriceSource
from trainshed.service.learning.turns import CpuBudget
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.learned import Learned, StoredCalibration
from trainshed.store.records.steps import NewEvent, StoredEvent

#: The most jobs that one turn reads; it can process fewer.
_AT_ONCE: Final = 25

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """Compares attempts that reported their steps with their calibration, and updates it.

    The first job of a trainer on a kind of machine makes the calibration.  Safe for several
    servers: each attempt is written once (``store.outcomes``).
    """

    store: Store
    catalog: Catalog
    turns: CpuBudget
    read_times: Callable[[JobRecord], JobTimes]
    """Reads the times of a job, with the steps that the event of its goodput has."""
    prices: PriceSource = field(default_factory=PriceSource)

    def learn(self) -> None:
        """Process ended attempts for one turn.  Raises StoreFault."""
        with self.turns.one() as has_time:
            for uid, event in self.store.unscored(_AT_ONCE):
                if not has_time():
                    return
                self._learn(uid, event)

    def _learn(self, uid: int, event: StoredEvent) -> None:
        record = self.store.job_by_uid(uid)
        learned = self._score_attempt(record, event) if record else None
        if learned is None:
            self.store.learn_nothing(uid, event.attempt)
        else:
            self.store.learn(uid, event.attempt, learned)

    def _score_attempt(self, record: JobRecord, event: StoredEvent) -> Learned | None:
        try:
            run = self._run(record, event)
            return self._score_run(record, run) if run else None
        except (ValueError, KeyError, TypeError, ArithmeticError):
            return None  # the trainer reported invalid figures

    def _run(self, record: JobRecord, event: StoredEvent) -> JobRun | None:
        end = record.job.status.end_time
        date = end.date().isoformat() if end else ""
        spec = self.store.expanded(record.uid)
        replicas = self.store.replicas(record.uid, event.attempt)
        nodes = count_nodes(spec, ((replica.role, replica.node) for replica in replicas))
        return job_run(spec, event.data, self.catalog, date, nodes)

    def _score_run(self, record: JobRecord, run: JobRun) -> Learned:
        stored = self.store.calibration(record.job.project, run.key)
        calibration = _read_calibration(record.job.project, stored) if stored else None
        outcome = self._outcome(record, run, calibration) if calibration else None
        text = written(add_run(calibration, run.run) if calibration else _first(run))
        read(text)  # an invalid calibration is not stored: every later job would read it
        return Learned(
            project=record.job.project,
            key=run.key,
            document=text,
            model=run.training.model,
            machine_type=run.host.machine_type,
            accelerator=run.host.accelerator,
            jobs=stored.jobs if stored else 0,
            content={**outcome.numbers, "sentence": outcome.sentence} if outcome else {},
            event=_event(outcome) if outcome else None,
        )

    def _outcome(
        self, record: JobRecord, run: JobRun, calibration: Calibration
    ) -> JobOutcome | None:
        """Return the score of the prediction; None if nothing could be predicted."""
        spec = self.store.expanded(record.uid)
        price = self.prices.list_for_job(spec).of(machines_of(spec))
        goodput = self._goodput(record)
        outcome = outcome_of(record.job.job_id, calibration, run.run, goodput, price)
        return outcome if isinstance(outcome, JobOutcome) else None

    def _goodput(self, record: JobRecord) -> float | None:
        """Return the goodput of a job that has ended; None if it goes on, or for a bound."""
        times = self.read_times(record)
        return None if times.ended_s is None else job_goodput(times, times.ended_s).ratio


def _first(run: JobRun) -> Calibration:
    """Make a calibration from one job."""
    return calibrated(run.training, run.host, [run.run])


def _read_calibration(project: str, stored: StoredCalibration) -> Calibration | None:
    """Read a stored calibration; None for an invalid one, which is replaced."""
    try:
        return read(stored.document)
    except ValueError as error:
        _LOG.warning(
            "cannot read calibration %s of project %s: %s; the next job makes a new one",
            stored.key,
            project,
            error,
        )
        return None


def _event(outcome: JobOutcome) -> NewEvent:
    severity = {} if outcome.is_inside else {"severity": "WARNING"}
    message = f"{outcome.sentence}."
    return NewEvent(kind=OUTCOME, message=message, data={**outcome.numbers, **severity})
