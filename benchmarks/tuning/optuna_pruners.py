"""Optuna's pruners as strategies of the benchmark of early rungs, used as its documentation shows.

They are told the number of reports of a whole training, and report by count: 1, 2, 3.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Literal

from trainshed.model.study import (
    Goal,
    ParameterKind,
    ParameterSpec,
    Scale,
    StudySpec,
    parameters_of,
)
from trainshed.model.trials import Value, Values

PRUNERS: Final = ("hyperband", "halving")
DIRECTIONS: Final[dict[Goal, Literal["minimize", "maximize"]]] = {
    Goal.MINIMIZE: "minimize",
    Goal.MAXIMIZE: "maximize",
}


class PrunerStrategy:
    """One of Optuna's pruners, with its TPE or with given points."""

    def __init__(
        self, study: StudySpec, points: Sequence[Values], seed: int, pruner: str, reports: int
    ) -> None:
        """Begin a study without trials."""
        import optuna  # noqa: PLC0415  # slow to load

        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        self._spec = study
        self._live: dict[int, Any] = {}
        self._reports: dict[int, int] = {}
        pruners: dict[str, Callable[[], Any]] = {
            "hyperband": lambda: optuna.pruners.HyperbandPruner(max_resource=reports),
            "halving": optuna.pruners.SuccessiveHalvingPruner,
        }
        self._study: Any = optuna.create_study(
            study_name="study",  # Hyperband derives the bracket of a trial from it
            direction=DIRECTIONS[study.metrics[0].goal],
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=pruners[pruner](),
        )
        for values in points:
            self._study.enqueue_trial(_as_suggested(study, values))

    def begin(self) -> tuple[int, Values] | None:
        """Ask for a trial."""
        if len(self._study.trials) >= self._spec.trial_count_max and not self._waiting():
            return None
        trial = self._study.ask()
        self._live[trial.number + 1] = trial
        return trial.number + 1, tuple(_suggested(trial, self._spec.parameters))

    def _waiting(self) -> bool:
        from optuna.trial import TrialState as State  # noqa: PLC0415  # slow to load

        return bool(self._study.get_trials(deepcopy=False, states=(State.WAITING,)))

    def report(self, number: int, step: int, elapsed_s: float, value: float) -> Collection[int]:  # noqa: ARG002
        """Report by count, so that all trainings have steps 1, 2, 3."""
        self._reports[number] = self._reports.get(number, 0) + 1
        self._live[number].report(value, self._reports[number])
        return [number] if self._live[number].should_prune() else []

    def promote(self) -> int | None:
        """Optuna's pruners resume no trial."""
        return None

    def end(self, number: int, value: float, *, is_stopped: bool) -> None:
        """End a trial."""
        from optuna.trial import TrialState as State  # noqa: PLC0415  # slow to load

        state = State.PRUNED if is_stopped else State.COMPLETE
        self._study.tell(self._live.pop(number), None if is_stopped else value, state=state)


def _as_suggested(study: StudySpec, values: Values) -> dict[str, Value]:
    """Return a point with the index of each DISCRETE value, as ``peers.suggested`` asks for it."""
    lists = {
        one.parameter_id: one.values
        for one in parameters_of(study)
        if one.kind is ParameterKind.DISCRETE
    }
    return {
        name: lists[name].index(value) if name in lists and not isinstance(value, int) else value
        for name, value in values
    }


def _suggested(trial: Any, specs: Iterable[ParameterSpec]) -> Iterable[tuple[str, Value]]:
    for spec in specs:
        value = _value(trial, spec)
        yield spec.parameter_id, value
        met = [
            condition.parameter for condition in spec.conditions if value in condition.parent_values
        ]
        yield from _suggested(trial, met)


def _value(trial: Any, spec: ParameterSpec) -> Value:
    low, high = spec.bounds or (0.0, 0.0)
    if spec.kind is ParameterKind.DOUBLE:
        is_log = spec.scale is Scale.LOG
        return float(trial.suggest_float(spec.parameter_id, low, high, log=is_log))
    if spec.kind is ParameterKind.INTEGER:
        is_log = spec.scale is Scale.LOG
        return int(trial.suggest_int(spec.parameter_id, int(low), int(high), log=is_log))
    if spec.kind is ParameterKind.CATEGORICAL:
        return str(trial.suggest_categorical(spec.parameter_id, spec.values))
    # an index tells the sampler the order of the values, which helps it
    index: int = trial.suggest_int(spec.parameter_id, 0, len(spec.values) - 1)
    return spec.values[index]
