"""The growth of the Pareto front of a study, trial by trial.

A front has no single best value to follow.  With two objectives the hypervolume shows the progress:
the share of the rectangle between the worst and the best values that the front dominates.  With
more objectives only the front's size is known: the volume would be slow to compute.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.model.study import StudySpec
from trainshed.model.trials import TrialRecord
from trainshed.tuning.ranking import beats, objectives, rating

Ratings = tuple[float, ...]

#: The most trials of a front that a sentence lists.
LISTED_MAX: Final = 12

_TWO: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontStep:
    """The front after a trial that entered it."""

    trial: int
    size: int
    """The number of trials in the front, equal ones included."""
    volume: float | None = None
    """The hypervolume (0..1) with two objectives, measured between the worst and the best values of
    all safe trials; None with more objectives, or if all trials have one value."""


def front_history(study: StudySpec, trials: Sequence[TrialRecord]) -> tuple[FrontStep, ...]:
    """Return the front after each trial that entered it, by number; none for one objective."""
    goals = objectives(study)
    if len(goals) < _TWO:
        return ()
    by_number = sorted(trials, key=lambda trial: trial.number)
    rated = [(t.number, values) for t in by_number if (values := rating(study, goals, t))]
    return tuple(_grow(rated))


def describe_front(numbers: Sequence[int], size: int | None = None) -> str:
    """Describe a Pareto front, as in ``Pareto front of 14 trials: 1, 2, 5 and 11 more``.

    ``size`` is the number of its trials, if ``numbers`` has only some of them.
    """
    count = len(numbers) if size is None else size
    listed = ", ".join(str(number) for number in numbers[:LISTED_MAX])
    more = f" and {count - LISTED_MAX} more" if count > LISTED_MAX else ""
    return f"Pareto front of {count} trial{'' if count == 1 else 's'}: {listed}{more}"


def _grow(rated: Sequence[tuple[int, Ratings]]) -> Iterator[FrontStep]:
    columns = list(zip(*(values for _, values in rated), strict=True))
    lows, highs = [min(column) for column in columns], [max(column) for column in columns]
    front: list[Ratings] = []
    for number, values in rated:
        if any(beats(other, values) for other in front):
            continue
        front = [other for other in front if not beats(values, other)] + [values]
        yield FrontStep(trial=number, size=len(front), volume=_volume(front, lows, highs))


def _volume(
    front: Sequence[Ratings], lows: Sequence[float], highs: Sequence[float]
) -> float | None:
    """Return the dominated share of the rectangle of all values; None if it has no area."""
    if len(lows) != _TWO or lows[0] == highs[0] or lows[1] == highs[1]:
        return None
    width, height = highs[0] - lows[0], highs[1] - lows[1]
    volume, top = 0.0, 0.0
    for across, up in sorted(front, reverse=True):
        share = (up - lows[1]) / height
        volume += max(share - top, 0.0) * (across - lows[0]) / width
        top = max(top, share)
    return volume
