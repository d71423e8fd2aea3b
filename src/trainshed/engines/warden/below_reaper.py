"""Continues a launcher or a warden below a reaper, which kills what that process leaves behind.

The reaper lives as long as the attempt, so this module and ``reaper`` import little, and their
caller imports everything else afterwards.
"""

import os

from trainshed.engines.processes import tree
from trainshed.engines.supervise.kernel.reaper import StatusSwitch, fork_below_reaper
from trainshed.engines.supervise.kernel.signals import close_inherited
from trainshed.engines.warden import loader_variables

#: The pid of the first process of a container.
_FIRST = 1


class WardenProcess:
    """A warden's process, as its cluster has started it."""

    __slots__ = ("env", "has_reaper", "parent", "switch")

    def __init__(
        self, env: dict[str, str], parent: int, switch: StatusSwitch, *, has_reaper: bool
    ) -> None:
        self.env = env
        """The variables with which the cluster started it."""
        self.parent = parent
        """The pid of the process that has started the reaper, or the warden without one."""
        self.switch = switch
        """Whether the reaper passes the exit status of the warden on."""
        self.has_reaper = has_reaper


def fork_warden() -> WardenProcess:
    """Continue as a warden below a reaper that passes on signals."""
    close_inherited()
    env = _read_own_environment()
    if os.getpid() == _FIRST:
        tree.hide_memory()  # programs in the container could read the secret in /proc/1/environ
    parent, switch = os.getppid(), StatusSwitch()
    reaper = fork_below_reaper(forwards_signals=True, switch=switch)
    return WardenProcess(env, parent, switch, has_reaper=bool(reaper))


def fork_launcher() -> None:
    """Continue as a launcher below a reaper that passes on signals and the exit status.

    A cluster that kills the process it has started ends the launcher too.
    """
    close_inherited()
    if reaper := fork_below_reaper(forwards_signals=True, switch=StatusSwitch()):
        tree.die_with_parent(reaper)


def _read_own_environment() -> dict[str, str]:
    """Return the variables with which this process was started.

    ``os.environ`` may have one more: Python sets LC_CTYPE if no variable names a locale.
    """
    entries = tree.read_bytes(f"/proc/{os.getpid()}/environ").split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries if entry)
    env = {os.fsdecode(name): os.fsdecode(text) for name, _, text in pairs}
    loader_variables.show_variables(env)
    return env
