"""The walls of a replica, by the module of its mode: what surrounds its fork and exec."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainshed.engines.isolation_modes import LANDLOCK, SANDBOX, USERS
from trainshed.engines.local.isolation.view import Mounts, View


class Walled(NamedTuple):
    """How a program is run behind its walls."""

    argv: tuple[str, ...]
    enter: Callable[[], None] | None
    """Called in the forked child, last before exec; raises OSError where a wall cannot be built."""


def walled(view: View | None, argv: Sequence[str], mounts: Mounts) -> Walled:
    """Prepare it before the fork; a program without a view has no walls.

    Only the module that is needed is imported: a supervisor stays small.
    """
    mode = "" if view is None else view.mode
    if view is not None and mode == USERS:
        from trainshed.engines.local.isolation import users  # noqa: PLC0415 - see above

        return Walled(users.wrap(view, argv, mounts), users.enter(view, mounts))
    if view is not None and mode == LANDLOCK:
        from trainshed.engines.local.isolation import landlock  # noqa: PLC0415 - see above

        return Walled(landlock.wrap(view, argv, mounts), landlock.enter(view, mounts))
    if view is not None and mode == SANDBOX:
        from trainshed.engines.local.isolation import sandbox  # noqa: PLC0415 - see above

        return Walled(sandbox.wrap(view, argv, mounts), sandbox.enter(view, mounts))
    from trainshed.engines.local.isolation import none  # noqa: PLC0415 - see above

    return Walled(none.wrap(view, argv, mounts), none.enter(view, mounts))
