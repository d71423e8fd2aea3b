"""Runs SMAC's facade for hyperparameters behind a pipe (``serving``), a random forest.

Conditions are those of ConfigSpace; several objectives are searched by ParEGO.  SMAC has no limits.
"""

import logging
import tempfile
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.tuning.programs.serving import Chosen, Parameter, Study, serve, use_one_thread


class SmacSearch:
    """An optimiser of SMAC, and its trials."""

    def __init__(self, study: Study, seed: int, kind: str) -> None:
        """``kind`` is not used.  Raises ValueError for a study with limits."""
        del kind
        if len(study.objectives) < len(study.outcomes):
            raise ValueError("SMAC has no limits")
        self._study = study
        self._smac: Any = import_module("smac")
        self._facade = self._new_facade(seed)
        self._live: dict[int, Any] = {}
        self._count = 0

    def ask(self) -> tuple[int, Chosen]:
        """Request a trial; SMAC repeats a point if the problem is noisy."""
        self._count += 1
        trial = self._live[self._count] = self._facade.ask()
        chosen = dict(trial.config)
        for parameter in self._study.parameters:
            if parameter.kind == "DISCRETE" and parameter.name in chosen:
                chosen[parameter.name] = float(parameter.values[int(chosen[parameter.name])])
        defaults = {p.name: (p.values or p.bounds)[0] for p in self._study.parameters}
        return self._count, self._study.active(defaults | chosen)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Pass the losses; a failed trial has the status CRASHED."""
        data: Any = import_module("smac.runhistory.dataclasses")
        outcomes = self._study.outcomes
        if values is None:
            crashed = import_module("smac.runhistory.enumerations").StatusType.CRASHED
            cost = [float("inf")] * len(outcomes)
            value = data.TrialValue(cost=_one_or_list(cost), status=crashed)
        else:
            losses = [o.loss(value) for o, value in zip(outcomes, values, strict=True)]
            value = data.TrialValue(cost=_one_or_list(losses))
        self._facade.tell(self._live.pop(number), value)

    def _new_facade(self, seed: int) -> Any:
        names = [outcome.name for outcome in self._study.outcomes]
        scenario = self._smac.Scenario(
            _space(self._study, seed),
            objectives=names if len(names) > 1 else names[0],
            n_trials=self._study.trials,
            deterministic=not self._study.is_noisy,
            seed=seed,
            output_directory=Path(tempfile.mkdtemp()),
        )
        facade = self._smac.HyperparameterOptimizationFacade
        options = {}
        if len(names) > 1:
            parego: Any = import_module("smac.multi_objective.parego").ParEGO
            options["multi_objective_algorithm"] = parego(scenario)
        return facade(scenario, _never_run, logging_level=False, overwrite=True, **options)


def _never_run(config: Any, seed: int = 0) -> float:
    """Stand for the function that SMAC requires; the benchmark runs the trials itself."""
    raise AssertionError(f"SMAC ran {config} with seed {seed}, but the benchmark runs the trials")


def _one_or_list(values: list[float]) -> float | list[float]:
    return values if len(values) > 1 else values[0]


def _space(study: Study, seed: int) -> Any:
    config_space: Any = import_module("ConfigSpace")
    space = config_space.ConfigurationSpace(seed=seed)
    dimensions = {parameter.name: _dimension(parameter) for parameter in study.parameters}
    space.add(*dimensions.values())
    for parameter in study.parameters:
        if parameter.parent is not None:
            child, parent = dimensions[parameter.name], dimensions[parameter.parent]
            space.add(config_space.InCondition(child, parent, list(parameter.parent_values)))
    return space


def _dimension(parameter: Parameter) -> Any:
    kinds: Any = import_module("ConfigSpace")
    name, is_log = parameter.name, parameter.is_log
    if parameter.kind == "DOUBLE":
        return kinds.UniformFloatHyperparameter(name, *parameter.bounds, log=is_log)
    if parameter.kind == "INTEGER":
        low, high = map(int, parameter.bounds)
        return kinds.UniformIntegerHyperparameter(name, low, high, log=is_log)
    if parameter.kind == "CATEGORICAL":
        return kinds.CategoricalHyperparameter(name, list(parameter.values))
    return kinds.UniformIntegerHyperparameter(name, 0, len(parameter.values) - 1)


def main() -> None:
    """Serve a search."""
    use_one_thread()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import_module("smac")
    serve(SmacSearch, import_module("importlib.metadata").version("smac"))


if __name__ == "__main__":
    main()
