"""Hosts of a benchmark that are the network namespaces which a server makes for a job's replicas.

They have the interface of `shaped_network.Network`, without a rate.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.reduction.shaped_network import Network, ends_on_signals, path_of
from trainshed.engines.network.namespaces import enter_namespace, make_namespaces
from trainshed.engines.network.rule import NetworkRule, replica_address


@dataclass(kw_only=True)
class JobHosts(Network):
    """The replicas of one job, which share a network or have one each."""

    is_shared: bool
    rate_mbit: float | None = None

    @property
    def interface(self) -> str:
        """Return the name of the network interface with a host's address."""
        return "lo" if self.is_shared else "eth0"

    @property
    def has_own_ports(self) -> bool:
        """Every host has an address of its own, with all ports."""
        return True

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return replica_address(host)

    def enter(self, host: int) -> None:
        """Move the calling thread to a host."""
        enter_namespace(None, self.hosts[host])

    def _inside(self, host: int | None) -> list[str]:
        namespace = self.switch if host is None else self.hosts[host]
        return ["nsenter", f"--net={path_of(namespace)}", "--"]


@contextmanager
def job_hosts(count: int, *, is_shared: bool) -> Iterator[JobHosts]:
    """So many hosts, as the supervisor of a job makes them for replicas.

    Raises:
        OSError: this machine does not allow it.

    """
    addresses = tuple(replica_address(host) for host in range(count))
    spaces = make_namespaces(NetworkRule(addresses, shared=is_shared), owns_user=False)
    hosts = [spaces.of_replica(host).net for host in range(count)]
    group = JobHosts(is_shared=is_shared, switch=spaces.hub.net, hosts=hosts)
    with ends_on_signals():
        try:
            yield group
        finally:
            group.end_children()
            for namespace in {group.switch, *group.hosts}:
                os.close(namespace)
            os.close(spaces.routes)
