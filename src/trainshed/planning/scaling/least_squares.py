"""Solves small least-squares problems by Levenberg and Marquardt's method, without NumPy.

A short run has at most ten points and eight unknowns; the planner may import nothing heavy.
"""

import math
from collections.abc import Callable, Sequence

Vector = list[float]
Matrix = list[Vector]
Residuals = Callable[[Vector], Vector]

_STEP = 1e-5
_ROUNDS = 40
_SETTLED = 1e-9
_STIFFEST = 1e8


def least_squares(residuals: Residuals, start: Sequence[float]) -> Vector:
    """Return the unknowns with the least sum of squared residuals."""
    point, damping = list(start), 1e-3
    values = residuals(point)
    slopes = slopes_of(residuals, point, values)
    for _ in range(_ROUNDS):
        next_point = _moved(point, values, slopes, damping)
        next_values = residuals(next_point)
        gained = dot(values, values) - dot(next_values, next_values)
        if gained <= 0:
            damping *= 8
            if damping > _STIFFEST:
                break
            continue
        point, values, damping = next_point, next_values, damping / 8
        if gained < _SETTLED * (1 + dot(values, values)):
            break
        slopes = slopes_of(residuals, point, values)
    return point


def slopes_of(residuals: Residuals, point: Vector, values: Vector) -> Matrix:
    """Return the derivative of each residual by each unknown: a row for each unknown."""
    rows = []
    for i, value in enumerate(point):
        near = residuals([*point[:i], value + _STEP, *point[i + 1 :]])
        rows.append([(b - a) / _STEP for a, b in zip(values, near, strict=True)])
    return rows


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the sum of products."""
    return sum(map(float.__mul__, a, b))


def triangle(matrix: Matrix) -> Matrix:
    """Return the lower triangle L with L times its transpose = ``matrix`` (Cholesky)."""
    rows: Matrix = []
    for i, line in enumerate(matrix):
        row: Vector = []
        for j in range(i):
            row.append((line[j] - dot(row, rows[j][:j])) / rows[j][j])
        rows.append([*row, math.sqrt(line[i] - dot(row, row))])
    return rows


def forward(lower: Matrix, right: Sequence[float]) -> Vector:
    """Return the x for which a lower triangle times x is ``right``."""
    solution: Vector = []
    for row, value in zip(lower, right, strict=True):
        solution.append((value - dot(row[: len(solution)], solution)) / row[len(solution)])
    return solution


def backward(lower: Matrix, right: Sequence[float]) -> Vector:
    """Return the x for which the transpose of a lower triangle times x is ``right``."""
    size = len(lower)
    solution = [0.0] * size
    for i in reversed(range(size)):
        subtotal = sum(lower[j][i] * solution[j] for j in range(i + 1, size))
        solution[i] = (right[i] - subtotal) / lower[i][i]
    return solution


def _moved(point: Vector, values: Vector, slopes: Matrix, damping: float) -> Vector:
    normal = [[dot(a, b) for b in slopes] for a in slopes]
    for i, row in enumerate(normal):
        row[i] = row[i] * (1 + damping) + 1e-12
    lower = triangle(normal)
    step = backward(lower, forward(lower, [dot(row, values) for row in slopes]))
    return [a - min(1.5, max(-1.5, s)) for a, s in zip(point, step, strict=True)]
