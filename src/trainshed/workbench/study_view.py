"""Reads a tuning job from a server's document of either dialect, for `watch` and `report`.

The documents are those of Google's APIs, so the command line can read them from any server with
these APIs (docs/sources/vertex.md 7.1 and 8).  If the server also has the native API, the trials
get more data from it.  A field that the document lacks stays empty, and a value that is not a
finite number is left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.model.study import Goal, Metric, StudySpec, parameters_of
from trainshed.model.study_start import describe_source
from trainshed.model.trials import TrialOrigin, TrialRecord, TrialState, format_short, text_of
from trainshed.tuning.limits import broken_limits
from trainshed.tuning.ranking import best, final_value, is_safe, objectives, pareto
from trainshed.wire.aiplatform_v1 import trials as vertex
from trainshed.wire.ml_v1 import trials as ml
from trainshed.wire.native_v1 import completed, describe_place, latest
from trainshed.wire.times import time_of

Json = Mapping[str, Any]

_PREFIX: Final = "JOB_STATE_"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyView:
    """A tuning job: its state, its search space, and its trials in the order of their numbers.

    ``name`` is its job id or resource name, ``title`` its display name or else ``name``; ``state``
    has no prefix ``JOB_STATE_``.
    """

    name: str
    title: str
    state: str
    error: str
    algorithm: str
    """The document's name of the algorithm; empty if it has none."""
    study: StudySpec
    """The parameters and the metrics, without settings of the algorithm and of early stopping."""
    trials: tuple[TrialRecord, ...]
    create_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    origins: Mapping[int, str] = field(default_factory=dict)
    """By trial why it has its values, such as ``enqueued (point 2)``; absent: by the search."""
    stop_rungs: Mapping[int, int] = field(default_factory=dict)
    """By trial the number of the rung, from 1, at which successive halving stopped or paused
    it."""
    rungs: tuple[float, ...] = ()
    """The steps of the rungs of successive halving."""
    known_result_count: int = 0
    """The number of results from elsewhere that the search uses."""
    known_sources: tuple[str, ...] = ()
    """The sources of known results, such as ``9 of results.csv (2 ignored)``."""
    priors: str = ""
    """Where the caller expects the best values, such as ``lr near 1e-3``."""

    @property
    def objectives(self) -> tuple[Metric, ...]:
        """The metrics that the study optimizes, without those that only have a limit."""
        return tuple(objectives(self.study))

    @property
    def leaders(self) -> tuple[TrialRecord, ...]:
        """The best trial; with several objectives the Pareto front."""
        if len(self.objectives) > 1:
            return tuple(pareto(self.study, self.trials))
        leader = best(self.study, self.trials)
        return (leader,) if leader else ()

    def count(self, *states: TrialState) -> int:
        """Return how many trials are in one of the states."""
        return sum(trial.state in states for trial in self.trials)


def describe_start(view: StudyView) -> Iterator[str]:
    """Yield which known results the search uses, and where the best values are expected."""
    if view.known_sources:
        yield f"known results used: {', '.join(view.known_sources)}"
    elif view.known_result_count:
        yield f"known results used: {view.known_result_count}"
    if view.priors:
        yield f"expected: {view.priors}"


def is_study(document: Json) -> bool:
    """Return whether a job's document is that of a tuning job."""
    return "studySpec" in document or "hyperparameters" in document.get("trainingInput", {})


