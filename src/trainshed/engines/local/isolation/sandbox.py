"""Bubblewrap: a mount and process view of its own, for a server that is no root."""

from collections.abc import Callable, Sequence

from trainshed.engines.local.isolation.view import Mounts, View


def wrap(_view: View, argv: Sequence[str], _mounts: Mounts) -> tuple[str, ...]:
    """What is executed."""
    return tuple(argv)


def enter(_view: View, _mounts: Mounts) -> Callable[[], None] | None:
    """Nothing in the child yet."""
    raise NotImplementedError


def why_not() -> str:
    """Why it does not work here; empty where it does."""
    return "bubblewrap is not used yet"
