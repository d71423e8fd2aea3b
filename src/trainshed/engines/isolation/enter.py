"""Prepares the isolation of a replica's process, with the module of its isolation mode."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from trainshed.engines.isolation.modes import LANDLOCK, SANDBOX, USERS
from trainshed.engines.isolation.view import Mounts, ReplicaView


class IsolatedProgram(NamedTuple):
    """The command, environment and preparation of a program in its isolation."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    enter: Callable[[], None] | None
    """The forked child calls it last before exec; it raises OSError if the isolation fails."""
    descriptors: tuple[int, ...] = ()
    """Descriptors of the program; the caller closes them after the fork."""


def isolate_program(
    view: ReplicaView | None, argv: Sequence[str], mounts: Mounts, env: Mapping[str, str]
) -> IsolatedProgram:
    """Prepare a program's isolation before the fork; a program without a view is not isolated.

    Only the module of the mode is imported, so that a supervisor stays small.
    """
    mode = "" if view is None else view.mode
    if view is not None and mode == USERS:
        from trainshed.engines.isolation import users  # noqa: PLC0415 - see above

        return IsolatedProgram(tuple(argv), env, users.make_enter(view, mounts))
    if view is not None and mode == LANDLOCK:
        from trainshed.engines.isolation import landlock  # noqa: PLC0415 - see above

        return IsolatedProgram(tuple(argv), env, landlock.make_enter(view, mounts))
    if view is not None and mode == SANDBOX:
        from trainshed.engines.isolation import sandbox  # noqa: PLC0415 - see above

        descriptors = sandbox.open_arguments(view, mounts, env)
        enter = sandbox.make_enter(descriptors, argv[0], mounts, env)
        return IsolatedProgram(sandbox.compose_argv(argv, descriptors[0]), {}, enter, descriptors)
    if mounts.is_empty:
        return IsolatedProgram(tuple(argv), env, None)
    from trainshed.engines.isolation import none  # noqa: PLC0415 - see above

    return IsolatedProgram(tuple(argv), env, none.make_enter(mounts))


def list_wrappers(view: ReplicaView | None, pid: int) -> tuple[int, ...]:
    """List the processes between ``pid`` and the replica's own program; they get no signals."""
    if view is None or view.mode != SANDBOX:
        return ()
    from trainshed.engines.isolation import sandbox  # noqa: PLC0415 - see above

    return sandbox.list_wrappers(pid)


def find_program_pid(view: ReplicaView | None, pid: int) -> int:
    """Return the pid of the program that was started as ``pid``; ``pid`` if there is none yet."""
    if view is None or view.mode != SANDBOX:
        return pid
    from trainshed.engines.isolation import sandbox  # noqa: PLC0415 - see above

    return sandbox.find_program_pid(pid)


def signal_in(view: ReplicaView | None, status: int | None) -> int | None:
    """Return the signal that a wrapper's exit status reports; None if it reports none."""
    if view is None or view.mode != SANDBOX:
        return None
    from trainshed.engines.isolation import sandbox  # noqa: PLC0415 - see above

    return sandbox.signal_in(status)
