"""Learning curves of trials, for the stopping rules: greater values are better."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from trainshed.model.study import Metric
from trainshed.model.trials import TrialRecord, TrialState
from trainshed.tuning.ranking import upward


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCurve:
    """The measurements of one trial for one metric; ``at`` strictly ascends, and is never empty.

    ``at`` are steps or seconds.  ``values`` have the sign with which more is better.
    """

    number: int
    at: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def best(self) -> float:
        """Return the best value of the curve."""
        return max(self.values)

    @property
    def end(self) -> float:
        """Return the last step or second of the curve."""
        return self.at[-1]

    def until(self, at: float) -> int:
        """Return the number of values up to a step or second, inclusive."""
        return bisect_right(self.at, at)


class RunningAverages:
    """The average of a curve's values up to any step or second."""

    def __init__(self, curve: TrialCurve) -> None:
        """Compute the sums of ``curve`` once."""
        self._curve = curve
        self._sums = tuple(accumulate(curve.values))

    def up_to(self, at: float) -> float | None:
        """Return the average of all values up to a step or second; None if there are none."""
        count = self._curve.until(at)
        return self._sums[count - 1] / count if count else None


def curves(
    metric: Metric, trials: Iterable[TrialRecord], *, by_time: bool
) -> tuple[TrialCurve, ...]:
    """Return the curves of trials with measurements of the metric, by number."""
    trial_curves = (curve_of(metric, trial, by_time=by_time) for trial in trials)
    return tuple(sorted((one for one in trial_curves if one), key=lambda curve: curve.number))


def curve_of(metric: Metric, trial: TrialRecord, *, by_time: bool) -> TrialCurve | None:
    """Return a trial's curve; None without measurements.

    Of several values at one step the last one counts.  If a program never reports a step (all are
    the same), its measurements are counted: 1, 2, 3.
    """
    points = [
        (measurement.elapsed_s if by_time else float(measurement.step), value)
        for measurement in trial.measurements
        for name, value in measurement.metrics
        if name == metric.metric_id
    ]
    if not by_time and len(points) > 1 and len({step for step, _ in points}) == 1:
        points = [(float(count), value) for count, (_, value) in enumerate(points, start=1)]
    value_at = dict(points)
    at = tuple(sorted(value_at))
    values = tuple(upward(metric.goal, value_at[step]) for step in at)
    return TrialCurve(number=trial.number, at=at, values=values) if at else None


def ended_by_itself(trial: TrialRecord) -> bool:
    """Whether a trial has succeeded and was not stopped early."""
    return trial.state is TrialState.SUCCEEDED and not trial.stopped_early
