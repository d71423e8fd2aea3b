"""Decides which addresses replicas use to reach each other, from the reports of their wardens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.engines.supervise.record.spec import ReplicaMarks, ReplicaSpec
from trainshed.engines.warden.marks import filled

LOOPBACK: Final = "127."


class Arrival(NamedTuple):
    """A warden that has connected and has prepared its node."""

    node: str
    address: str
    """The warden's address in its connection to the launcher."""
    first_port: int
    rendezvous_port: int


def resolve_marks(
    arrivals: Sequence[Arrival], marks: Sequence[ReplicaMarks], outside: Callable[[], str]
) -> dict[str, str]:
    """Map every mark to the address or port that it stands for.

    ``outside`` returns an address of the launcher's node that other nodes can reach, or "".
    It may wait for DNS, so it is called only for a warden that needs it.
    """
    replacements = {}
    for arrival, own in zip(arrivals, marks):
        replacements[own.host] = _address_of(arrival, arrivals, outside)
        ports = {mark: arrival.first_port + index for index, mark in enumerate(own.ports)}
        if own.rendezvous:
            ports[own.rendezvous] = arrival.rendezvous_port
        replacements.update((str(mark), str(port)) for mark, port in ports.items())
    return replacements


def fill_marks(replica: ReplicaSpec, replacements: Mapping[str, str]) -> ReplicaSpec:
    """Replace the marks in a replica's command, environment variables and host names."""
    return replica._replace(
        argv=tuple(filled(word, replacements) for word in replica.argv),
        env={name: filled(text, replacements) for name, text in replica.env.items()},
        hosts=tuple((filled(address, replacements), name) for address, name in replica.hosts),
    )


def _address_of(arrival: Arrival, arrivals: Sequence[Arrival], outside: Callable[[], str]) -> str:
    """Return a warden's address, or ``outside()`` in place of loopback for other nodes."""
    is_one_node = len({peer.node for peer in arrivals}) == 1
    if is_one_node or not arrival.address.startswith(LOOPBACK):
        return arrival.address
    return outside() or arrival.address
