"""Assigns addresses and ports to replicas, on the machine's loopback or in a network of their own.

In a network of its own, every job has the same addresses.  Replicas that share a namespace also get
different ports, since a program that listens on all addresses uses its port on each of them.
"""

from collections.abc import Iterator, Sequence

from trainshed.engines.base import ReplicaShape
from trainshed.engines.network.rule import REPLICAS_MAX, NetworkRule, replica_address
from trainshed.engines.processes.ports import free_runs
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Address, NetworkPlan
from trainshed.model.network import CLUSTER_PORT, RENDEZVOUS_PORT, NetworkLayout
from trainshed.model.roles import Role

_ROLES = tuple(Role)
_LOOPBACK = "127.0.0.1"


def own_addresses(
    shape: Sequence[ReplicaShape], layout: NetworkLayout
) -> dict[tuple[Role, int], Address]:
    """Give each replica an address and its first port, by their order in a launch plan.

    Raises EngineFault for more replicas than there are addresses.
    """
    if len(shape) > REPLICAS_MAX:
        message = f"a job with its own network must have at most {REPLICAS_MAX} replicas, got"
        raise EngineFault(f'{message} {len(shape)}; set [isolation] network = "host"')
    in_order = sorted(shape, key=lambda replica: (_ROLES.index(replica.role), replica.index))
    ports = _ports(in_order, layout)
    addresses = {
        (replica.role, replica.index): Address(
            host=replica_address(index), port=port, rendezvous_port=RENDEZVOUS_PORT
        )
        for index, (replica, port) in enumerate(zip(in_order, ports, strict=True))
    }
    return {
        (replica.role, replica.index): addresses[replica.role, replica.index] for replica in shape
    }


def loopback_addresses(
    shape: Sequence[ReplicaShape], start: int | None = None
) -> dict[tuple[Role, int], Address]:
    """Give each replica a free port of the machine's loopback; all share a rendezvous port.

    With ``start``, the ports are consecutive from that port.  Raises EngineFault when a port is in
    use.
    """
    *ports, rendezvous = free_runs((*(replica.ports for replica in shape), 1), start)
    return {
        (replica.role, replica.index): Address(
            host=_LOOPBACK, port=port, rendezvous_port=rendezvous
        )
        for replica, port in zip(shape, ports, strict=True)
    }


def network_rule(plan: NetworkPlan | None) -> NetworkRule | None:
    """Return the namespaces of an attempt's plan; None: the attempt has the machine's network."""
    if plan is None:
        return None
    return NetworkRule(
        addresses=plan.addresses, shared=plan.layout is NetworkLayout.JOB, listeners=plan.listeners
    )


def _ports(shape: Sequence[ReplicaShape], layout: NetworkLayout) -> Iterator[int]:
    """Yield the first of each replica's consecutive ports, which leave out the rendezvous port."""
    port = CLUSTER_PORT
    for replica in shape:
        if port <= RENDEZVOUS_PORT < port + replica.ports:
            port = RENDEZVOUS_PORT + 1
        yield port
        if layout is NetworkLayout.JOB:
            port += replica.ports
