"""Thins learning curves out for drawing."""

from collections.abc import Sequence

from trainshed.tuning.curves import TrialCurve


def thin_out(curve: TrialCurve, count_max: int) -> tuple[Sequence[float], Sequence[float]]:
    """Return at most ``count_max`` (3 or more) points of a curve: its steps, and its values.

    The first, the last and the best point are among them; the others are evenly spaced.
    """
    count = len(curve.at)
    if count <= count_max:
        return curve.at, curve.values
    spaced = {round(i * (count - 1) / (count_max - 2)) for i in range(count_max - 1)}
    best = max(range(count), key=curve.values.__getitem__)
    indexes = sorted(spaced | {best})
    return [curve.at[i] for i in indexes], [curve.values[i] for i in indexes]
