"""The mode *none*: the program has its supervisor's rights, and mounts for names and buckets."""

from collections.abc import Callable

from trainshed.engines.isolation.mounts import private_mounts
from trainshed.engines.isolation.view import Mounts


def make_enter(mounts: Mounts) -> Callable[[], None] | None:
    """Return the function that makes the mounts; None if this process may not mount."""
    return private_mounts(mounts.hosts, mounts.binds, mounts.more)
