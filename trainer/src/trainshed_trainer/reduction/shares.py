"""Divides a tensor among the reducers.

With at least as many reducers as workers the parts are equal.  With fewer reducers, every worker
reduces a part as well (docs/sources/reduction.md 1, BytePS).  A worker that reduces a share ``s``
moves ``1 + (N-2) s`` times the tensor each way, and a reducer ``N s`` times.  The fastest shares
are those for which both end at the same time at the measured rates.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

#: Shares begin at multiples of this many elements, so that sums are aligned.
GRAIN = 64
#: Tensors of fewer bytes than this for each reducer go to fewer of them.
SHARE_MIN = 32 << 10
#: Rates that differ by less than this factor count as equal; the difference is noise.
NOISE = 1.4


class Rates(NamedTuple):
    """The rates measured when the group was formed, in bytes a second one way.

    ``worker`` is the rate of a worker's link, ``reducers`` those of the reducers in pool 2.  A rate
    of 0 was not measured.
    """

    worker: float
    reducers: tuple[float, ...]


def compute_shares(world: int, rates: Rates, *, workers_reduce: bool) -> list[float]:
    """Return the share of each reducer, and of each of the ``world`` workers if they reduce too.

    The sum is 1.  All ranks get the same shares because they have the same rates.
    """
    if not workers_reduce:
        return [1 / len(rates.reducers)] * len(rates.reducers)
    worker, *reducers = _without_noise([rates.worker, *rates.reducers])
    pool = sum(reducers)
    if world <= 2:  # noqa: PLR2004 - a worker's link carries the tensor once in any case
        share = min(1.0, pool / (world * worker)) / world if pool else 1.0 / world
        return _append_worker_shares([share * rate / pool * world for rate in reducers], world)
    seconds = (2 * world - 2) / (world * worker + (world - 2) * pool / world)
    if seconds * worker <= 1:
        return _append_worker_shares([rate / pool for rate in reducers], world)
    return _append_worker_shares([seconds * rate / world for rate in reducers], world)


def _append_worker_shares(reducers: list[float], world: int) -> list[float]:
    """Append the workers' shares: equal parts of what the reducers leave."""
    rest = max(0.0, 1.0 - sum(reducers))
    return reducers + [rest / world] * world


def _without_noise(rates: Sequence[float]) -> list[float]:
    """Replace rates that differ only by noise with their mean."""
    measured = [rate for rate in rates if rate > 0]
    if not measured or max(measured) > NOISE * min(measured):
        return list(rates)
    return [sum(measured) / len(measured)] * len(rates)


def split_elements(
    count: int, itemsize: int, shares: Sequence[float], turn: int
) -> list[tuple[int, int, int]]:
    """Return ``(reducer, first element, last element + 1)`` for every part of ``count`` elements.

    A short tensor goes to fewer reducers; ``turn`` (the round) selects them, so that short tensors
    are spread over all reducers.
    """
    worth = max(1, count * itemsize // SHARE_MIN)
    chosen = [index for index, share in enumerate(shares) if share > 0]
    if worth < len(chosen):
        chosen = [chosen[(turn + step) % len(chosen)] for step in range(worth)]
        weights = [1.0] * worth
    else:
        weights = [shares[index] for index in chosen]
    return _cut(count, chosen, weights)


def _cut(count: int, chosen: Sequence[int], weights: Sequence[float]) -> list[tuple[int, int, int]]:
    total, done, place, cut = sum(weights), 0.0, 0, []
    for index, weight in zip(chosen, weights):
        done += weight
        end = count if index == chosen[-1] else round(count * done / total / GRAIN) * GRAIN
        end = min(count, max(place, end))
        if end > place:
            cut.append((index, place, end))
        place = end
    return cut
