"""A study as a server describes it, in either dialect, in the model's words.

The command line watches and reports from it.  It is read from the public documents, so that any
server of these APIs can be asked (docs/sources/vertex.md 7.1 and 8); what a native route says
beside them is added where the server has it.  What a server leaves out is absent here, and what is
no finite number is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.model.study import Goal, Metric, StudySpec, parameters_of
from trainshed.model.trials import TrialRecord, TrialState, Value, text_of
from trainshed.tuning.ranking import best, is_safe, objectives, pareto
from trainshed.wire.aiplatform_v1 import trials as vertex
from trainshed.wire.ml_v1 import trials as ml
from trainshed.wire.native_v1 import completed, latest
from trainshed.wire.times import time_of

Json = Mapping[str, Any]

_PREFIX: Final = "JOB_STATE_"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyView:
    """A tuning job: how it stands, what it searches, and its trials in the order of their numbers.

    ``name`` is what it is asked for by, ``title`` what a person calls it; ``state`` is without the
    prefix of its dialect.
    """

    name: str
    title: str
    state: str
    error: str
    algorithm: str
    """As the document has it; empty where it says none."""
    study: StudySpec
    """What is searched; how it is searched and ended is not read."""
    trials: tuple[TrialRecord, ...]
    create_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None

    @property
    def objectives(self) -> tuple[Metric, ...]:
        """The metrics that are to become better."""
        return tuple(objectives(self.study))

    @property
    def leaders(self) -> tuple[TrialRecord, ...]:
        """The best trial; with several objectives those that no other one beats in all of them."""
        if len(self.objectives) > 1:
            return tuple(pareto(self.study, self.trials))
        leader = best(self.study, self.trials)
        return (leader,) if leader else ()

    def count(self, *states: TrialState) -> int:
        """How many trials are in one of the states."""
        return sum(trial.state in states for trial in self.trials)


def is_study(document: Json) -> bool:
    """Whether a job's document is that of a tuning job."""
    return "studySpec" in document or "hyperparameters" in document.get("trainingInput", {})


def view_of(document: Json) -> StudyView:
    """Read a tuning job.  Raises UsageFault for a document that is none."""
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


def with_native(view: StudyView, native: Json) -> StudyView:
    """Add the native API's data about the trials.  Raises UsageFault as ``view_of``."""
    try:
        by_number = {int(trial["number"]): trial for trial in native.get("trials", ())}
        trials = tuple(completed(trial, by_number.get(trial.number, {})) for trial in view.trials)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageFault(f"cannot read the server's list of trials: {error!r}") from error
    return replace(view, trials=trials)


def _read_search(document: Json) -> Json:
    search: Json = document.get("studySpec") or document["trainingInput"]["hyperparameters"]
    return search


def ranked(view: StudyView) -> list[TrialRecord]:
    """The finished trials, best first: those that are safe before the others.

    With several objectives, where "better" is no order, these are the leaders alone.
    """
    if len(view.objectives) != 1:
        return list(view.leaders)
    metric = view.objectives[0]
    sign = 1 if metric.goal is Goal.MINIMIZE else -1
    finals = ((final_value(trial, metric), trial) for trial in view.trials)
    valued = [(value, trial) for value, trial in finals if value is not None]
    valued.sort(key=lambda pair: (not is_safe(view.study, pair[1]), sign * pair[0]))
    return [trial for _, trial in valued]


def counts(view: StudyView) -> str:
    """How many trials there are, by what became of them."""
    unfinished = [trial for trial in view.trials if not trial.state.is_final]
    running = sum(trial.start_time is not None for trial in unfinished)
    parts = (
        (view.count(TrialState.SUCCEEDED), "succeeded"),
        (view.count(TrialState.INFEASIBLE), "infeasible"),
        (running, "running"),
        (len(unfinished) - running, "waiting"),
    )
    native = ", ".join(f"{count} {word}" for count, word in parts if count)
    total = f"{len(view.trials)} of {view.study.trial_count_max}"
    return f"{total}: {native}" if native else total


def final_value(trial: TrialRecord, metric: Metric) -> float | None:
    """What a trial that has succeeded ended with."""
    if trial.state is not TrialState.SUCCEEDED or trial.final is None:
        return None
    return trial.final.value(metric.metric_id)


def measured(trial: TrialRecord) -> str:
    """What a trial ended with, or measured last, in words."""
    last = latest(trial)
    if last is None:
        return "nothing measured"
    values = ", ".join(f"{name} {short(value)}" for name, value in last.metrics)
    return f"{values} at step {last.step}" if last.step else values


def parameters_text(trial: TrialRecord) -> str:
    """A trial's values in one line, to be read: ``arguments`` has all digits."""
    return " ".join(f"{name}={short(value)}" for name, value in trial.values)


def short(value: Value) -> str:
    """A value to be read: six digits, and whole numbers as they are."""
    is_broken = isinstance(value, float) and not value.is_integer()
    return f"{value:.6g}" if is_broken else text_of(value)


def arguments(trial: TrialRecord) -> tuple[str, ...]:
    """Return the words that the service appends to a trial's command line.

    They are in docs/sources/vertex.md 10.
    """
    pairs = ((f"--{name}", text_of(value)) for name, value in trial.values)
    return tuple(word for pair in pairs for word in pair)


def parameter_names(view: StudyView) -> list[str]:
    """The study's parameters in its order, behind them those that only trials have."""
    names = [parameter.parameter_id for parameter in parameters_of(view.study)]
    names += [name for trial in view.trials for name, _ in trial.values]
    return list(dict.fromkeys(names))
