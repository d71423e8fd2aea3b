"""The events of a job and the reason for its state, for the native API and the command line."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from trainshed.model.event_kinds import GOODPUT
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.reduction_report import ACHIEVED, PLANNED
from trainshed.model.restarts import Restarts
from trainshed.model.roles import Role
from trainshed.model.status import JobState
from trainshed.model.step_times import OUTCOME, STEPS
from trainshed.model.study import StudySpec
from trainshed.model.texts import format_duration
from trainshed.model.trials import TrialState, text_of
from trainshed.planning.prices import machines_of
from trainshed.planning.scaling.prediction import Interval
from trainshed.planning.study_end import StudyEnd, StudySoFar, study_end
from trainshed.service.costs.prices import PriceSource
from trainshed.service.jobs.job_lookup import find_job
from trainshed.service.jobs.story_answers import (
    JobEvent,
    JobEvents,
    JobExplanation,
    JobSummary,
    StudyForecast,
)
from trainshed.service.starts.placing import cpu_warnings
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.studies import TrialResult
from trainshed.tuning.fronts import describe_front
from trainshed.tuning.limits import describe_safety
from trainshed.tuning.ranking import best, objectives, pareto
from trainshed.wire.native_v1 import (
    Waiting,
    answer_of,
    prediction_score,
    waiting_for,
)
from trainshed.wire.times import rfc3339, timestamp

_HOUR_S: Final = 3600.0
#: Kinds of events whose newest message is part of an explanation.
_BESIDE: Final = (ACHIEVED, PLANNED, STEPS, OUTCOME, GOODPUT)
#: Why a queued job waits, until the scheduler has considered it.
NOT_YET = Explanation(
    reason=Reason.NOT_LOOKED_AT, message="The scheduler will look at the job in its next pass."
)
#: Why a job in the queue of its engine waits, until the engine reports a reason.
HANDED_OVER = Explanation(
    reason=Reason.ENGINE_QUEUE, message="It was handed over to the queue of its engine."
)


@dataclass(frozen=True, slots=True)
class Stories:
    """Reads the story of jobs from the store."""

    store: Store
    prices: PriceSource = field(default_factory=PriceSource)

    def find(self, project: str, job_id: str) -> JobRecord:
        """Return the job of an id in either dialect; for a training pipeline's id, its job.

        Raises Refusal.
        """
        return find_job(self.store, project, job_id).record

    def job(self, project: str, job_id: str) -> JobSummary:
        """Return a summary of a job: its state, its times, its replicas, and why it waits."""
        record = self.find(project, job_id)
        status = record.job.status
        score = self.store.outcome(record.uid)
        return JobSummary(
            name=record.name,
            display_name=record.job.spec.display_name or record.job.job_id,
            uid=str(record.uid),
            state=status.state,
            attempt=record.attempt,
            restarts=None if record.restarts == Restarts() else record.restarts,
            creator=record.creator,
            create_time=rfc3339(status.create_time),
            start_time=rfc3339(status.start_time),
            end_time=rfc3339(status.end_time),
            error=status.error.message if status.error else None,
            replicas=self.store.replicas(record.uid),
            waiting=self._waiting(record),
            outcome=prediction_score(score) if score else None,
            is_unscored=(not score and self.store.is_unscored(record.uid)) or None,
            ending=self._study_end(record),
        )

    def _study_end(self, record: JobRecord) -> StudyForecast | None:
        """Forecast the end of a study; None if it has ended, or for other jobs."""
        study = record.job.spec.study
        if study is None or record.job.status.state.is_final:
            return None
        results = self.store.trial_results(record.uid)
        return _ending(self, record, study_end(_summarize(study, results)))

    def explain(self, project: str, job_id: str) -> JobExplanation:
        """Explain the job's state: a sentence, the blocking jobs, and a change that would admit it.

        For a job with reducers, add their predicted or measured gain.  For a job that reported its
        steps, add the step times and compare them with the prediction.  For a job that requests
        GPUs but runs on the CPU, add a warning.
        """
        record = self.find(project, job_id)
        waiting = self._waiting(record)
        parts = self.store.last_messages(record.uid, _BESIDE)
        warnings = () if waiting else self._cpu_warnings(record)
        return JobExplanation(
            name=record.name,
            state=record.job.status.state,
            message=waiting.message if waiting else " ".join(self._explain(record)),
            waiting=waiting,
            warning=" ".join(warnings) or None,
            reduction=self._reduction(record, parts),
            steps=parts.get(STEPS),
            outcome=parts.get(OUTCOME),
            goodput=parts.get(GOODPUT),
        )

    def events(self, project: str, job_id: str, *, after: int = 0, limit: int = 1000) -> JobEvents:
        """Return the events of the job with a ``seq`` above ``after``, oldest first."""
        record = self.find(project, job_id)
        rows = self.store.events(record.uid, after=after, limit=limit)
        return JobEvents(
            events=[answer_of(JobEvent, row, time=timestamp(row.stamp_ns)) for row in rows]
        )

    def _explain(self, record: JobRecord) -> Iterator[str]:
        yield self.explain_state(record)
        if record.job.spec.is_study and record.job.status.state.is_final:
            yield from _describe_results(self, record, self.store.trial_results(record.uid))

    def explain_state(self, record: JobRecord) -> str:
        """Return the sentences that explain the state of a job that does not wait."""
        state = record.job.status.state
        if record.job.spec.is_study and not state.is_final and state is not JobState.CANCELLING:
            return study_sentence(self, record)
        return _sentence(record)

    def _reduction(self, record: JobRecord, parts: Mapping[str, str]) -> str | None:
        """Return the gain of its reducers: the newest that was measured, else the prediction."""
        if record.job.spec.group(Role.REDUCER) is None:
            return None
        return parts.get(ACHIEVED, parts.get(PLANNED))

    def _cpu_warnings(self, record: JobRecord) -> tuple[str, ...]:
        """Warn of replicas of the newest attempt that request GPUs but run, or ran, on the CPU."""
        demand = self.store.demand(record.uid)
        if not any(group.each.gpu_count for group in demand.groups):
            return ()
        rows = self.store.replicas(record.uid)
        fleet = {node.name: node for node in self.store.fleet()}
        nodes = {(Role(r.role), r.index): fleet[r.node] for r in rows if r.node in fleet}
        return cpu_warnings(demand, nodes)

    def _waiting(self, record: JobRecord) -> Waiting | None:
        explanation = record.job.explanation
        state = record.job.status.state
        if state.waits:
            explanation = explanation or (NOT_YET if state is JobState.QUEUED else HANDED_OVER)
        if explanation is None or state.is_final:
            return None
        return waiting_for(explanation, place_in_queue(self.store, record))


def place_in_queue(store: Store, record: JobRecord) -> int | None:
    """Return a job's position in the server's queue, or in its engine's queue, from 1.

    Return None if it is unknown.  Clients read 0 as "scheduled already"
    (docs/sources/vertex.md 7.1).
    """
    if record.job.status.state is not JobState.QUEUED:
        return record.job.explanation.position if record.job.explanation else None
    before = None if record.is_held else store.queue_position(record.uid)
    return None if before is None else before + 1


def _sentence(record: JobRecord) -> str:
    status = record.job.status
    error = status.error.message if status.error else ""
    if status.state is JobState.CANCELLING:
        noun = "trials" if record.job.spec.is_study else "replicas"
        return f"{error or 'It was cancelled.'} Its {noun} are being stopped."
    if error:
        return error
    return {
        JobState.PREPARING: "Its replicas have nodes and are being started.",
        JobState.RUNNING: f"Attempt {record.attempt} is running.",
        JobState.RESTARTING: f"Attempt {record.attempt} is being ended; the next one will begin.",
        JobState.SUCCEEDED: "It completed successfully.",
    }.get(status.state, status.state.name)


_WORDS: Final = {
    TrialState.SUCCEEDED: "succeeded",
    TrialState.INFEASIBLE: "infeasible",
    TrialState.STOPPING: "being stopped",
    TrialState.PAUSED: "paused",
}


def study_sentence(stories: Stories, record: JobRecord) -> str:
    """Return the sentences that explain the state of a tuning job that has not ended."""
    study = _study_of(record)
    results = stories.store.trial_results(record.uid)
    if not results:
        return "Its first trials are about to be made."
    progress = describe_progress(stories, record, study, results)
    return " ".join((*_describe_results(stories, record, results), *progress))


def _study_of(record: JobRecord) -> StudySpec:
    study = record.job.spec.study
    assert study is not None, f"job {record.uid} has no study"  # noqa: S101
    return study


def _describe_results(
    stories: Stories, record: JobRecord, results: Sequence[TrialResult]
) -> Iterator[str]:
    """Yield how many trials a study has, and the best one or the front; nothing without trials."""
    if results:
        yield _describe_counts(_study_of(record), results)
        yield from _describe_leader(stories.store, record, _study_of(record), results)


def describe_progress(
    stories: Stories, record: JobRecord, study: StudySpec, results: Sequence[TrialResult]
) -> Iterator[str]:
    """Yield why the first waiting trial of an open study waits, and when the study will end."""
    yield from _first_waiting(stories.store, results)
    yield from _forecast_end(stories, record, study, results)


def _describe_counts(study: StudySpec, results: Sequence[TrialResult]) -> str:
    """Return for example ``7 of 24 trials were made: 2 running, 5 succeeded.``."""
    counts = Counter(map(_describe_trial_state, results))
    parts = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(results)} of {study.trial_count_max} trials were made: {parts}."


def _describe_trial_state(result: TrialResult) -> str:
    active = "running" if result.job_state is JobState.RUNNING else "waiting or starting"
    return _WORDS.get(result.trial.state, active)


def _describe_leader(
    store: Store, record: JobRecord, study: StudySpec, results: Sequence[TrialResult]
) -> Iterator[str]:
    trials = [result.trial for result in results]
    if len(objectives(study)) > 1 and (front := pareto(study, trials)):
        yield f"{describe_front([trial.number for trial in front])}."
    if safety := describe_safety(study, trials):
        yield f"{safety}."
    leader = best(study, trials)
    if leader is None or leader.final is None:
        return
    values = ", ".join(f"{name} {value:.6g}" for name, value in leader.final.metrics)
    whole = store.trials_after(record.uid, after=leader.number - 1, limit=1)
    pairs = [pair for stored in whole for pair in stored.trial.values]
    parameters = ", ".join(f"{name}={text_of(value)}" for name, value in pairs)
    best_so_far = "best" if record.job.status.state.is_final else "best so far"
    yield f"The {best_so_far} is trial {leader.number} with {values} ({parameters})."


def _first_waiting(store: Store, results: Sequence[TrialResult]) -> Iterator[str]:
    queued = (
        result
        for result in results
        if result.job_state.waits and result.trial.state is not TrialState.PAUSED
    )
    first = next(queued, None)
    job = store.job_by_uid(first.job_uid) if first else None
    if first is None or job is None or job.job.explanation is None:
        return
    yield f"Trial {first.trial.number} waits: {job.job.explanation.message}"


def _forecast_end(
    stories: Stories, record: JobRecord, study: StudySpec, results: Sequence[TrialResult]
) -> Iterator[str]:
    """Say when the study will end, and what its machines will cost."""
    ending = _ending(stories, record, study_end(_summarize(study, results)))
    if ending is None:
        return
    low, point, high = map(format_duration, ending.left_s)
    text = f"It will be over in about {point} ({low} to {high})"
    if ending.cost:
        low_cost, cost, high_cost = ending.cost
        ends = f"{low_cost:,.2f} to {high_cost:,.2f}"
        text += f", and will have cost about {cost:,.2f} {ending.currency} ({ends})"
    yield f"{text}."


def _ending(stories: Stories, record: JobRecord, end: StudyEnd | None) -> StudyForecast | None:
    """Return the forecast; its cost is None if a price is unknown."""
    if end is None:
        return None
    spec = stories.store.expanded(record.uid)
    price = stories.prices.list_for_job(spec).of(machines_of(spec))
    return StudyForecast(
        left_s=_ends(end.left_s),
        cost=_ends(end.machine_s.times(price.amount / _HOUR_S)) if price else None,
        currency=price.currency if price else None,
    )


def _ends(value: Interval) -> list[float]:
    return [value.low, value.point, value.high]


def _summarize(study: StudySpec, results: Sequence[TrialResult]) -> StudySoFar:
    now = datetime.now(tz=UTC)
    times = [
        (result.job_state.is_final, ((result.job_end_time or now) - result.job_start_time))
        for result in results
        if result.job_start_time and result.trial.state is not TrialState.PAUSED
    ]
    running = tuple(max(0.0, took.total_seconds()) for is_over, took in times if not is_over)
    return StudySoFar(
        lasted_s=tuple(took.total_seconds() for is_over, took in times if is_over),
        running_s=running,
        trials_max=study.trial_count_max,
        parallel=study.trial_count_parallel or len(running),
    )
