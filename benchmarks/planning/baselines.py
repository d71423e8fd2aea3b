"""Baselines that answer the same questions by curve fits without physics: linear, Amdahl, USL.

Fitted to the known points over a grid of their shares; of one known point they have shares pooled
over all other systems.  A curve's throughput is all they know.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.planning.rows import Curve
from trainshed.planning.scaling.calibration import Run

Array = NDArray[np.float64]
NAMES = ("linear", "amdahl", "usl")
_SERIAL = np.concatenate([[0.0], np.logspace(-4, 0, 40)])
_CROSSTALK = np.concatenate([[0.0], np.logspace(-7, 0, 30)])
_GRIDS = {
    "linear": (np.zeros(1), np.zeros(1)),
    "amdahl": (_SERIAL, np.zeros(len(_SERIAL))),
    "usl": (np.repeat(_SERIAL, len(_CROSSTALK)), np.tile(_CROSSTALK, len(_SERIAL))),
}


class Baselines:
    """The shares of curves with one known point come from the curves given here."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        """Pool the curves."""
        self._pooled = {name: _pooled(curves, *_GRIDS[name]) for name in NAMES}

    def errors(self, observed: Sequence[Run], targets: Sequence[Run]) -> list[dict[str, float]]:
        """Return by baseline the signed error of the throughput, for each point to predict."""
        rates = {name: self._rates(name, observed, targets) for name in NAMES}
        return [
            {name: float(values[i]) / _rate(run) - 1 for name, values in rates.items()}
            for i, run in enumerate(targets)
        ]

    def _rates(self, name: str, observed: Sequence[Run], targets: Sequence[Run]) -> Array:
        if name == "linear" or len(observed) == 1:
            serial, crosstalk = self._pooled[name]
            scale = (
                np.log(_rate(observed[-1]))
                - _shape(observed[0], observed[-1:], serial, crosstalk)[0]
            )
        else:
            serial, crosstalk, scale = _fitted(observed, *_GRIDS[name])
        rates: Array = np.exp(scale + _shape(observed[0], targets, serial, crosstalk))
        return rates


def _rate(run: Run) -> float:
    return run.accelerators * run.batch_per_accelerator / run.step_s


def _shape(base: Run, points: Sequence[Run], serial: float, crosstalk: float) -> Array:
    n = np.array([point.accelerators / base.accelerators for point in points])
    logarithms: Array = np.log(n / (1 + serial * (n - 1) + crosstalk * n * (n - 1)))
    return logarithms


def _fitted(observed: Sequence[Run], serial: Array, crosstalk: Array) -> tuple[float, float, float]:
    n = np.array([point.accelerators / observed[0].accelerators for point in observed])
    shape = np.log(n) - np.log(1 + serial[:, None] * (n - 1) + crosstalk[:, None] * n * (n - 1))
    left = np.log([_rate(point) for point in observed]) - shape
    best = int(np.argmin(left.var(axis=1)))
    return float(serial[best]), float(crosstalk[best]), float(left[best].mean())


def _pooled(curves: Sequence[Curve], serial: Array, crosstalk: Array) -> tuple[float, float]:
    """The shares whose median error over all curves from their first points is the least."""
    pairs = [(curve.points[0], point) for curve in curves for point in curve.points[1:]]
    n = np.array([point.accelerators / base.accelerators for base, point in pairs])
    gained = np.array([_rate(point) / _rate(base) for base, point in pairs])
    missed = [
        np.median(np.abs(n / (1 + s * (n - 1) + k * n * (n - 1)) / gained - 1))
        for s, k in zip(serial, crosstalk, strict=True)
    ]
    best = int(np.argmin(missed))
    return float(serial[best]), float(crosstalk[best])
