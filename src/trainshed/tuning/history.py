"""The results of a study's trials, in an order independent of their arrival."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainshed.model.study import Goal, Metric, StudySpec
from trainshed.model.trials import TrialRecord, TrialState, Value, Values
from trainshed.tuning.ranking import is_safe, objectives, upward
from trainshed.tuning.space import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPoint:
    """A point and its result.

    ``losses`` are its objectives, less is better; None: the trial was infeasible.  ``excesses`` has
    the amount by which each limit is exceeded; above 0 it is broken, NaN is an unknown value.
    """

    chosen: Mapping[int, Value]
    values: Values
    losses: tuple[float, ...] | None = None
    excesses: tuple[float, ...] = ()
    is_safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The inputs of a suggestion.  ``finished`` and ``pending`` are in order of trials."""

    finished: tuple[TriedPoint, ...]
    pending: tuple[TriedPoint, ...]
    number: int
    """The number of the next trial."""
    is_first: bool
    """Whether the study has made no trial yet."""

    @property
    def points(self) -> frozenset[Values]:
        """Return every point that must not be tried again."""
        return frozenset(tried.values for tried in (*self.finished, *self.pending))

    @property
    def succeeded(self) -> tuple[TriedPoint, ...]:
        """Return the finished points with a result."""
        return tuple(tried for tried in self.finished if tried.losses is not None)


def history_of(
    study: StudySpec, space: Space, trials: Sequence[TrialRecord], prior: Sequence[TrialRecord]
) -> History:
    """Return the present results.

    Only successes of an earlier study count: its other trials may have ended with it, and the cause
    of failures may have been corrected.
    """
    study_trials = sorted((t for t in trials if t.state is not TrialState.REQUESTED), key=_number)
    earlier = sorted((t for t in prior if t.state is TrialState.SUCCEEDED), key=_order)
    ended = (*earlier, *(trial for trial in study_trials if trial.state.is_final))
    return History(
        finished=tuple(_finished(study, space, ended)),
        pending=tuple(_pending(space, [t for t in study_trials if not t.state.is_final])),
        number=max(map(_number, (*prior, *study_trials)), default=0) + 1,
        is_first=not study_trials,
    )


def pending_at(space: Space, values: Values) -> TriedPoint:
    """Return a newly chosen point.  Raises ValueError for one outside of the space."""
    chosen = space.chosen(values)
    if chosen is None:
        raise ValueError(f"{values} is not a point of the search space")
    return TriedPoint(chosen=chosen, values=space.point(chosen))


def _number(trial: TrialRecord) -> int:
    return trial.number


def _order(trial: TrialRecord) -> tuple[int, str]:
    """Return a sort key; trials of several earlier studies may have the same number."""
    return trial.number, repr(trial.values)


def _in_space(
    space: Space, trials: Sequence[TrialRecord]
) -> Iterator[tuple[TrialRecord, Mapping[int, Value], Values]]:
    """Yield the trials that are points of the space, with their values by index and their point."""
    all_chosen = space.all_chosen([trial.values for trial in trials])
    pairs = zip(trials, all_chosen, strict=True)
    inside = [(trial, chosen) for trial, chosen in pairs if chosen is not None]
    all_points = space.all_points([chosen for _, chosen in inside])
    for (trial, chosen), values in zip(inside, all_points, strict=True):
        yield trial, chosen, values


def _pending(space: Space, trials: Sequence[TrialRecord]) -> Iterator[TriedPoint]:
    for _, chosen, values in _in_space(space, trials):
        yield TriedPoint(chosen=chosen, values=values)


def _finished(
    study: StudySpec, space: Space, trials: Sequence[TrialRecord]
) -> Iterator[TriedPoint]:
    goals = [(goal.metric_id, goal.goal is Goal.MAXIMIZE) for goal in objectives(study)]
    limits = [metric for metric in study.metrics if metric.safety]
    for trial, chosen, values in _in_space(space, trials):
        yield TriedPoint(
            chosen=chosen,
            values=values,
            losses=_losses(goals, trial),
            excesses=tuple(_excess(metric, trial) for metric in limits) if limits else (),
            is_safe=trial.state is TrialState.SUCCEEDED and (not limits or is_safe(study, trial)),
        )


def _losses(goals: Sequence[tuple[str, bool]], trial: TrialRecord) -> tuple[float, ...] | None:
    """Return the losses for goals by metric and whether more is better; None without all values."""
    if trial.final is None:
        return None
    losses = []
    for metric_id, is_maximised in goals:
        value = trial.final.value(metric_id)
        if value is None or not math.isfinite(value):
            return None
        losses.append(-value if is_maximised else value)
    return tuple(losses)


def _excess(metric: Metric, trial: TrialRecord) -> float:
    """Return how far a limit is broken; NaN for an unknown value."""
    value = trial.final.value(metric.metric_id) if trial.final else None
    if metric.safety is None or value is None:
        return math.nan
    return upward(metric.goal, metric.safety.threshold) - upward(metric.goal, value)
