"""Runs one of Optuna's samplers behind a pipe (``serving``), used as its documentation shows."""

from collections.abc import Sequence
from typing import Any

from benchmarks.tuning.programs.serving import (
    Chosen,
    Parameter,
    Study,
    serve,
    use_one_thread,
)


class OptunaSearch:
    """A study of Optuna in memory; conditional parameters are requested if they are active."""

    def __init__(self, study: Study, seed: int, kind: str) -> None:
        """``kind`` is a key of ``_sampler``."""
        import optuna  # noqa: PLC0415  # slow to load

        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        self._spec = study
        directions: Any = ["minimize"] * len(study.objectives)
        sampler = _sampler(kind, seed, study)
        self._study: Any = optuna.create_study(sampler=sampler, directions=directions)
        self._live: dict[int, Any] = {}

    def replace_sampler(self, sampler: Any) -> Any:
        """Use another sampler from now on; return the one before."""
        before, self._study.sampler = self._study.sampler, sampler
        return before

    def ask(self) -> tuple[int, Chosen]:
        """Request each active parameter in turn."""
        trial = self._study.ask()
        self._live[trial.number] = trial
        chosen: dict[str, Any] = {}
        for parameter in self._spec.parameters:
            if parameter.is_active(chosen):
                chosen[parameter.name] = _value(trial, parameter)
        return trial.number, chosen

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Pass the losses and the excesses of limits."""
        trial = self._live.pop(number)
        if values is None:
            from optuna.trial import TrialState  # noqa: PLC0415  # slow to load

            self._study.tell(trial, state=TrialState.FAIL)
            return
        losses = []
        for outcome, value in zip(self._spec.outcomes, values, strict=True):
            if outcome.threshold is None:
                losses.append(outcome.loss(value))
            else:
                trial.set_constraint(outcome.name, outcome.excess(value))
        self._study.tell(trial, losses)


def _sampler(kind: str, seed: int, study: Study) -> Any:
    import optuna  # noqa: PLC0415  # slow to load

    samplers: Any = optuna.samplers
    is_exact = not study.is_noisy
    return {
        "optuna-tpe": lambda: samplers.TPESampler(seed=seed, multivariate=False),
        "optuna-tpe-multi": lambda: samplers.TPESampler(seed=seed, multivariate=True, group=True),
        "optuna-gp": lambda: samplers.GPSampler(seed=seed, deterministic_objective=is_exact),
        "optuna-cmaes": lambda: samplers.CmaEsSampler(seed=seed),
    }[kind]()


def _value(trial: Any, parameter: Parameter) -> float | int | str:
    name, (low, high) = parameter.name, parameter.bounds
    if parameter.kind == "DOUBLE":
        return float(trial.suggest_float(name, low, high, log=parameter.is_log))
    if parameter.kind == "INTEGER":
        return int(trial.suggest_int(name, int(low), int(high), log=parameter.is_log))
    if parameter.kind == "CATEGORICAL":
        return str(trial.suggest_categorical(name, parameter.values))
    # an index tells the samplers the order of the values, which helps them
    index: int = trial.suggest_int(name, 0, len(parameter.values) - 1)
    return float(parameter.values[index])


def main() -> None:
    """Serve a search."""
    use_one_thread()
    import optuna  # noqa: PLC0415  # slow to load, and after the limit of threads

    serve(OptunaSearch, optuna.__version__)


if __name__ == "__main__":
    main()
