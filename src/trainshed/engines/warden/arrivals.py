"""Decides which addresses replicas use to reach each other, from the reports of their wardens."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.engines.supervise.record.spec import ReplicaMarks, ReplicaSpec
from trainshed.engines.warden.marks import replace_marks

LOOPBACK: Final = "127."


class Arrival(NamedTuple):
    """A warden that has connected and has prepared its node."""

    node: str
    address: str
    """The warden's address in its connection to the launcher."""
    first_port: int
    rendezvous_port: int


def resolve_marks(
    arrivals: Sequence[Arrival], marks: Sequence[ReplicaMarks], find_outside: Callable[[], str]
) -> dict[str, str]:
    """Map every mark to the address or port that it stands for.

    ``find_outside`` returns an address of the launcher's node that other nodes can reach, or "".
    This function may wait for DNS, so it is called only for a warden that needs such an address.
    """
    replacements = {}
    for arrival, replica_marks in zip(arrivals, marks):
        replacements[replica_marks.host] = _choose_address(arrival, arrivals, find_outside)
        ports = {mark: arrival.first_port + index for index, mark in enumerate(replica_marks.ports)}
        if replica_marks.rendezvous:
            ports[replica_marks.rendezvous] = arrival.rendezvous_port
        replacements.update((str(mark), str(port)) for mark, port in ports.items())
    return replacements


def fill_marks(replica: ReplicaSpec, replacements: Mapping[str, str]) -> ReplicaSpec:
    """Replace the marks in a replica's command, environment variables and host names."""
    return replica._replace(
        argv=tuple(replace_marks(word, replacements) for word in replica.argv),
        env={name: replace_marks(text, replacements) for name, text in replica.env.items()},
        hosts=tuple(
            (replace_marks(address, replacements), name) for address, name in replica.hosts
        ),
    )


def _choose_address(
    arrival: Arrival, arrivals: Sequence[Arrival], find_outside: Callable[[], str]
) -> str:
    """Return a warden's address, or ``find_outside()`` in place of loopback for other nodes."""
    is_one_node = len({peer.node for peer in arrivals}) == 1
    if is_one_node or not arrival.address.startswith(LOOPBACK):
        return arrival.address
    return find_outside() or arrival.address
