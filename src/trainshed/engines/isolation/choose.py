"""Which isolation a server uses: by trying what works here, never by guessing.

A mode that is asked for and does not work stops the server: nothing gets silently weaker.
"""

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trainshed.engines.isolation import landlock, seccomp
from trainshed.engines.isolation.compose import Isolation, hidden_folders
from trainshed.engines.isolation.interpreters import home_of_user
from trainshed.engines.isolation_modes import (
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


class Asked(NamedTuple):
    """The settings of ``[isolation]``."""

    mode: str = AUTO
    require: tuple[str, ...] = ()
    """The modes that are accepted; all if empty."""
    allow_root_jobs: bool = False
    uids: tuple[int, int] = UIDS
    seccomp: str = DEFAULT
    seccomp_allow: tuple[str, ...] = ()
    refuse_ports: bool | None = None
    """Whether *landlock* refuses ports of the server to jobs; None: where they need that."""

    @property
    def refused_calls(self) -> tuple[str, ...]:
        """The families of system calls that jobs may not make; none where there is no filter."""
        if self.seccomp == NONE or not seccomp.is_known(os.uname().machine):
            return ()
        return tuple(name for name in CALL_FAMILIES if name not in self.seccomp_allow)


class Machine(NamedTuple):
    """What a choice depends on."""

    is_root: bool
    no_containers: str
    """Why no container runtime works; empty where one does."""
    try_mode: Callable[[str, int], str]
    """Why a mode does not work, with the first user of the range; empty where it does."""


def this_machine(no_containers: str, refused_calls: tuple[str, ...]) -> Machine:
    """The machine as it is, where jobs may not make calls of these families."""
    try_mode = functools.partial(tried, refused_calls=refused_calls)
    return Machine(os.geteuid() == 0, no_containers, try_mode)


def chosen(asked: Asked, machine: Machine, hides: Sequence[str | None] = ()) -> Isolation:
    """The isolation of a server.  Raises UsageFault where what is asked for cannot be had."""
    mode, why = _automatic(asked, machine) if asked.mode == AUTO else (asked.mode, "")
    if not why and asked.mode != AUTO:
        why = _why_not(mode, asked, machine)
        if why:
            raise UsageFault(f'[isolation] mode is "{mode}", which does not work here: {why}')
    if asked.require and mode not in asked.require:
        accepted = " or ".join(f'"{each}"' for each in asked.require)
        because = f" ({why})" if why else ""
        raise UsageFault(
            f'[isolation] require accepts {accepted}; this server would use "{mode}"{because}'
        )
    return Isolation(
        mode=mode,
        uids=asked.uids,
        hides=hidden_folders((*hides, home_of_user())) if mode != NONE else (),
        warning=_warning(why) if mode == NONE else "",
        refused_calls=asked.refused_calls if mode in FILTERED else (),
        **_ports(refuse=asked.refuse_ports, version=landlock.version() if mode == LANDLOCK else 0),
    )


def _ports(*, refuse: bool | None, version: int) -> dict[str, Any]:
    """What Landlock's version has for the ports of the server, as fields of ``Isolation``.

    The process that holds the ports cannot be killed by jobs where signals end at the walls, and
    rules for ports delay each start: they are used by themselves only where it could be.
    """
    if not version or refuse is False:
        return {}
    if version < landlock.TCP_SINCE:
        return {"ports_note": ", jobs may bind to ports of the server while it is away (Linux 6.7)"}
    needed = refuse or version < landlock.SCOPES_SINCE
    return {"refuses_ports": needed}


def _automatic(asked: Asked, machine: Machine) -> tuple[str, str]:
    """The strongest that works for processes, and why others do not."""
    found = []
    others = () if machine.is_root and not asked.allow_root_jobs else (SANDBOX, LANDLOCK)
    for mode in (*((USERS,) if machine.is_root else ()), *others):
        why = _why_not(mode, asked, machine)
        if not why:
            return mode, ""
        found.append(f"{mode}: {why}")
    if machine.is_root and not asked.allow_root_jobs:
        raise UsageFault(
            f"jobs of this server would run as root ({'; '.join(found)}); run it as another user, "
            "or set allow_root_jobs = true in [isolation]"
        )
    return NONE, "; ".join(found)


def _why_not(mode: str, asked: Asked, machine: Machine) -> str:
    if mode == CONTAINER:
        return machine.no_containers
    if mode == USERS and not machine.is_root:
        return "only root can run programs as other users"
    if mode != USERS and machine.is_root and not asked.allow_root_jobs:
        return "jobs would run as root, and allow_root_jobs is not true"
    return "" if mode == NONE else machine.try_mode(mode, asked.uids[0])


def _warning(why: str) -> str:
    because = f" ({why})" if why else ""
    return (
        f"isolation none{because}: this job's programs run as the server's user and can read and "
        "change what that user can, other projects' files and the server's tokens too"
    )


@functools.cache
def tried(mode: str, uid: int, refused_calls: tuple[str, ...] = CALL_FAMILIES) -> str:
    """Why the walls of a mode cannot be built here; empty where they hold."""
    with tempfile.TemporaryDirectory() as folder:
        words = mode, folder, str(uid), ",".join(refused_calls)
        return run_trial("trainshed.engines.isolation.trial", *words)
