"""Advances tuning studies: each pass reads a study's trials, decides, and writes one step.

``tuning.advance`` decides.  New trials and their jobs are committed with the study's own state.
The jobs of trials that end, pause or go on follow afterwards (``trial_jobs``), in every pass until
they have, so a crash in between loses nothing.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from trainshed.controller.leases import Leases
from trainshed.controller.listener import ControllerListener
from trainshed.controller.steps import log_with_story
from trainshed.controller.trial_checkpoints import TrialCheckpoints
from trainshed.controller.trial_jobs import JobsOfTrials
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey, Report
from trainshed.model.status import JobError, JobState
from trainshed.model.study import StudySpec
from trainshed.model.study_start import StudyStart
from trainshed.model.trials import (
    SUGGEST_S,
    TRIAL_CREATED,
    Measurement,
    TrialRecord,
)
from trainshed.observability.log_fields import log_fields
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord, NewJob
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.studies import (
    NewTrial,
    OpenStudy,
    StoredTrial,
    StudyStep,
    TrialReports,
)
from trainshed.tuning.known_results import trial_of
from trainshed.tuning.measuring import measurements
from trainshed.tuning.study_step import Advance, StudyContext, StudyEvent, TrialSnapshot

_LOG = logging.getLogger(__name__)

#: google.rpc.Code of a failed study; its trials have the causes.
_ABORTED: Final = 10
#: The most characters of an exception in the study's story.
_TROUBLE_CHARS_MAX: Final = 500

#: Makes a trial's job from (the study's job, the trial).
MakeJob = Callable[[JobRecord, TrialRecord], NewJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """One trial with its job's state and its measurements."""

    stored: StoredTrial
    trial: TrialRecord
    """The trial, with its measurements."""
    reports: tuple[Report, ...] = ()
    news: TrialReports | None = None
    """Measurements that are not stored yet."""
    events: tuple[NewEvent, ...] = ()
    search_note: str = ""
    was_read: bool = True
    """False while the engine cannot return the reports: the study then decides nothing."""


class Reports:
    """Collects the reports of trials; caches the measurements until more reports arrive."""

    def __init__(self, store: Store, engines: Engines) -> None:
        self._store = store
        self._engines = engines
        self._curves: dict[tuple[int, int], tuple[int, tuple[Measurement, ...]]] = {}
        """By study and trial: the number of reports, and their measurements."""

    def keep(self, uids: Collection[int]) -> None:
        """Forget the measurements of all other studies."""
        self._curves = {key: entry for key, entry in self._curves.items() if key[0] in uids}

    def collect(self, uid: int, study: StudySpec) -> tuple[Collected, ...]:
        """Return the trials of a study, sorted by number.

        The state of a job is read before its reports, so the reports of an ended job are complete.
        """
        return tuple(self._collected(uid, study, stored) for stored in self._store.trials(uid))

    def _collected(self, uid: int, study: StudySpec, stored: StoredTrial) -> Collected:
        number = stored.trial.number
        if stored.trial.state.is_final:
            trial = self._with_measurements(uid, study, stored.trial, stored.reports)
            return Collected(stored=stored, trial=trial, reports=stored.reports)
        try:
            new, mark, search_note = self._read(stored)
        except OSError as error:
            fields = {"uid": stored.job_uid, "trial": number}
            text = "cannot read the reports of job %d: %s"
            _LOG.warning(text, stored.job_uid, error, extra={"fields": fields})
            trial = self._with_measurements(uid, study, stored.trial, stored.reports)
            return Collected(stored=stored, trial=trial, reports=stored.reports, was_read=False)
        reports = (*stored.reports, *new)
        return Collected(
            stored=stored,
            trial=self._with_measurements(uid, study, stored.trial, reports),
            reports=reports,
            news=TrialReports(number=number, mark=mark, reports=new) if new else None,
            events=_not_counted(study, stored, new),
            search_note=search_note,
        )

    def _with_measurements(
        self, uid: int, study: StudySpec, trial: TrialRecord, reports: tuple[Report, ...]
    ) -> TrialRecord:
        """Return the trial with its measurements; an equal count means the same reports."""
        count, curve = self._curves.get((uid, trial.number), (-1, ()))
        if count != len(reports):
            curve = _curve(study, reports)
            self._curves[uid, trial.number] = len(reports), curve
        return replace(trial, measurements=curve)

    def _read(self, stored: StoredTrial) -> tuple[tuple[Report, ...], tuple[int, int], str]:
        """Return the new reports of all attempts, the mark after them, and the last search note."""
        attempt, mark = stored.mark
        new: list[Report] = []
        search_note = ""
        for number in range(max(1, attempt), stored.job_attempt + 1):
            key = AttemptKey(stored.job_uid, number)
            measured = self._engines.get_by_attempt(key).measured(
                key, mark if number == attempt else 0
            )
            new += measured.reports
            attempt, mark, search_note = number, measured.mark, measured.found
        return tuple(new), (attempt, mark), search_note


