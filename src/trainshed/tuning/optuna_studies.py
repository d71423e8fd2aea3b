"""Converts a study to one of Optuna, for Optuna's own plots.

Optuna requires a trial for each number from 0 on.  A number that the study lacks gets a trial that
waits.  In names and values, characters that plotly would read as markup are replaced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any, Final

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from trainshed.model.study import (
    Goal,
    Metric,
    ParameterKind,
    ParameterSpec,
    Scale,
    StudySpec,
    parameters_of,
)
from trainshed.model.trials import TrialRecord, TrialState, Value, text_of
from trainshed.tuning.ranking import final_value, is_safe

_STATES: Final[Mapping[TrialState, OptunaState]] = {
    TrialState.REQUESTED: OptunaState.WAITING,
    TrialState.ACTIVE: OptunaState.RUNNING,
    TrialState.PAUSED: OptunaState.RUNNING,
    TrialState.STOPPING: OptunaState.RUNNING,
    TrialState.SUCCEEDED: OptunaState.COMPLETE,
    TrialState.INFEASIBLE: OptunaState.FAIL,
}
_DIRECTIONS: Final = {
    Goal.MAXIMIZE: StudyDirection.MAXIMIZE,
    Goal.MINIMIZE: StudyDirection.MINIMIZE,
}

#: Characters that plotly reads as markup, with substitutes; the length at which words are cut.
_SIGNS: Final = str.maketrans({"<": "\u2039", ">": "\u203a", "&": "\uff06"})
_WORD_MAX: Final = 60
#: Above this the numbers of a server's trials are replaced by their positions.
_NUMBER_MAX: Final = 10_000


def shown(text: str) -> str:
    """Return a foreign text without markup, for plotly."""
    plain = "".join(sign if sign.isprintable() else "\ufffd" for sign in text).translate(_SIGNS)
    return plain if len(plain) <= _WORD_MAX else f"{plain[: _WORD_MAX - 1]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The labels of a study's parameters in plots, and their values."""

    labels: Mapping[str, str]
    """The labels by parameter id; different ids have different labels."""
    distributions: Mapping[str, BaseDistribution]
    """The distributions by parameter id."""
    listed: Mapping[str, Sequence[float]]
    """The values of parameters that have only some numbers, ascending, by label."""

    def point(self, trial: TrialRecord) -> dict[str, Value]:
        """Return a trial's values by label."""
        return {self.labels[name]: self._value(name, value) for name, value in trial.values}

    def of(self, trial: TrialRecord) -> dict[str, BaseDistribution]:
        """Return the distributions of a trial's values by label."""
        return {self.labels[name]: self.distributions[name] for name, _ in trial.values}

    def _value(self, name: str, value: Value) -> Value:
        distribution = self.distributions[name]
        if isinstance(distribution, CategoricalDistribution):
            return shown(text_of(value))
        return float(value) if isinstance(distribution, FloatDistribution) else int(value)


def axes_of(study: StudySpec, trials: Sequence[TrialRecord]) -> Axes:
    """Collect the parameters of a study and of its trials.

    The ranges cover all values of trials, because these can be outside the study's bounds.
    """
    values_by_id: dict[str, list[Value]] = {p.parameter_id: [] for p in parameters_of(study)}
    for trial in trials:
        for name, value in trial.values:
            values_by_id.setdefault(name, []).append(value)
    specs: dict[str, list[ParameterSpec]] = {name: [] for name in values_by_id}
    for parameter in parameters_of(study):
        specs[parameter.parameter_id].append(parameter)
    candidates = {name: _distribution(specs[name], values) for name, values in values_by_id.items()}
    distributions = {
        name: distribution for name, distribution in candidates.items() if distribution is not None
    }
    labels = dict(_labels(distributions))
    listed = {label: _discrete_values(specs[name]) for name, label in labels.items()}
    return Axes(labels=labels, distributions=distributions, listed=listed)