def read_view(document: Json) -> StudyView:
    """Read the document of a tuning job.  Raises UsageFault for any other document."""
    if not is_study(document):
        name = document.get("jobId") or document.get("name", "this")
        raise UsageFault(f"{name} is not a tuning job: it has neither a study nor hyperparameters")
    read = vertex.read_study if "studySpec" in document else ml.read_study
    try:
        study, trials = read(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageFault(f"cannot read the server's tuning job: {error!r}") from error
    return StudyView(
        name=str(document.get("jobId") or document.get("name", "")),
        title=str(document.get("displayName") or document.get("jobId") or document.get("name", "")),
        state=str(document.get("state", "")).removeprefix(_PREFIX),
        error=str(document.get("errorMessage") or document.get("error", {}).get("message", "")),
        algorithm=str(_read_search(document).get("algorithm", "")),
        study=study,
        trials=tuple(sorted(trials, key=lambda trial: trial.number)),
        create_time=time_of(document.get("createTime")),
        start_time=time_of(document.get("startTime")),
        end_time=time_of(document.get("endTime")),
    )


def add_native_trials(view: StudyView, native: Json) -> StudyView:
    """Add the native API's data about the trials.  Raises UsageFault for a malformed document."""
    try:
        by_number = {int(trial["number"]): trial for trial in native.get("trials", ())}
        trials = tuple(completed(trial, by_number.get(trial.number, {})) for trial in view.trials)
        stops = {number: trial.get("earlyStop") or {} for number, trial in by_number.items()}
        stop_rungs = {number: int(s["rung"]) for number, s in stops.items() if s.get("rung")}
        origins = dict(_describe_origins(by_number))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageFault(f"cannot read the server's list of trials: {error!r}") from error
    return replace(view, trials=trials, origins=origins, stop_rungs=stop_rungs)


def _describe_origins(by_number: Mapping[int, Json]) -> Iterator[tuple[int, str]]:
    for number, trial in by_number.items():
        if trial.get("origin") == TrialOrigin.FIRST_POINT.value:
            place = trial.get("firstPoint")
            yield number, f"enqueued ({describe_place(place)})" if place else "enqueued"
        elif trial.get("origin") == TrialOrigin.DEFAULTS.value:
            yield number, "the default values"


def add_native_study(view: StudyView, native: Json) -> StudyView:
    """Add the native API's description of the study.  Raises UsageFault for a malformed one."""
    try:
        rungs = () if native.get("rungsByTime") else native.get("rungs") or ()
        return replace(
            view,
            rungs=tuple(float(rung["at"]) for rung in rungs),
            known_result_count=int(native.get("knownResults", 0)),
            known_sources=tuple(
                describe_source(str(source["name"]), int(source["used"]), int(source["ignored"]))
                for source in native.get("knownSources") or ()
            ),
            priors=str(native.get("priors") or ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageFault(f"cannot read the server's description of the study: {error!r}") from error


def _read_search(document: Json) -> Json:
    search: Json = document.get("studySpec") or document["trainingInput"]["hyperparameters"]
    return search


def rank_trials(view: StudyView) -> list[TrialRecord]:
    """Return the succeeded trials, best first; trials beyond a limit come after all others.

    Several objectives give no order of the trials: the result is then the Pareto front alone.
    """
    if len(view.objectives) != 1:
        return list(view.leaders)
    metric = view.objectives[0]
    sign = 1 if metric.goal is Goal.MINIMIZE else -1
    finals = ((final_value(trial, metric), trial) for trial in view.trials)
    valued = [(value, trial) for value, trial in finals if value is not None]
    valued.sort(key=lambda pair: (not is_safe(view.study, pair[1]), sign * pair[0]))
    return [trial for _, trial in valued]


def describe_counts(view: StudyView) -> str:
    """Count the trials by state, as in "4 of 24: 3 succeeded, 1 of these stopped early, ..."."""
    paused = view.count(TrialState.PAUSED)
    unfinished = [
        trial
        for trial in view.trials
        if not (trial.state.is_final or trial.state is TrialState.PAUSED)
    ]
    running = sum(trial.start_time is not None for trial in unfinished)
    stopped = sum(
        trial.stopped_early for trial in view.trials if trial.state is TrialState.SUCCEEDED
    )
    parts = (
        (view.count(TrialState.SUCCEEDED), "succeeded"),
        (stopped, "of these stopped early"),
        (view.count(TrialState.INFEASIBLE), "infeasible"),
        (running, "running"),
        (len(unfinished) - running, "waiting"),
        (paused, "paused"),
    )
    by_state = ", ".join(f"{count} {word}" for count, word in parts if count)
    total = f"{len(view.trials)} of {view.study.trial_count_max}"
    return f"{total}: {by_state}" if by_state else total


def describe_measurement(trial: TrialRecord) -> str:
    """Describe the last measurement of a trial, as in "accuracy 0.5 at step 3"."""
    last = latest(trial)
    if last is None:
        return "nothing measured"
    values = ", ".join(f"{name} {format_short(value)}" for name, value in last.metrics)
    return f"{values} at step {last.step}" if last.step else values


def describe_remarks(view: StudyView, trial: TrialRecord) -> list[str]:
    """Return where a trial's point came from, how it ended, and which limits it breaks."""
    texts = (
        view.origins.get(trial.number, ""),
        describe_early_stop(view, trial),
        trial.infeasible_reason or "",
        *(limit.reason for limit in broken_limits(view.study, trial)),
    )
    return [text for text in texts if text]


def describe_early_stop(view: StudyView, trial: TrialRecord) -> str:
    """Describe an early stop or a pause, as in ``stopped early at rung 2``; empty without one."""
    is_paused = trial.state is TrialState.PAUSED
    if not (trial.stopped_early or is_paused):
        return ""
    rung = view.stop_rungs.get(trial.number)
    word = "paused" if is_paused else "stopped early"
    return f"{word} at rung {rung}" if rung else word


def format_parameters(trial: TrialRecord) -> str:
    """Format a trial's parameters in one line, with rounded numbers.

    ``list_arguments`` has all digits.
    """
    return " ".join(f"{name}={format_short(value)}" for name, value in trial.values)


def list_arguments(trial: TrialRecord) -> tuple[str, ...]:
    """Return the arguments that the service appends to a trial's command line.

    Their form is that of docs/sources/vertex.md 10.
    """
    pairs = ((f"--{name}", text_of(value)) for name, value in trial.values)
    return tuple(word for pair in pairs for word in pair)


def list_parameter_names(view: StudyView) -> list[str]:
    """Return the names of the study's parameters, then those that only its trials have."""
    names = [parameter.parameter_id for parameter in parameters_of(view.study)]
    names += [name for trial in view.trials for name, _ in trial.values]
    return list(dict.fromkeys(names))
