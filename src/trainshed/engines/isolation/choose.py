"""Chooses the isolation mode of a server: tries which modes work on this machine.

If the requested mode does not work, the server does not start, rather than use a weaker mode.
"""

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainshed.engines.isolation import landlock, seccomp
from trainshed.engines.isolation.compose import Isolation, hidden_folders
from trainshed.engines.isolation.interpreters import home_of_user
from trainshed.engines.isolation.modes import (
    AUTO,
    CALL_FAMILIES,
    CONTAINER,
    DEFAULT,
    FILTERED,
    LANDLOCK,
    NONE,
    SANDBOX,
    UIDS,
    USERS,
)
from trainshed.engines.processes.trial import run_trial
from trainshed.model.faults import UsageFault


class IsolationOptions(NamedTuple):
    """The settings of ``[isolation]``."""

    mode: str = AUTO
    require: tuple[str, ...] = ()
    """The accepted modes; all modes if empty."""
    allow_root_jobs: bool = False
    uids: tuple[int, int] = UIDS
    seccomp: str = DEFAULT
    seccomp_allow: tuple[str, ...] = ()
    refuse_ports: bool | None = None
    """Whether *landlock* refuses the server's ports to jobs; None: only on kernels that need it."""

    @property
    def refused_calls(self) -> tuple[str, ...]:
        """The families of system calls that jobs may not make; none without a filter."""
        if self.seccomp == NONE or not seccomp.is_known(os.uname().machine):
            return ()
        return tuple(name for name in CALL_FAMILIES if name not in self.seccomp_allow)


class Machine(NamedTuple):
    """The facts of the machine that the choice depends on."""

    is_root: bool
    no_containers: str
    """The reason why no container runtime works; empty if one works."""
    try_mode: Callable[[str, int], str]
    """Returns why a mode does not work with a UID; empty if the mode works."""


def this_machine(no_containers: str, refused_calls: tuple[str, ...]) -> Machine:
    """Return the facts of this machine; ``refused_calls`` are families of system calls."""
    try_mode = functools.partial(try_isolation, refused_calls=refused_calls)
    return Machine(os.geteuid() == 0, no_containers, try_mode)


def choose_isolation(
    settings: IsolationOptions, machine: Machine, hides: Sequence[str | None] = ()
) -> Isolation:
    """Return the isolation of a server.  Raises UsageFault if the settings cannot be met."""
    mode, why = _choose_mode(settings, machine) if settings.mode == AUTO else (settings.mode, "")
    if not why and settings.mode != AUTO:
        why = _why_not(mode, settings, machine)
        if why:
            raise UsageFault(
                f'[isolation] mode is "{mode}", which does not work on this machine: {why}'
            )
    if settings.require and mode not in settings.require:
        accepted = " or ".join(f'"{name}"' for name in settings.require)
        reason = f" ({why})" if why else ""
        raise UsageFault(
            f'[isolation] require accepts {accepted}; this server would use "{mode}"{reason}'
        )
    refuses_ports, ports_note = _choose_ports(settings.refuse_ports, mode)
    return Isolation(
        mode=mode,
        uids=settings.uids,
        hides=hidden_folders((*hides, home_of_user())) if mode != NONE else (),
        warning=_compose_warning(why) if mode == NONE else "",
        refused_calls=settings.refused_calls if mode in FILTERED else (),
        refuses_ports=refuses_ports,
        ports_note=ports_note,
    )


def _choose_ports(refuse: bool | None, mode: str) -> tuple[bool, str]:  # noqa: FBT001 - the setting
    """Return whether Landlock refuses the server's ports to jobs; if it cannot, a note for people.

    Rules for ports delay each start.  So without a setting they are used only on kernels where jobs
    could kill the process that holds the ports, because Landlock does not stop their signals.
    """
    version = landlock.version() if mode == LANDLOCK and refuse is not False else 0
    if 0 < version < landlock.TCP_SINCE:
        return False, ", jobs can bind to the server's ports while it is stopped (before Linux 6.7)"
    return version > 0 and (bool(refuse) or version < landlock.SCOPES_SINCE), ""


def _choose_mode(settings: IsolationOptions, machine: Machine) -> tuple[str, str]:
    """Return the strongest mode for processes that works, and why stronger modes do not work."""
    reasons = []
    unprivileged = () if machine.is_root and not settings.allow_root_jobs else (SANDBOX, LANDLOCK)
    for mode in (*((USERS,) if machine.is_root else ()), *unprivileged):
        why = _why_not(mode, settings, machine)
        if not why:
            return mode, ""
        reasons.append(f"{mode}: {why}")
    if machine.is_root and not settings.allow_root_jobs:
        raise UsageFault(
            f"jobs of this server would run as root ({'; '.join(reasons)}); run it as another "
            "user, or set allow_root_jobs = true in [isolation]"
        )
    return NONE, "; ".join(reasons)


def _why_not(mode: str, settings: IsolationOptions, machine: Machine) -> str:
    if mode == CONTAINER:
        return machine.no_containers
    if mode == USERS and not machine.is_root:
        return "only root can run programs as other users"
    if mode != USERS and machine.is_root and not settings.allow_root_jobs:
        return "jobs would run as root, and allow_root_jobs is not true"
    return "" if mode == NONE else machine.try_mode(mode, settings.uids[0])


def _compose_warning(why: str) -> str:
    reason = f" ({why})" if why else ""
    return (
        f"isolation none{reason}: this job's programs run as the server's user and can read and "
        "change all files of that user, also other projects' files and the server's tokens"
    )


@functools.cache
def try_isolation(mode: str, uid: int, refused_calls: tuple[str, ...] = CALL_FAMILIES) -> str:
    """Return why a mode does not isolate programs on this machine; empty if it does."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = mode, folder, str(uid), ",".join(refused_calls)
        return run_trial("trainshed.engines.isolation.trial", *arguments)
