"""Few unknowns, few residuals: Levenberg and Marquardt's way, without NumPy.

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
    """The unknowns for which the squares of the residuals sum to the least."""
    at, damping = list(start), 1e-3
    now = residuals(at)
    slopes = slopes_of(residuals, at, now)
    for _ in range(_ROUNDS):
        moved = _moved(at, now, slopes, damping)
        then = residuals(moved)
        gained = dot(now, now) - dot(then, then)
        if gained <= 0:
            damping *= 8
            if damping > _STIFFEST:
                break
            continue
        at, now, damping = moved, then, damping / 8
        if gained < _SETTLED * (1 + dot(now, now)):
            break
        slopes = slopes_of(residuals, at, now)
    return at


def slopes_of(residuals: Residuals, at: Vector, now: Vector) -> Matrix:
    """How each residual changes with each unknown: a row for each unknown."""
    rows = []
    for i, value in enumerate(at):
        near = residuals([*at[:i], value + _STEP, *at[i + 1 :]])
        rows.append([(b - a) / _STEP for a, b in zip(now, near, strict=True)])
    return rows


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """The sum of products."""
    return sum(map(float.__mul__, a, b))


def triangle(matrix: Matrix) -> Matrix:
    """The lower triangle whose square is a positive matrix (Cholesky)."""
    rows: Matrix = []
    for i, line in enumerate(matrix):
        row: Vector = []
        for j in range(i):
            row.append((line[j] - dot(row, rows[j][:j])) / rows[j][j])
        rows.append([*row, math.sqrt(line[i] - dot(row, row))])
    return rows


def forward(lower: Matrix, right: Sequence[float]) -> Vector:
    """The x for which a lower triangle times x is ``right``."""
    solution: Vector = []
    for row, value in zip(lower, right, strict=True):
        solution.append((value - dot(row[: len(solution)], solution)) / row[len(solution)])
    return solution


def backward(lower: Matrix, right: Sequence[float]) -> Vector:
    """The x for which the transpose of a lower triangle times x is ``right``."""
    size = len(lower)
    solution = [0.0] * size
    for i in reversed(range(size)):
        subtotal = sum(lower[j][i] * solution[j] for j in range(i + 1, size))
        solution[i] = (right[i] - subtotal) / lower[i][i]
    return solution


def _moved(at: Vector, now: Vector, slopes: Matrix, damping: float) -> Vector:
    normal = [[dot(a, b) for b in slopes] for a in slopes]
    for i, row in enumerate(normal):
        row[i] = row[i] * (1 + damping) + 1e-12
    lower = triangle(normal)
    step = backward(lower, forward(lower, [dot(row, now) for row in slopes]))
    return [a - min(1.5, max(-1.5, s)) for a, s in zip(at, step, strict=True)]
