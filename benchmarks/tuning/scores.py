"""Computes the score of a search after each trial, of which less is better.

With one objective the score is the exact value of the trial that reported the best value: what the
user of a noisy problem gets.  With limits only feasible trials count, and the score is infinite
before the first one.  With several objectives it is the negative hypervolume of the front.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.tuning.metrics import hypervolume
from benchmarks.tuning.spaces import Problem
from trainshed.model.study import Goal, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The exact values of a trial's metrics, and the reported ones."""

    exact: tuple[float, ...]
    reported: tuple[float, ...]

    @property
    def has_failed(self) -> bool:
        """Whether the trial has no values."""
        return not all(map(math.isfinite, self.exact))


def report_of(problem: Problem, exact: tuple[float, ...], seed: int, number: int) -> Measured:
    """Return the values of a trial, with noise that depends on the seed and the number alone."""
    if not problem.noise:
        return Measured(exact=exact, reported=exact)
    error = problem.noise * np.random.default_rng([9, seed, number]).standard_normal()
    return Measured(exact=exact, reported=(float(exact[0] + error), *exact[1:]))


def scores(problem: Problem, trials: Sequence[Measured]) -> tuple[float, ...]:
    """Return the score after each trial, in the order in which trials have ended."""
    objectives = [metric for metric in problem.study.metrics if metric.safety is None]
    path = _volumes if len(objectives) > 1 else _values
    return tuple(path(problem, trials))


def usual_score(problem: Problem, trials: Sequence[Measured]) -> float:
    """Return the score of a usual random point: the median; 0 for hypervolumes."""
    if problem.reference is not None:
        return 0.0
    losses = [_losses(problem, t.exact)[0] for t in trials if _is_feasible(problem, t)]
    return float(np.median(losses))


def _values(problem: Problem, trials: Sequence[Measured]) -> Iterator[float]:
    best_report = score = math.inf
    for trial in trials:
        if _is_feasible(problem, trial):
            reported = _losses(problem, trial.reported)[0]
            if reported < best_report:
                best_report, score = reported, _losses(problem, trial.exact)[0]
        yield score


def _volumes(problem: Problem, trials: Sequence[Measured]) -> Iterator[float]:
    if problem.reference is None:
        raise ValueError("a problem with several objectives needs a reference point")
    reference = np.array(problem.reference)
    losses: list[list[float]] = []
    volume = 0.0
    for trial in trials:
        if _is_feasible(problem, trial):
            losses.append(_losses(problem, trial.exact))
            volume = hypervolume(np.array(losses), reference)
        yield 0.0 - volume  # not -0.0


def _is_feasible(problem: Problem, trial: Measured) -> bool:
    if trial.has_failed:
        return False
    pairs = zip(problem.study.metrics, trial.exact, strict=True)
    return all(
        metric.safety is None or _loss(metric, value) <= _loss(metric, metric.safety.threshold)
        for metric, value in pairs
    )


def _losses(problem: Problem, values: Sequence[float]) -> list[float]:
    """Return the values of the objectives, turned so that less is better."""
    pairs = zip(problem.study.metrics, values, strict=True)
    return [_loss(metric, value) for metric, value in pairs if metric.safety is None]


def _loss(metric: Metric, value: float) -> float:
    return value if metric.goal is Goal.MINIMIZE else -value
