"""Chooses the network of a server's jobs, by a trial when the server starts."""

import functools
import ipaddress
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from trainshed.engines.isolation.modes import SANDBOX, USERS
from trainshed.engines.network.kinds import AUTO, HOST, JOB
from trainshed.engines.processes.trial import run_trial
from trainshed.model.faults import UsageFault

_MODES: Final = (USERS, SANDBOX)
_LOG: Final = logging.getLogger(__name__)
#: Variables whose values are not addresses that a program connects to.
_NOT_ADDRESSES: Final = ("NO_PROXY", "no_proxy")


class JobNetwork(NamedTuple):
    """Whether each attempt has a network of its own and, if not, the reason."""

    is_own: bool
    why_not: str = ""

    @property
    def description(self) -> str:
        """The text for logs: ``job``, ``host``, or ``host`` with the reason."""
        if self.is_own:
            return JOB
        return f"{HOST}: {self.why_not}" if self.why_not else HOST


def choose_network(setting: str, mode: str, try_network: Callable[[str], str]) -> JobNetwork:
    """Choose the network for an isolation mode; ``try_network`` returns why it does not work.

    Raises UsageFault if the setting asks for a network that does not work.
    """
    if setting == HOST:
        return JobNetwork(is_own=False)
    if mode not in _MODES:
        accepted = " and ".join(f'"{name}"' for name in _MODES)
        why = f'jobs have a network of their own in the isolation modes {accepted}, not in "{mode}"'
    else:
        why = try_network(mode)
    if why and setting != AUTO:
        raise UsageFault(
            f'[isolation] network is "{setting}", which does not work on this machine: {why}'
        )
    return JobNetwork(not why, why)


@functools.cache
def try_network(mode: str) -> str:
    """Return why jobs cannot have networks of their own on this machine; empty if they can."""
    return run_trial("trainshed.engines.network.trial", mode)


def warn_of_loopback(variables: Mapping[str, str]) -> None:
    """Log each variable of jobs and builders that names an address on the machine's loopback.

    For example a proxy or a package index: jobs with networks of their own cannot reach it.
    """
    for name, value in variables.items():
        if name not in _NOT_ADDRESSES and any(_is_on_loopback(word) for word in value.split()):
            _LOG.warning(
                "jobs cannot reach the address in %s: it is on the loopback of this machine, and "
                "jobs have networks of their own; set another address, or set "
                '[isolation] network = "%s"',
                name,
                HOST,
            )


def _is_on_loopback(word: str) -> bool:
    host = None
    with suppress(ValueError):
        host = urlsplit(word).hostname
    if not host:
        return False
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")
