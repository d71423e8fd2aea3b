"""Continues a launcher or a warden below a reaper, which kills what that process leaves behind.

The reaper lives as long as the attempt, so this module and ``reaper`` import little, and their
caller imports everything else afterwards.
"""

import os
from typing import NamedTuple

from trainshed.engines.processes import tree
from trainshed.engines.processes.identity import Identity
from trainshed.engines.supervise.kernel.reaper import StatusSwitch, fork_below_reaper
from trainshed.engines.supervise.kernel.signals import close_inherited
from trainshed.engines.warden import loader_variables

#: The pid of the first process of a container.
_FIRST = 1


class WardenProcess(NamedTuple):
    """A warden's process, as its cluster has started it."""

    env: dict[str, str]
    """The variables with which the cluster started it."""
    parent: int
    """The pid of the process that has started the reaper."""
    reaper: Identity | None
    switch: StatusSwitch
    """Whether the reaper passes the exit status of the warden on."""


def fork_warden() -> WardenProcess:
    """Continue as a warden below a reaper that passes on signals."""
    close_inherited()
    env = _read_own_environment()
    if os.getpid() == _FIRST:
        tree.hide_memory()  # programs in the container could read the secret in /proc/1/environ
    parent, switch = os.getppid(), StatusSwitch()
    return WardenProcess(
        env, parent, fork_below_reaper(forwards_signals=True, switch=switch), switch
    )


def fork_launcher() -> None:
    """Continue as a launcher below a reaper that passes on signals and the exit status.

    A cluster that kills the process it has started ends the launcher too.
    """
    close_inherited()
    own_pid = os.getpid()
    if fork_below_reaper(forwards_signals=True, switch=StatusSwitch()) is not None:
        tree.die_with_parent(own_pid)


def _read_own_environment() -> dict[str, str]:
    """Return the variables with which this process was started.

    ``os.environ`` may have one more: Python sets LC_CTYPE if no variable names a locale.
    """
    entries = tree.read_bytes(f"/proc/{os.getpid()}/environ").split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries if entry)
    env = {os.fsdecode(name): os.fsdecode(text) for name, _, text in pairs}
    loader_variables.show_variables(env)
    return env
