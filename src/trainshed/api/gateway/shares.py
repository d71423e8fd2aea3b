"""Limits one attempt's share of a bounded number, so that others always get some.

One attempt gets at most half.  Each further attempt gets at most half of what the others have left,
so an attempt that holds none can always get one, and nothing in use has to be cut.
"""


def is_over_share(count: int, total: int, total_max: int) -> bool:
    """Return whether an attempt holds too many, including the one that it requests.

    ``count`` is the number that the attempt holds, ``total`` the number that all attempts hold, and
    ``total_max`` the limit of all attempts together.
    """
    return count > total_max - total
