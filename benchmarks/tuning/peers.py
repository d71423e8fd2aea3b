"""Wraps the searches of the tuning benchmark: Trainshed, random points, Optuna and Vizier.

Each search suggests a point when a trial begins, and gets the values in the order in which trials
end.
"""

import json
import math
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.tuning.spaces import METRIC
from trainshed.model.study import Algorithm, ParameterKind, ParameterSpec, Scale, StudySpec
from trainshed.model.trials import Measurement, TrialRecord, TrialState, Value
from trainshed.tuning.suggest import suggest

Chosen = Mapping[str, Value]


class Peer(Protocol):
    """A search that suggests points; the trials are numbered."""

    def ask(self) -> tuple[int, Chosen]:
        """Begin the next trial; return its number and its point."""

    def tell(self, number: int, value: float) -> None:
        """Take the value of a trial that has ended; NaN if the trial has failed."""


class Ours:
    """The suggestions of the service."""

    def __init__(self, study: StudySpec, seed: int, algorithm: Algorithm) -> None:
        """Begin a search without trials."""
        self._study, self._seed = replace(study, algorithm=algorithm), seed
        self._trials: dict[int, TrialRecord] = {}

    def ask(self) -> tuple[int, Chosen]:
        """Suggest a point as the loop of a study does."""
        suggestion = suggest(self._study, tuple(self._trials.values()), 1, self._seed)
        number = len(self._trials) + 1
        self._trials[number] = TrialRecord(number=number, values=suggestion.values[0])
        return number, dict(suggestion.values[0])

    def tell(self, number: int, value: float) -> None:
        """Store the final value of a trial; the trial is infeasible if the value is not finite."""
        final = Measurement(metrics=((METRIC, value),))
        state, reason = TrialState.SUCCEEDED, None
        if not math.isfinite(value):
            state, reason = TrialState.INFEASIBLE, "the value was not finite"
        self._trials[number] = replace(
            self._trials[number],
            state=state,
            final=None if reason else final,
            measurements=() if reason else (final,),
            infeasible_reason=reason,
        )


class Optuna:
    """One of Optuna's samplers, used as its documentation shows."""

    def __init__(self, study: StudySpec, seed: int, kind: str) -> None:
        """Begin a search without trials."""
        import optuna  # noqa: PLC0415  # slow to load

        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        self._spec = study
        self._study: Any = optuna.create_study(sampler=_sampler(kind, seed))
        self._live: dict[int, Any] = {}

    def ask(self) -> tuple[int, Chosen]:
        """Request each parameter in turn, and conditional parameters if their condition is met."""
        trial = self._study.ask()
        self._live[trial.number] = trial
        return trial.number, dict(_suggested(trial, self._spec.parameters))

    def tell(self, number: int, value: float) -> None:
        """Pass the value to Optuna; a value that is not finite means that the trial has failed."""
        from optuna.trial import TrialState as State  # noqa: PLC0415  # slow to load

        if math.isfinite(value):
            self._study.tell(self._live.pop(number), value)
        else:
            self._study.tell(self._live.pop(number), state=State.FAIL)


class Vizier:
    """google-vizier's default algorithm, in a process with another Python (``vizier.py``)."""

    def __init__(self, study: StudySpec, seed: int, python: str) -> None:
        """Start the process; only DOUBLE parameters are supported."""
        program = Path(__file__).with_name("vizier.py")
        self._process = subprocess.Popen(
            [python, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        bounds = {parameter.parameter_id: parameter.bounds for parameter in study.parameters}
        self._send({"seed": seed, "bounds": bounds})

    def ask(self) -> tuple[int, Chosen]:
        """Request a point from the process."""
        self._send({"ask": 1})
        assert self._process.stdout is not None  # noqa: S101  # Popen has opened a pipe
        answer = json.loads(self._process.stdout.readline())
        return int(answer["number"]), answer["values"]

    def tell(self, number: int, value: float) -> None:
        """Send the value to the process."""
        self._send({"tell": number, "value": value})

    def close(self) -> None:
        """Close the pipe to the process, and wait for its end."""
        self._process.communicate()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None  # noqa: S101  # Popen has opened a pipe
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def _sampler(kind: str, seed: int) -> Any:
    import optuna  # noqa: PLC0415  # slow to load

    samplers: Any = optuna.samplers
    return {
        "optuna-tpe": lambda: samplers.TPESampler(seed=seed, multivariate=False),
        "optuna-tpe-multi": lambda: samplers.TPESampler(seed=seed, multivariate=True, group=True),
        "optuna-gp": lambda: samplers.GPSampler(seed=seed, deterministic_objective=True),
        "optuna-cmaes": lambda: samplers.CmaEsSampler(seed=seed),
    }[kind]()


def _suggested(trial: Any, specs: Iterable[ParameterSpec]) -> Iterable[tuple[str, Value]]:
    for spec in specs:
        value = _value(trial, spec)
        yield spec.parameter_id, value
        met = [
            condition.parameter for condition in spec.conditions if value in condition.parent_values
        ]
        yield from _suggested(trial, met)


def _value(trial: Any, spec: ParameterSpec) -> Value:
    is_log = spec.scale is Scale.LOG
    low, high = spec.bounds or (0.0, 0.0)
    if spec.kind is ParameterKind.DOUBLE:
        return float(trial.suggest_float(spec.parameter_id, low, high, log=is_log))
    if spec.kind is ParameterKind.INTEGER:
        return int(trial.suggest_int(spec.parameter_id, int(low), int(high), log=is_log))
    if spec.kind is ParameterKind.CATEGORICAL:
        return str(trial.suggest_categorical(spec.parameter_id, spec.values))
    # an index tells the samplers the order of the values, which helps them
    index: int = trial.suggest_int(spec.parameter_id, 0, len(spec.values) - 1)
    return spec.values[index]


Maker = Callable[[StudySpec, int], Peer]
OPTUNAS: Final = ("optuna-tpe", "optuna-tpe-multi", "optuna-gp", "optuna-cmaes")
OURS: Final = "ours"


def peer(name: str, study: StudySpec, seed: int) -> Peer:
    """Create a search by name; "vizier:PYTHON" names the Python with google-vizier."""
    if name.startswith("vizier:"):
        return Vizier(study, seed, name.removeprefix("vizier:"))
    if name in OPTUNAS:
        return Optuna(study, seed, name)
    algorithm = {OURS: Algorithm.DEFAULT, "random": Algorithm.RANDOM_SEARCH}[name]
    return Ours(study, seed, algorithm)
