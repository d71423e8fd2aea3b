"""Sums in the order of the ranks, in 32 bits, rounded once (docs/sources/reduction.md 3.6).

The same inputs give the same bits in any order of arrival.  NumPy has no bfloat16, which is the
upper half of a float32: it is widened by a shift and rounded to nearest, ties to even, as in
PyTorch.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from trainshed_trainer.reduction.frames import Dtype

#: Elements widened at a time; they fit into a core's cache.
BLOCK = 1 << 15

Array = Any


def add(dtype: Dtype, rows: Sequence[Array], out: Array, *, average: bool) -> None:
    """Sum ``rows`` (bytes, one row a rank) into ``out``, or average them.

    ``rows`` and ``out`` are ``uint8`` arrays of one length, a multiple of the item size.
    """
    if dtype is Dtype.FLOAT32:
        _add_wide([row.view(np.float32) for row in rows], out.view(np.float32), average=average)
        return
    narrow = np.dtype(np.float16 if dtype is Dtype.FLOAT16 else np.uint16)
    halves, result = [row.view(narrow) for row in rows], out.view(narrow)
    for start in range(0, result.size, BLOCK):
        part = slice(start, start + BLOCK)
        result[part] = _sum_narrow([half[part] for half in halves], average=average)


def _add_wide(rows: Sequence[Array], out: Array, *, average: bool) -> None:
    with np.errstate(all="ignore"):  # infinities and NaN are passed to the trainer
        if len(rows) == 1:
            out[:] = rows[0]
        else:
            np.add(rows[0], rows[1], out=out)
        for row in rows[2:]:
            np.add(out, row, out=out)
        if average:
            np.divide(out, np.float32(len(rows)), out=out)


def _sum_narrow(rows: Sequence[Array], *, average: bool) -> Array:
    total = _widen(rows[0])
    with np.errstate(all="ignore"):
        for row in rows[1:]:
            np.add(total, _widen(row), out=total)
        if average:
            np.divide(total, np.float32(len(rows)), out=total)
        return total.astype(np.float16) if rows[0].dtype == np.float16 else _to_bfloat16(total)


def _widen(row: Array) -> Array:
    if row.dtype == np.float16:
        return row.astype(np.float32)
    return np.left_shift(row, 16, dtype=np.uint32).view(np.float32)


def _to_bfloat16(total: Array) -> Array:
    """Round to bfloat16; a NaN stays a NaN, because a bfloat16 NaN has a lower half of 0."""
    bits = total.view(np.uint32)
    odd = np.right_shift(bits, 16) & 1
    return np.right_shift(bits + odd + 0x7FFF, 16).astype(np.uint16)
