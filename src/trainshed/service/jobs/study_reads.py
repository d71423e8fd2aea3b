"""Reads studies for the native API: their description, trials, curves and importances."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final

from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.model.study import AshaRule, Metric, ParameterSpec, StudySpec, parameters_of
from trainshed.model.study_priors import describe_prior
from trainshed.model.trials import (
    TRIAL_PAUSED,
    TRIAL_STOPPED_EARLY,
    EarlyStop,
    TrialOrigin,
    TrialRecord,
    TrialState,
    Values,
)
from trainshed.service.jobs.rung_curves import RungCurves
from trainshed.service.jobs.start_story import read_start_story
from trainshed.service.jobs.story import Stories, describe_progress
from trainshed.service.jobs.story_answers import Trials
from trainshed.service.jobs.studies import trial_view
from trainshed.service.jobs.study_answers import (
    FrontGrowth,
    Importances,
    MetricCurve,
    MetricCurves,
    ParameterImportance,
    StudyDescription,
    StudyMetric,
    StudyParameter,
    StudyRung,
    TrialCounts,
)
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.studies import StoredTrial, TrialResult
from trainshed.tuning.curves import TrialCurve, curves
from trainshed.tuning.first_points import origin_of, position_of
from trainshed.tuning.fronts import front_history
from trainshed.tuning.limits import broken_limits, count_safe, describe_safety
from trainshed.tuning.ranking import objectives, pareto, upward
from trainshed.tuning.space import Space, space_of
from trainshed.tuning.thinning import thin_out
from trainshed.wire.native_v1 import FirstPointPlace, TrialRemarks, answer_of, trial_summary

#: The most trials of a Pareto front in a description.
LEADERS_MAX: Final = 1000
#: The most trials of a study whose front is followed from the first trial on: it takes 0.2 s.
FRONT_HISTORY_TRIALS_MAX: Final = 10_000
#: The most early stops of a study whose evidence is read, the newest ones.
STOPS_MAX: Final = 100_000
#: The number of trials below which importances are rough guesses.
RELIABLE_TRIALS: Final = 50


@dataclass(frozen=True, slots=True)
class StudyReader:
    """Reads studies; every method raises Refusal for a job that does not exist."""

    stories: Stories
    rung_curves: RungCurves = field(default_factory=RungCurves)

    def describe(self, project: str, job_id: str) -> StudyDescription:
        """Return what a tuning job searches and how far it is.  Raises Refusal for other jobs."""
        record, study = self._find(project, job_id)
        results = self.stories.store.trial_results(record.uid)
        trials = [result.trial for result in results]
        front = pareto(study, trials)
        is_single = len(objectives(study)) == 1
        known_results, first_points = self.stories.store.count_start(record.uid)
        story = read_start_story(self.stories.store, record.uid)
        return StudyDescription(
            name=record.name,
            display_name=record.job.spec.display_name or record.job.job_id,
            state=record.job.status.state,
            message=self._message(record, study, results),
            algorithm=study.algorithm,
            stopping=study.stopping.rule if study.stopping else None,
            rungs=self._rungs(record, study),
            rungs_by_time=isinstance(study.stopping, AshaRule) and study.stopping.by_time,
            metrics=[_describe_metric(metric) for metric in study.metrics],
            parameters=list(_describe_parameters(study.parameters)),
            trial_count_max=study.trial_count_max,
            trial_count_parallel=study.trial_count_parallel,
            counts=_count(study, results),
            known_results=known_results,
            known_sources=story.sources,
            first_points=first_points,
            priors=", ".join(map(describe_prior, study.priors)),
            leaders=[trial.number for trial in front[: 1 if is_single else LEADERS_MAX]],
            front_size=None if is_single else len(front),
            front_history=_follow_front(study, trials),
            safety=describe_safety(study, trials),
        )

    def _rungs(self, record: JobRecord, study: StudySpec) -> Sequence[StudyRung] | None:
        """Return the rungs of the study now; None if its rule has none."""
        if not isinstance(study.stopping, AshaRule):
            return None
        rungs = self.rung_curves.rungs(record.uid, study, self.stories.store.trials(record.uid))
        return [StudyRung(at=rung.at, trials=len(rung.values), bar=rung.bar) for rung in rungs]

    def _message(self, record: JobRecord, study: StudySpec, results: Sequence[TrialResult]) -> str:
        """Return what the counts and the best trial do not say."""
        state = record.job.status.state
        if not results or state.is_final or state is JobState.CANCELLING:
            return self.stories.explain_state(record)
        return " ".join(describe_progress(self.stories, record, study, results))

    def trials(self, project: str, job_id: str, *, after: int, limit: int) -> Trials:
        """Return at most ``limit`` trials with numbers above ``after``; none for other jobs."""
        record = self.stories.find(project, job_id)
        study = record.job.spec.study
        if study is None or not record.job.spec.is_study:
            return Trials(trials=[])
        stored = self.stories.store.trials_after(record.uid, after=after, limit=limit)
        stops = self._early_stops(record, stored)
        origins = self._origins(record, study) if stored else None
        trials = [
            trial_summary(
                trial_view(record, study, one),
                one.job_uid,
                TrialRemarks(
                    early_stop=stops.get(one.trial.number),
                    origin=origins.origin_of(one.trial) if origins else TrialOrigin.SEARCH,
                    first_point=origins.place_of(one.trial) if origins else None,
                    broken_limits=broken_limits(study, one.trial),
                ),
            )
            for one in stored
        ]
        return Trials(trials=trials)

    def _origins(self, record: JobRecord, study: StudySpec) -> "_Origins | None":
        """Return what tells where points are from; None if the search chose all of them."""
        store = self.stories.store
        points = store.first_points(record.uid)
        if not points and all(one.default is None for one in parameters_of(study)):
            return None
        return _Origins(
            space=space_of(study),
            points=points,
            sources=read_start_story(store, record.uid).point_sources if points else (),
            first_number=store.trials_after(record.uid, after=0, limit=1)[0].trial.number,
        )

    def curves(self, project: str, job_id: str, call: "CurveCall") -> MetricCurves:
        """Return the curves of a tuning job's newest trials.  Raises Refusal for other jobs."""
        record, study = self._find(project, job_id)
        metric = _find_metric(study, call.metric)
        stored = self.stories.store.newest_trials(record.uid, limit=call.trial_count)
        trials = [trial_view(record, study, one).trial for one in stored]
        return MetricCurves(
            metric=metric.metric_id,
            by_time=call.by_time,
            trials=len(trials),
            curves=[
                _draw(metric, curve, call.point_count)
                for curve in curves(metric, trials, by_time=call.by_time)
            ],
        )

    def importances(self, project: str, job_id: str, metric_id: str | None) -> Importances:
        """Return the importances of a tuning job's parameters.  Raises Refusal for other jobs."""
        # slow import (numpy, optuna): only servers that tune need it
        from trainshed.tuning import importances as tuning  # noqa: PLC0415

        record, study = self._find(project, job_id)
        metric = _find_metric(study, metric_id)
        limit = tuning.IMPORTANCE_TRIALS_MAX
        stored = self.stories.store.newest_trials(record.uid, limit=limit, with_reports=False)
        trials = tuning.valued_trials(metric, [one.trial for one in stored])
        shares = tuning.importances(study, metric, trials)
        return Importances(
            metric=metric.metric_id,
            trials=len(trials),
            message=_judge_importances(len(trials), tuning.IMPORTANCE_TRIALS_MIN, shares),
            importances=[
                ParameterImportance(parameter=name, share=share) for name, share in shares.items()
            ],
        )

    def _find(self, project: str, job_id: str) -> tuple[JobRecord, StudySpec]:
        """Return a tuning job and its study.  Raises Refusal for other jobs."""
        record = self.stories.find(project, job_id)
        study = record.job.spec.study
        if study is None or not record.job.spec.is_study:
            raise Refusal(Code.NOT_FOUND, f"job {job_id} is not a tuning job; it has no study")
        return record, study

    def _early_stops(
        self, record: JobRecord, stored: Sequence[StoredTrial]
    ) -> Mapping[int, EarlyStop]:
        """Return the evidence against the trials that a rule stopped or paused, by number."""
        wanted = {one.trial.number for one in stored if _is_stopped(one.trial)}
        if not wanted:
            return {}
        stops: dict[int, EarlyStop] = {}
        for kind in (TRIAL_PAUSED, TRIAL_STOPPED_EARLY):
            events = self.stories.store.events_of_kind(record.uid, kind, limit=STOPS_MAX)
            stops |= _read_stops(event.data for event in reversed(events))
        return {number: stop for number, stop in stops.items() if number in wanted}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origins:
    """Tells why a trial has its values."""

    space: Space
    points: Sequence[Values]
    sources: Sequence[str]
    first_number: int
    """The number of the study's first trial."""

    def origin_of(self, trial: TrialRecord) -> TrialOrigin:
        is_first = trial.number == self.first_number
        return origin_of(self.space, trial.values, self.points, is_first=is_first)

    def place_of(self, trial: TrialRecord) -> FirstPointPlace | None:
        """Return where the point of an enqueued trial is from; None for other trials."""
        position = position_of(trial.values, self.points)
        if position is None:
            return None
        source = self.sources[position - 1] if position <= len(self.sources) else ""
        return FirstPointPlace(position=position, source=source or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveCall:
    """The curves that a caller asks for; without ``metric`` those of the first objective."""

    metric: str | None = None
    by_time: bool = False
    trial_count: int
    """The number of the newest trials whose curves are read."""
    point_count: int
    """The most points of a curve, at least 3."""


def _find_metric(study: StudySpec, metric_id: str | None) -> Metric:
    """Return a metric by its id; the first objective for None.  Raises Refusal."""
    if metric_id is None:
        return (*objectives(study), *study.metrics)[0]
    for metric in study.metrics:
        if metric.metric_id == metric_id:
            return metric
    names = ", ".join(metric.metric_id for metric in study.metrics)
    raise Refusal(Code.INVALID_ARGUMENT, f"metric must be one of {names}, got {metric_id!r}")


def _draw(metric: Metric, curve: TrialCurve, point_count: int) -> MetricCurve:
    """Thin a curve out, and give its values their own sign back."""
    at, values = thin_out(curve, point_count)
    signed = [upward(metric.goal, value) for value in values]
    return MetricCurve(trial=curve.number, at=at, values=signed)


def _describe_metric(metric: Metric) -> StudyMetric:
    limit = metric.safety
    return StudyMetric(
        id=metric.metric_id,
        goal=metric.goal,
        threshold=limit.threshold if limit else None,
        safe_fraction_min=(limit.fraction_min or None) if limit else None,
    )


def _follow_front(study: StudySpec, trials: Sequence[TrialRecord]) -> list[FrontGrowth]:
    if len(trials) > FRONT_HISTORY_TRIALS_MAX:
        return []
    return [answer_of(FrontGrowth, step) for step in front_history(study, trials)]


def _describe_parameters(
    parameters: Iterable[ParameterSpec], **parent: Any
) -> Iterator[StudyParameter]:
    """Yield parameters at every depth, children after their parent."""
    for spec in parameters:
        yield StudyParameter(
            id=spec.parameter_id,
            kind=spec.kind,
            scale=spec.scale,
            bounds=spec.bounds,
            values=spec.values or None,
            **parent,
        )
        for condition in spec.conditions:
            yield from _describe_parameters(
                [condition.parameter],
                parent=spec.parameter_id,
                parent_values=condition.parent_values,
            )


def _count(study: StudySpec, results: Sequence[TrialResult]) -> TrialCounts:
    states = Counter(result.trial.state for result in results)
    going_on = (TrialState.REQUESTED, TrialState.ACTIVE, TrialState.STOPPING)
    unfinished = [result for result in results if result.trial.state in going_on]
    safe_count = count_safe(study, [result.trial for result in results])
    running = sum(result.job_state is JobState.RUNNING for result in unfinished)
    return TrialCounts(
        made=len(results),
        running=running,
        waiting=len(unfinished) - running,
        paused=states[TrialState.PAUSED],
        succeeded=states[TrialState.SUCCEEDED],
        infeasible=states[TrialState.INFEASIBLE],
        stopped_early=sum(result.trial.stopped_early for result in results),
        safe=safe_count.safe if safe_count else None,
    )


def _is_stopped(trial: TrialRecord) -> bool:
    return trial.stopped_early or trial.state is TrialState.PAUSED


def _read_stops(contents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, EarlyStop]]:
    """Read the events' data; those of an older version of the server have none."""
    names = [field.name for field in fields(EarlyStop)]
    required = [field.name for field in fields(EarlyStop) if field.default is MISSING]
    for data in contents:
        if all(name in data for name in ("trial", *required)):
            values = {name: data[name] for name in names if name in data}
            yield int(data["trial"]), EarlyStop(**values)


def _judge_importances(trials: int, trials_min: int, shares: Mapping[str, float]) -> str:
    if trials < trials_min:
        return f"Importances need {trials_min} finished trials; there are {trials}."
    if not shares:
        return "No trial has a parameter."
    about = "How much a parameter decides whether a trial is among the best tenth (PED-ANOVA), of"
    rough = "; below 50 it is a rough guess" if trials < RELIABLE_TRIALS else ""
    return f"{about} {trials} finished trials{rough}."
