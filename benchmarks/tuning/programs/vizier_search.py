"""Runs google-vizier's default algorithm, GP_UCB_PE, behind a pipe (``serving``).

The number of trials is padded to multiples of ten, and what JAX compiles is stored in
``build/jax-cache``, so that it compiles once in ten trials and not for each one; the algorithm
cannot pad several objectives.  JAX computes with 64 bits, as in Vizier's service: with 32 the model
often has no finite values.  It has no conditional parameters: all of
them are searched at all times, and the inactive ones are left out of the trial.  Trials that break
a limit count as infeasible, which is Vizier's own wrapper for such studies.
"""

import logging
import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.tuning.programs.serving import Chosen, Outcome, Parameter, Study, serve
from benchmarks.tuning.programs.serving import use_one_thread as limit_threads

#: NPROC: the number of threads of XLA.  The last two let the cache have everything.
_SETTINGS: Final = {
    "NPROC": "1",
    "JAX_ENABLE_X64": "1",
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parents[3] / "build" / "jax-cache"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


class VizierSearch:
    """A designer of Vizier, and its trials."""

    def __init__(self, study: Study, seed: int, kind: str) -> None:
        """``kind`` is not used: Vizier has one algorithm here."""
        del kind
        self._study = study
        self._vz: Any = import_module("vizier.pyvizier")
        self._algorithms: Any = import_module("vizier.algorithms")
        self._designer = self._new_designer(seed)
        self._live: dict[int, Any] = {}
        self._done: list[Any] = []
        self._count = 0

    def ask(self) -> tuple[int, Chosen]:
        """Pass what has ended since the last suggestion, and request one trial."""
        completed = self._algorithms.CompletedTrials(self._done)
        active = self._algorithms.ActiveTrials(list(self._live.values()))
        self._designer.update(completed, active)
        self._done = []
        self._count += 1
        trial = self._designer.suggest(1)[0].to_trial(self._count)
        self._live[self._count] = trial
        values = {name: parameter.value for name, parameter in trial.parameters.items()}
        return self._count, self._study.active(values)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        """Complete a trial."""
        trial = self._live.pop(number)
        if values is None:
            trial.complete(self._vz.Measurement(), infeasibility_reason="it failed")
        else:
            names = [outcome.name for outcome in self._study.outcomes]
            metrics = dict(zip(names, values, strict=True))
            trial.complete(self._vz.Measurement(metrics=metrics))
        self._done.append(trial)

    def _new_designer(self, seed: int) -> Any:
        gp_ucb_pe: Any = import_module("vizier._src.algorithms.designers.gp_ucb_pe")
        key = import_module("jax").random.PRNGKey(seed)
        padding: Any = import_module("vizier.pyvizier.converters.padding")
        is_padded = len(self._study.objectives) == 1
        trials = padding.PaddingType.MULTIPLES_OF_10 if is_padded else padding.PaddingType.NONE

        def designer(problem: Any, seed: int | None = None) -> Any:
            del seed
            schedule = padding.PaddingSchedule(num_trials=trials)
            return gp_ucb_pe.VizierGPUCBPEBandit(problem, rng=key, padding_schedule=schedule)

        problem = self._problem()
        if len(self._study.objectives) == len(self._study.outcomes):
            return designer(problem)
        name = "vizier._src.algorithms.designers.unsafe_as_infeasible_designer"
        return import_module(name).UnsafeAsInfeasibleDesigner(problem, designer)

    def _problem(self) -> Any:
        problem = self._vz.ProblemStatement()
        for parameter in self._study.parameters:
            self._add(problem.search_space.root, parameter)
        problem.metric_information.extend(map(self._metric, self._study.outcomes))
        return problem

    def _metric(self, outcome: Outcome) -> Any:
        goals = self._vz.ObjectiveMetricGoal
        return self._vz.MetricInformation(
            name=outcome.name,
            goal=goals.MINIMIZE if outcome.is_minimised else goals.MAXIMIZE,
            safety_threshold=outcome.threshold,
        )

    def _add(self, root: Any, parameter: Parameter) -> None:
        name, (low, high) = parameter.name, parameter.bounds
        scale = self._vz.ScaleType.LOG if parameter.is_log else self._vz.ScaleType.LINEAR
        if parameter.kind == "DOUBLE":
            root.add_float_param(name, low, high, scale_type=scale)
        elif parameter.kind == "INTEGER":
            root.add_int_param(name, int(low), int(high), scale_type=scale)
        elif parameter.kind == "CATEGORICAL":
            root.add_categorical_param(name, list(parameter.values))
        else:
            root.add_discrete_param(name, list(parameter.values))


def main() -> None:
    """Serve a search."""
    limit_threads()
    os.environ |= _SETTINGS
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import_module("vizier.pyvizier")
    serve(VizierSearch, import_module("importlib.metadata").version("google-vizier"))


if __name__ == "__main__":
    main()
