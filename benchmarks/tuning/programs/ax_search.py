"""Runs Ax behind a pipe (``serving``): its Client with the default strategy, a BoTorch GP.

Conditional parameters are Ax's own dependent parameters, which must be a tree: one that is active
under several values of its parent is a parameter of its own under each.  Lists of numbers are
ordered choices.
"""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from benchmarks.tuning.programs.serving import (
    Chosen,
    Parameter,
    Study,
    as_kind,
    serve,
    use_one_thread,
)


class AxSearch:
    """An experiment of Ax."""

    def __init__(self, study: Study, seed: int, kind: str) -> None:
        """``kind`` is not used: Ax has one strategy here."""
        del kind
        api: Any = import_module("ax.api.client")
        self._study = study
        tree = [copy for parameter in study.parameters for copy in _copies(parameter)]
        self._client: Any = api.Client(random_seed=seed)
        self._client.configure_experiment(parameters=[_config(tree, copy) for copy in tree])
        self._client.configure_optimization(
            objective=", ".join(
                f"-{outcome.name}" if outcome.is_minimised else outcome.name
                for outcome in study.objectives
            ),
            outcome_constraints=[
                f"{outcome.name} {'<=' if outcome.is_minimised else '>='} {outcome.threshold}"
                for outcome in study.outcomes
                if outcome.threshold is not None
            ],
        )
        self._client.configure_generation_strategy(
            initialization_random_seed=seed, allow_exceeding_initialization_budget=True
        )

    def ask(self) -> tuple[int, Chosen]:
        """Request one trial."""
        ((number, values),) = self._client.get_next_trials(max_trials=1).items()
        return int(number), _point(self._study, values)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Complete a trial; Ax estimates the noise."""
        if values is None:
            self._client.mark_trial_failed(trial_index=number)
            return
        names = [outcome.name for outcome in self._study.outcomes]
        self._client.complete_trial(
            trial_index=number, raw_data=dict(zip(names, values, strict=True))
        )


def _point(study: Study, values: Chosen) -> dict[str, Any]:
    """Return a point of the study; a parameter that Ax has left out gets any value."""
    point: dict[str, Any] = {}
    for parameter in study.parameters:
        if parameter.is_active(point):
            parent = point.get(parameter.parent or "")
            name = next(
                c.name for c in _copies(parameter) if c.parent is None or parent in c.parent_values
            )
            value = values.get(name, (parameter.values or parameter.bounds)[0])
            point[parameter.name] = as_kind(parameter, value)
    return point


def _copies(parameter: Parameter) -> Sequence[Parameter]:
    """Return the parameter, or one for each of its parent's values."""
    values = parameter.parent_values
    if len(values) < 2:
        return [parameter]
    name = parameter.name
    return [replace(parameter, name=f"{name}_{v}", parent_values=(v,)) for v in values]


def _config(tree: Sequence[Parameter], parameter: Parameter) -> Any:
    configs: Any = import_module("ax.api.configs")
    if parameter.kind in {"DOUBLE", "INTEGER"}:
        return configs.RangeParameterConfig(
            name=parameter.name,
            bounds=parameter.bounds,
            parameter_type="float" if parameter.kind == "DOUBLE" else "int",
            scaling="log" if parameter.is_log else "linear",
        )
    children: dict[Any, list[str]] = {}
    for child in tree:
        for value in child.parent_values if child.parent == parameter.name else ():
            children.setdefault(value, []).append(child.name)
    return configs.ChoiceParameterConfig(
        name=parameter.name,
        values=list(parameter.values),
        parameter_type="str" if parameter.kind == "CATEGORICAL" else "float",
        is_ordered=parameter.kind == "DISCRETE",
        dependent_parameters=children or None,
    )


def main() -> None:
    """Serve a search."""
    use_one_thread()
    warnings.simplefilter("ignore")
    ax: Any = import_module("ax")
    import_module("torch").set_num_threads(1)
    logging.disable(logging.CRITICAL)
    serve(AxSearch, str(ax.__version__))


if __name__ == "__main__":
    main()
