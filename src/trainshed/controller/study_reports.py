"""What the trials of a study have reported: read from the engine, kept in the store (R19)."""

import logging
import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from trainshed.engines.base import Engine
from trainshed.model.attempt import AttemptKey, Measured, Report
from trainshed.model.study import StudySpec
from trainshed.model.trials import Measurement, TrialRecord
from trainshed.store.opening import Store
from trainshed.store.records import NewEvent, StoredTrial, TrialReports
from trainshed.tuning.measuring import measurements

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """One trial with all that is known of it."""

    stored: StoredTrial
    trial: TrialRecord
    """With what it has measured."""
    reports: tuple[Report, ...] = ()
    news: TrialReports | None = None
    """What is not stored yet."""
    events: tuple[NewEvent, ...] = ()
    found: str = ""
    was_read: bool = True
    """False while the engine cannot say what was reported: nothing is concluded from that."""


class Reports:
    """Collects them; what they come to is remembered until there are more."""

    def __init__(self, store: Store, engine: Engine) -> None:
        """Nothing is read before the first ``collect``."""
        self._store = store
        self._engine = engine
        self._known: dict[tuple[int, int], tuple[int, tuple[Measurement, ...]]] = {}
        """By study and trial: of how many reports, and what they come to."""

    def keep(self, uids: Collection[int]) -> None:
        """Forget the measurements of all other studies."""
        self._known = {key: found for key, found in self._known.items() if key[0] in uids}

    def collect(self, uid: int, study: StudySpec) -> tuple[Collected, ...]:
        """The trials of a study by number.

        How a job stands is read before its reports: once it is over they are complete.
        """
        return tuple(self._collected(uid, study, stored) for stored in self._store.trials(uid))

    def _collected(self, uid: int, study: StudySpec, stored: StoredTrial) -> Collected:
        number = stored.trial.number
        if stored.trial.state.is_final:
            trial = self._measuring(uid, study, stored.trial, stored.reports)
            return Collected(stored=stored, trial=trial, reports=stored.reports)
        try:
            new, mark, found = self._read(stored)
        except OSError as error:
            _LOG.warning("the reports of job %d cannot be read now: %s", stored.job_uid, error)
            trial = self._measuring(uid, study, stored.trial, stored.reports)
            return Collected(stored=stored, trial=trial, reports=stored.reports, was_read=False)
        reports = (*stored.reports, *new)
        return Collected(
            stored=stored,
            trial=self._measuring(uid, study, stored.trial, reports),
            reports=reports,
            news=TrialReports(number=number, mark=mark, reports=new) if new else None,
            events=_not_counted(study, stored, new),
            found=found,
        )

    def _measuring(
        self, uid: int, study: StudySpec, trial: TrialRecord, reports: tuple[Report, ...]
    ) -> TrialRecord:
        """The trial with its measurements; reports are only added: as many are the same ones."""
        count, known = self._known.get((uid, trial.number), (-1, ()))
        if count != len(reports):
            known = _curve(study, reports)
            self._known[uid, trial.number] = len(reports), known
        return replace(trial, measurements=known)

    def _read(self, stored: StoredTrial) -> tuple[tuple[Report, ...], tuple[int, int], str]:
        """What is new, the mark behind it, and what was found; attempt by attempt."""
        attempt, mark = stored.mark
        new: list[Report] = []
        found = ""
        for each in range(max(1, attempt), stored.job_attempt + 1):
            measured = self._measured(stored.job_uid, each, mark if each == attempt else 0)
            new += measured.reports
            attempt, mark, found = each, measured.mark, measured.found
        return tuple(new), (attempt, mark), found

    def _measured(self, uid: int, attempt: int, after: int) -> Measured:
        return self._engine.measured(AttemptKey(uid, attempt), after)


def _curve(study: StudySpec, reports: tuple[Report, ...]) -> tuple[Measurement, ...]:
    """What was measured; what a stopping rule has predicted is not."""
    return measurements(reports, [metric.metric_id for metric in study.metrics])


def _not_counted(
    study: StudySpec, stored: StoredTrial, new: tuple[Report, ...]
) -> tuple[NewEvent, ...]:
    """A sentence for the first value of a trial that is no number, not for each."""
    first = _first_odd(study, new)
    if first is None or _first_odd(study, stored.reports) is not None:
        return ()
    message = (
        f"Trial {stored.trial.number} reported {first.tag} = {first.value} at step {first.step}; "
        "only finite values are measurements."
    )
    return (NewEvent(kind="METRIC_IGNORED", message=message, data={"severity": "WARNING"}),)


def _first_odd(study: StudySpec, reports: tuple[Report, ...]) -> Report | None:
    ids = {metric.metric_id for metric in study.metrics}
    odd = (each for each in reports if each.tag in ids and not math.isfinite(each.value))
    return next(odd, None)
