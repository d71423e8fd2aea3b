"""How many of a bounded number one attempt may hold: never more than it leaves free for the others.

One attempt gets at most half.  Each further attempt gets at most half of what the others have left,
so there is always a place for an attempt that holds none, and nothing in use has to be cut.
"""


def is_over_share(own: int, total: int, most: int) -> bool:
    """Return whether an attempt holds too many, counting the one that it wants now.

    ``own`` is the attempt's number, ``total`` that of all attempts, and ``most`` the bound of all.
    """
    return own > most - total