@dataclass(frozen=True, slots=True)
class _StudyView:
    record: JobRecord
    collected: tuple[Collected, ...]
    context: StudyContext
    fingerprint: int
    """Changes whenever a report arrives or a trial ends."""


class Studies:
    """Advances studies while this server leads."""

    def __init__(  # noqa: PLR0913 - the parts of the loop, passed by name
        self,
        store: Store,
        engines: Engines,
        leases: Leases,
        *,
        make_job: MakeJob,
        listener: ControllerListener,
        grace_s: float,
    ) -> None:
        """``listener`` gets the durations of decisions that begin trials.

        ``grace_s``: the notice of replicas whose trial is paused, in seconds.
        """
        self._store = store
        self._listener = listener
        self._leases = leases
        self._make_job = make_job
        self._reports = Reports(store, engines)
        self._checkpoints = TrialCheckpoints(engines)
        self._jobs = JobsOfTrials(store, leases, grace_s)
        self._prior: dict[int, tuple[TrialRecord, ...]] = {}
        self._starts: dict[int, StudyStart] = {}
        self._fingerprints: dict[int, int] = {}
        self._troubles: dict[int, str] = {}

    def once(self) -> int:
        """Do one pass over all studies; return how many changed."""
        if not self._leases.leading:
            return 0
        studies = self._store.open_studies()
        self._keep({study.uid for study in studies})
        return sum(self._advance_safely(study) for study in studies)

    def _advance_safely(self, study: OpenStudy) -> bool:
        """Advance one study; report a failure, so that other studies continue."""
        try:
            return self._advance(study)
        except StoreFault:
            raise
        except Exception as error:  # noqa: BLE001 - reported; the next pass tries again
            self._report(study, f"{type(error).__name__}: {error}"[:_TROUBLE_CHARS_MAX])
            return False

    def _report(self, study: OpenStudy, trouble: str) -> None:
        """Report a failure once: the next pass, a second later, fails the same way."""
        if self._troubles.get(study.uid) == trouble:
            return
        self._troubles[study.uid] = trouble
        log_with_story(self._store, study.uid, "cannot advance the study of")
        message = f"The study cannot continue: {trouble}; the server tries again"
        event = NewEvent(kind="STUDY_HELD_UP", message=message, data={"severity": "ERROR"})
        self._store.apply_study(
            StudyStep(
                uid=study.uid,
                version=study.version,
                state=study.state,
                server=self._leases.name,
                events=(event,),
            )
        )

    def _keep(self, uids: Collection[int]) -> None:
        self._reports.keep(uids)
        self._checkpoints.keep(uids)
        for table in (self._prior, self._starts, self._fingerprints, self._troubles):
            for uid in table.keys() - uids:
                del table[uid]

    def _advance(self, study: OpenStudy) -> bool:
        # slow import (numpy): only servers that tune need it
        from trainshed.tuning.advance import advance  # noqa: PLC0415

        record = self._store.job_by_uid(study.uid)
        if record is None or record.version != study.version or record.job.spec.study is None:
            return False
        with log_fields(project=record.job.project, study=record.job.job_id):
            collected = self._reports.collect(study.uid, record.job.spec.study)
        view = self._view_study(record, collected)
        state = record.job.status.state
        can_pause = partial(self._checkpoints.can_pause, record)
        snapshots = [
            replace(_snapshot(entry), can_pause=can_pause(entry.stored)) for entry in collected
        ]
        began_s = time.monotonic()
        decision = advance(record.job.spec.study, state, snapshots, view.context)
        if decision.new:
            suggest_s = time.monotonic() - began_s
            self._listener.suggested(suggest_s)
            decision = replace(decision, events=_time_search(decision.events, suggest_s))
        step = self._step(view, decision)
        applied = step is not None and self._store.apply_study(step)
        if step is not None and not applied:
            return False
        self._fingerprints[record.uid] = view.fingerprint
        changed = {trial.number: trial for trial in decision.changed}
        followed = [
            (entry.stored, changed.get(entry.trial.number, entry.trial)) for entry in collected
        ]
        return self._jobs.follow(record.uid, followed) > 0 or applied

    def _view_study(self, record: JobRecord, collected: tuple[Collected, ...]) -> _StudyView:
        fingerprint = _compute_fingerprint(collected)
        context = self._context(
            record, collected, has_news=fingerprint != self._fingerprints.get(record.uid)
        )
        return _StudyView(record, collected, context, fingerprint)

    def _context(
        self, record: JobRecord, collected: Sequence[Collected], *, has_news: bool
    ) -> StudyContext:
        starts = [entry.stored.job_start_time for entry in collected if entry.stored.job_start_time]
        began = record.job.status.start_time or min(starts, default=None)
        return StudyContext(
            now=self._store.now(),
            began=began,
            seed=record.uid,
            prior=self._prior_of(record),
            first_points=self._start_of(record).points,
            has_news=has_news,
        )

    def _prior_of(self, record: JobRecord) -> tuple[TrialRecord, ...]:
        """Return the trials of the study that this one continues, and the known results.

        They no longer change.
        """
        if record.uid not in self._prior:
            results = map(trial_of, self._start_of(record).results)
            self._prior[record.uid] = (*self._resumed_trials(record), *results)
        return self._prior[record.uid]

    def _start_of(self, record: JobRecord) -> StudyStart:
        if record.uid not in self._starts:
            self._starts[record.uid] = self._store.study_start(record.uid)
        return self._starts[record.uid]

    def _resumed_trials(self, record: JobRecord) -> tuple[TrialRecord, ...]:
        study = record.job.spec.study
        uid = study.resume_previous_uid if study else None
        if study is None or uid is None:
            return ()
        earlier = self._store.job_by_uid(uid)
        prior = self._prior_of(earlier) if earlier else ()
        return (*prior, *(entry.trial for entry in self._reports.collect(uid, study)))

    def _step(self, view: _StudyView, decision: Advance) -> StudyStep | None:
        """Return the step to write; None if nothing has changed."""
        record, before = view.record, view.record.job.status
        reports = tuple(entry.news for entry in view.collected if entry.news is not None)
        ignored = [event for entry in view.collected for event in entry.events]
        if not (reports or decision.changed or decision.new or decision.state is not before.state):
            return None
        return StudyStep(
            uid=record.uid,
            version=record.version,
            state=decision.state,
            server=self._leases.name,
            error=_error(decision, before.error),
            start_time=None if before.start_time else view.context.began,
            new_trials=tuple(
                NewTrial(trial=trial, job=self._make_job(record, trial)) for trial in decision.new
            ),
            trials=tuple(replace(trial, measurements=()) for trial in decision.changed),
            reports=reports,
            events=(
                *ignored,
                *(
                    NewEvent(kind=event.kind, message=event.message, data=event.data)
                    for event in decision.events
                ),
            ),
        )