def optuna_study(
    spec: StudySpec,
    trials: Sequence[TrialRecord],
    axes: Axes,
    metrics: Sequence[Metric],
    title: str | None = None,
) -> optuna.Study:
    """Return the study with ``metrics`` as objectives; a trial that lacks one counts as failed.

    ``trials`` are in the order of their numbers.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(
        study_name=None if title is None else shown(title),
        directions=[_DIRECTIONS[metric.goal] for metric in metrics],
        storage=storage,
    )
    study_id = storage.get_study_id_from_name(study.study_name)
    numbered = dict(_number_trials(trials))
    for number in range(max(numbered, default=-1) + 1):
        trial = numbered.get(number)
        record = _trial(spec, axes, metrics, trial) if trial else _make_record(OptunaState.WAITING)
        storage.create_new_trial(study_id, record)
    return study


class UncopiedTrial(FrozenTrial):
    """A trial that the storage need not copy, which is slow: no other code changes the trial."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "UncopiedTrial":
        return self


#: Optuna requires a time for every trial, and does not use it.
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def _make_record(
    state: OptunaState,
    values: Sequence[float] | None = None,
    params: Mapping[str, Value] | None = None,
    distributions: Mapping[str, BaseDistribution] | None = None,
    curve: Mapping[int, float] | None = None,
) -> UncopiedTrial:
    return UncopiedTrial(
        number=-1,
        trial_id=-1,
        state=state,
        value=None,
        values=values,
        datetime_start=None if state is OptunaState.WAITING else _EPOCH,
        datetime_complete=_EPOCH if state.is_finished() else None,
        params=dict(params or {}),
        distributions=dict(distributions or {}),
        user_attrs={},
        system_attrs={},
        intermediate_values=dict(curve or {}),
    )


def _number_trials(trials: Sequence[TrialRecord]) -> Iterator[tuple[int, TrialRecord]]:
    if trials and trials[-1].number > _NUMBER_MAX:
        return zip(count(1), trials, strict=False)
    return ((trial.number, trial) for trial in trials)


def _trial(
    spec: StudySpec, axes: Axes, metrics: Sequence[Metric], trial: TrialRecord
) -> UncopiedTrial:
    finals = [final_value(trial, metric) for metric in metrics]
    values = [value for value in finals if value is not None]
    state = _STATES[trial.state]
    if state is OptunaState.COMPLETE and len(values) < len(metrics):
        state = OptunaState.FAIL
    record = _make_record(
        state,
        values if state is OptunaState.COMPLETE else None,
        axes.point(trial),
        axes.of(trial),
        _curve(trial, metrics[0]),
    )
    if any(metric.safety for metric in spec.metrics):
        record.set_constraint("safe", 0.0 if is_safe(spec, trial) else 1.0)
    return record


def _curve(trial: TrialRecord, metric: Metric) -> dict[int, float]:
    """Return the values of a metric by step, or by position if the steps do not ascend."""
    measured = [
        (measurement.step, measurement.value(metric.metric_id))
        for measurement in trial.measurements
    ]
    points = [(step, value) for step, value in measured if value is not None]
    ascend = all(one < other for (one, _), (other, _) in pairwise(points))
    return dict(points) if ascend else {at: value for at, (_, value) in enumerate(points, 1)}


def _distribution(
    specs: Sequence[ParameterSpec], trial_values: Sequence[Value]
) -> BaseDistribution | None:
    """Return a distribution that contains all values of a parameter, or None without values."""
    spec_values = [value for spec in specs for value in (*spec.values, *(spec.bounds or ()))]
    values: list[Value] = [*spec_values, *trial_values]
    if not values:
        return None
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        return CategoricalDistribution(list(dict.fromkeys(shown(text_of(v)) for v in values)))
    low, high = min(numbers), max(numbers)
    log = low > 0 and all(spec.scale is Scale.LOG for spec in specs) and bool(specs)
    are_whole = all(float(number).is_integer() for number in numbers)
    if are_whole and specs and all(spec.kind is ParameterKind.INTEGER for spec in specs):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(float(low), float(high), log=log)


def _discrete_values(specs: Sequence[ParameterSpec]) -> list[float]:
    discrete = (spec.values for spec in specs if spec.kind is ParameterKind.DISCRETE)
    return sorted({float(value) for values in discrete for value in values})


def _labels(names: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    labels: set[str] = set()
    for name in names:
        label = shown(name)
        while label in labels:
            label += "'"
        labels.add(label)
        yield name, label
