"""No walls: the program is what its supervisor is, and sees its names and buckets by mounts."""

from collections.abc import Callable

from trainshed.engines.isolation.mounts import private_mounts
from trainshed.engines.isolation.view import Mounts


def enter(mounts: Mounts) -> Callable[[], None] | None:
    """The mounts, where there is a right to make them."""
    return private_mounts(mounts.hosts, mounts.binds, mounts.more)
