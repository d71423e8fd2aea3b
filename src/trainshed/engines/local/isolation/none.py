"""No walls: the program is what its supervisor is, and sees its names and buckets by mounts."""

from collections.abc import Callable, Sequence

from trainshed.engines.local.isolation.view import Mounts, View
from trainshed.engines.local.supervise.mounts import private_mounts


def wrap(_view: View | None, argv: Sequence[str], _mounts: Mounts) -> tuple[str, ...]:
    """What is executed: the program itself."""
    return tuple(argv)


def enter(_view: View | None, mounts: Mounts) -> Callable[[], None] | None:
    """The mounts, where there is a right to make them."""
    return private_mounts(mounts.hosts, mounts.binds)
