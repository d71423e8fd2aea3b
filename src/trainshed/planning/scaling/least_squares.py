"""Few unknowns, few residuals: Levenberg and Marquardt's way, without NumPy.

A short run has at most ten points and seven unknowns; the planner may import nothing heavy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Vector = list[float]
Matrix = list[Vector]

_STEP = 1e-5
_ROUNDS = 60
_SETTLED = 1e-9
_STIFFEST = 1e8


@dataclass(frozen=True, slots=True)
class Minimum:
    """Where the sum of squares is least, and how sure that is."""

    at: Vector
    covariance: Matrix
    """Of the unknowns, where a residual of 1 is one standard deviation."""


def least_squares(residuals: Callable[[Vector], Vector], start: Sequence[float]) -> Minimum:
    """The unknowns for which the squares of the residuals sum to the least."""
    at, damping = list(start), 1e-3
    now = residuals(at)
    normal, gradient = _normal(residuals, at, now)
    for _ in range(_ROUNDS):
        moved = _moved(at, normal, gradient, damping)
        then = residuals(moved)
        gained = _square(now) - _square(then)
        if gained > 0:
            at, now, damping = moved, then, damping / 8
            if gained < _SETTLED * (1 + _square(now)):
                break
            normal, gradient = _normal(residuals, at, now)
        else:
            damping *= 8
            if damping > _STIFFEST:
                break
    return Minimum(at, inverse(_normal(residuals, at, now)[0]))


def solve(matrix: Matrix, right: Vector) -> Vector:
    """The x for which matrix times x is ``right``, by Gauss's elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for row in rows[i + 1 :]:
            factor = row[i] / rows[i][i]
            for j in range(i, size + 1):
                row[j] -= factor * rows[i][j]
    return _back(rows)


def inverse(matrix: Matrix) -> Matrix:
    """Of a symmetric matrix."""
    size = len(matrix)
    return [solve(matrix, [float(i == j) for j in range(size)]) for i in range(size)]


def _back(rows: Matrix) -> Vector:
    size = len(rows)
    found = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (rows[i][size] - known) / rows[i][i]
    return found


def _square(values: Vector) -> float:
    return sum(value * value for value in values)


def _normal(
    residuals: Callable[[Vector], Vector], at: Vector, now: Vector
) -> tuple[Matrix, Vector]:
    columns = []
    for i, value in enumerate(at):
        near = residuals([*at[:i], value + _STEP, *at[i + 1 :]])
        columns.append([(b - a) / _STEP for a, b in zip(now, near, strict=True)])
    normal = [[sum(map(float.__mul__, a, b)) for b in columns] for a in columns]
    return normal, [sum(map(float.__mul__, column, now)) for column in columns]


def _moved(at: Vector, normal: Matrix, gradient: Vector, damping: float) -> Vector:
    stiff = [
        [value * (1 + damping) + 1e-12 if i == j else value for j, value in enumerate(row)]
        for i, row in enumerate(normal)
    ]
    return [a - s for a, s in zip(at, solve(stiff, gradient), strict=True)]
