"""The strategies that the benchmark of early rungs compares: searches with a rule of stopping.

A strategy suggests the point of the next trial, takes its reports, and says which trials to stop.
Ours are the suggestions and rules of the service; the others are Optuna's pruners, which are told
the number of reports of a whole training, as its documentation shows.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, Protocol

from benchmarks.tuning.optuna_pruners import PRUNERS, PrunerStrategy
from trainshed.model.study import (
    AshaRule,
    Goal,
    MedianRule,
    Selection,
    StoppingRule,
    StudySpec,
)
from trainshed.model.study import DecayCurveRule as Decay
from trainshed.model.trials import Measurement, TrialRecord, TrialState, Values
from trainshed.tuning.asha import pauses, promotions
from trainshed.tuning.ranking import upward
from trainshed.tuning.stopping import to_stop
from trainshed.tuning.suggest import suggest

#: The rules of the service, by the names of their strategies.
RULES: Final[dict[str, StoppingRule | None]] = {
    "none": None,
    "median": MedianRule(),
    "decay-curve": Decay(),
    "asha": AshaRule(),
    "asha-pauses": AshaRule(pauses=True),
}


class StoppingStrategy(Protocol):
    """A search and a rule; trials have numbers from 1."""

    def begin(self) -> tuple[int, Values] | None:
        """Return the number and the point of the next trial; None if there is no other."""

    def report(self, number: int, step: int, elapsed_s: float, value: float) -> Collection[int]:
        """Take a report of a trial, and return the trials to stop now."""

    def promote(self) -> int | None:
        """Return the stopped trial that is resumed at its last step; None: a new one begins."""

    def end(self, number: int, value: float, *, is_stopped: bool) -> None:
        """Take the last value of a trial that has ended."""


class RuleStrategy:
    """The suggestions and the rules of the service."""

    def __init__(self, study: StudySpec, points: Sequence[Values], seed: int) -> None:
        """Begin a study without trials; without ``points`` it searches for them."""
        self._study, self._points, self._seed = study, points, seed
        self._metric = study.metrics[0].metric_id
        self._trials: dict[int, TrialRecord] = {}
        self._reports = 0

    def begin(self) -> tuple[int, Values] | None:
        """Suggest a point as the loop of a study does."""
        number = len(self._trials) + 1
        if number > self._study.trial_count_max:
            return None
        values = (
            self._points[number - 1]
            if self._points
            else suggest(self._study, self._results_so_far(), 1, self._seed).values[0]
        )
        self._trials[number] = TrialRecord(number=number, values=values)
        return number, values

    def report(self, number: int, step: int, elapsed_s: float, value: float) -> Collection[int]:
        """Judge all trials, after as many reports as there are workers.

        The service judges them once a second, and not at every report.
        """
        trial = self._trials[number]
        point = Measurement(step=step, elapsed_s=elapsed_s, metrics=((self._metric, value),))
        self._trials[number] = replace(trial, measurements=(*trial.measurements, point))
        self._reports += 1
        if self._reports % self._study.trial_count_parallel:
            return ()
        return to_stop(self._study, tuple(self._trials.values())).keys()

    def promote(self) -> int | None:
        """Return the paused trial that the service would resume."""
        trials = tuple(self._trials.values())
        number = next((one.number for one in promotions(self._study, trials)), None)
        if number is not None:
            trial = self._trials[number]
            self._trials[number] = replace(trial, state=TrialState.ACTIVE, stopped_early=False)
        return number

    def end(self, number: int, value: float, *, is_stopped: bool) -> None:  # noqa: ARG002
        """End a trial with its last report, or pause it."""
        trial = self._trials[number]
        is_paused = is_stopped and pauses(self._study)
        self._trials[number] = replace(
            trial,
            state=TrialState.PAUSED if is_paused else TrialState.SUCCEEDED,
            final=None if is_paused else choose_result(self._study, trial.measurements),
            stopped_early=is_stopped and not is_paused,
            paused_at=trial.measurements[-1].step if is_paused else None,
        )

    def _results_so_far(self) -> tuple[TrialRecord, ...]:
        """Return the trials as the search of the service sees them: paused ones have ended."""
        return tuple(
            replace(
                trial,
                state=TrialState.SUCCEEDED,
                final=choose_result(self._study, trial.measurements),
                stopped_early=True,
            )
            if trial.state is TrialState.PAUSED
            else trial
            for trial in self._trials.values()
        )


def choose_result(study: StudySpec, measurements: Sequence[Measurement]) -> Measurement:
    """Return the measurement that counts for a trial: the last one, or the best one."""
    if study.selection is Selection.LAST:
        return measurements[-1]
    goal = study.metrics[0].goal
    return max(measurements, key=lambda one: upward(goal, one.metrics[0][1]))


def strategy(
    name: str, study: StudySpec, points: Sequence[Values], seed: int, reports: int
) -> StoppingStrategy:
    """Return a strategy by its name."""
    if name in PRUNERS:
        return PrunerStrategy(study, points, seed, name, reports)
    return RuleStrategy(replace(study, stopping=RULES[name]), points, seed)


def is_better(study: StudySpec, value: float, other: float) -> bool:
    """Whether a value is better than another one, which may be NaN for none."""
    if math.isnan(other):
        return True
    return value > other if study.metrics[0].goal is Goal.MAXIMIZE else value < other
