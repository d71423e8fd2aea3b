"""The least time of an all-reduce, in units of M/G: the tensor over what a link carries.

The formulas of docs/sources/reduction.md 1 and 7; links are full duplex and all of one rate.
"""


def ring(workers: int) -> float:
    """A ring sends 2(N-1)/N of the tensor through every link each way."""
    return 2 * (workers - 1) / workers


def optimum(workers: int, pool: int) -> float:
    """The best split over reducers and workers (BytePS); M/G once there are as many reducers."""
    if pool >= workers:
        return 1.0
    return 2 * workers * (workers - 1) / (workers**2 + pool * workers - 2 * pool)
