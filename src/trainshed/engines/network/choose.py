"""Which network the jobs of a server have: by trying it at the start, within a bound."""

import functools
from collections.abc import Callable
from typing import Final, NamedTuple

from trainshed.engines.isolation_modes import SANDBOX, USERS
from trainshed.engines.network.kinds import AUTO, HOST, JOB
from trainshed.engines.processes.trial import run_trial
from trainshed.model.faults import UsageFault

_MODES: Final = (USERS, SANDBOX)


class JobNetwork(NamedTuple):
    """Whether each attempt has a network of its own; if not, why."""

    is_own: bool
    why_not: str = ""

    @property
    def description(self) -> str:
        """For people: ``job``, ``host``, or ``host`` with the reason."""
        if self.is_own:
            return JOB
        return f"{HOST}: {self.why_not}" if self.why_not else HOST


def choose_network(setting: str, mode: str, try_network: Callable[[str], str]) -> JobNetwork:
    """Decide for an isolation mode; ``try_network`` says why that has none here.

    Raises UsageFault where the setting asks for a network that cannot be had.
    """
    if setting == HOST:
        return JobNetwork(is_own=False)
    if mode not in _MODES:
        accepted = " and ".join(f'"{name}"' for name in _MODES)
        why = f'jobs have a network of their own in the isolation modes {accepted}, not in "{mode}"'
    else:
        why = try_network(mode)
    if why and setting != AUTO:
        raise UsageFault(f'[isolation] network is "{setting}", which does not work here: {why}')
    return JobNetwork(not why, why)


@functools.cache
def try_network(mode: str) -> str:
    """Why jobs cannot have a network of their own here; empty where they can."""
    return run_trial("trainshed.engines.network.trial", mode)
