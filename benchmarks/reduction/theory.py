"""The least time of an all-reduce, in units of M/G: the tensor over what a link carries.

The formulas of docs/sources/reduction.md 1 and 7; links are full duplex and all of one rate.
"""


def ring(workers: int) -> float:
    """Return the time of a ring: each link carries 2(N-1)/N of the tensor each way."""
    return 2 * (workers - 1) / workers


def optimum(workers: int, pool: int) -> float:
    """Return the time of the best split (BytePS); M/G with as many reducers as workers."""
    if pool >= workers:
        return 1.0
    return 2 * workers * (workers - 1) / (workers**2 + pool * workers - 2 * pool)