def _time_search(events: Sequence[StudyEvent], seconds: float) -> tuple[StudyEvent, ...]:
    """Add to the first new trial's event how long the search for the new points took."""
    first = next(event for event in events if event.kind == TRIAL_CREATED)
    timed = first._replace(data={**first.data, SUGGEST_S: round(seconds, 6)})
    return tuple(timed if event is first else event for event in events)


def _compute_fingerprint(collected: Sequence[Collected]) -> int:
    """Return a value that changes on a report, an end or a pause, to limit the decisions at rungs.

    It is kept in memory only, so the first pass after a start always decides.
    """
    return hash(
        tuple(
            (len(entry.reports), entry.stored.job_state, entry.stored.job_is_held)
            for entry in collected
        )
    )


def _snapshot(collected: Collected) -> TrialSnapshot:
    stored = collected.stored
    if not collected.was_read:  # a trial with unread reports has not ended
        return TrialSnapshot(
            trial=collected.trial,
            job_state=JobState.RUNNING,
            job_is_held=stored.job_is_held,
            reports=collected.reports,
        )
    return TrialSnapshot(
        trial=collected.trial,
        job_state=stored.job_state,
        job_is_held=stored.job_is_held,
        job_message=stored.job_error.message if stored.job_error else "",
        job_start=stored.job_start_time,
        job_end=stored.job_end_time,
        reports=collected.reports,
        search_note=collected.search_note,
    )


def _error(decision: Advance, error: JobError | None) -> JobError | None:
    if decision.error is not None:
        return JobError(code=_ABORTED, message=decision.error)
    return error if decision.state is JobState.CANCELLED else None


def _curve(study: StudySpec, reports: tuple[Report, ...]) -> tuple[Measurement, ...]:
    """Return the measured values, without the predictions of a stopping rule."""
    return measurements(reports, [metric.metric_id for metric in study.metrics])


def _not_counted(
    study: StudySpec, stored: StoredTrial, new: tuple[Report, ...]
) -> tuple[NewEvent, ...]:
    """Return an event for the first value of a trial that is not finite."""
    first = _find_not_finite(study, new)
    if first is None or _find_not_finite(study, stored.reports) is not None:
        return ()
    message = (
        f"Trial {stored.trial.number} reported {first.tag} = {first.value} at step {first.step}; "
        "only finite values are measurements."
    )
    return (NewEvent(kind="METRIC_IGNORED", message=message, data={"severity": "WARNING"}),)


def _find_not_finite(study: StudySpec, reports: tuple[Report, ...]) -> Report | None:
    ids = {metric.metric_id for metric in study.metrics}
    not_finite = (
        report for report in reports if report.tag in ids and not math.isfinite(report.value)
    )
    return next(not_finite, None)
