"""Groups the ranks of a host, which sum their gradients first, so that a host sends each only once.

The first rank of a host, its leader, is the worker of the reducers.  The other ranks exchange with
the leader through the host's memory or the links between its GPUs.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Mapping, NamedTuple, Sequence

from torch._C._distributed_c10d import PrefixStore, ProcessGroup, Store

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_inner import inner_group

#: Whether the ranks of a host sum first: 1, 0, or auto (only if every rank has CUDA).
LOCAL = contract.TRAINSHED_REDUCTION_LOCAL
#: The name of this rank's host, if it is not the system's host name.
HOSTNAME = contract.TRAINSHED_REDUCTION_HOSTNAME
AUTO = "auto"


class Layout(NamedTuple):
    """The ascending ranks of every host; the first rank of a host is its leader."""

    hosts: list[list[int]]

    def host_of(self, rank: int) -> int:
        """Return the index of a rank's host."""
        return next(place for place, ranks in enumerate(self.hosts) if rank in ranks)

    @property
    def shared(self) -> bool:
        """Return whether any host has more than one rank."""
        return any(len(ranks) > 1 for ranks in self.hosts)


class LocalGroups(NamedTuple):
    """The groups of one host's ranks; its leader has rank 0 in each.

    The three groups have different orders of messages: sums are in the order of calls, the news of
    rounds and their results in the order in which rounds end.
    """

    sums: ProcessGroup
    news: ProcessGroup
    results: ProcessGroup
    is_leader: bool

    def close(self) -> None:
        """Shut the groups down; gloo closes connections with the last reference or the process."""
        for group in (self.sums, self.news, self.results):
            group.shutdown()


def hostname_of(environ: Mapping[str, str]) -> str:
    """Return the name of this rank's host."""
    return environ.get(HOSTNAME) or socket.gethostname()


def local_setting(environ: Mapping[str, str]) -> str:
    """Read ``1``, ``0`` or ``auto``; :class:`ReductionError` for any other value."""
    setting = environ.get(LOCAL) or AUTO
    if setting not in ("0", "1", AUTO):
        raise ReductionError(f"{LOCAL} must be 1, 0 or {AUTO}, got {setting!r}")
    return setting


def layout_of(names: Sequence[str], setting: str, *, cuda: bool) -> Layout:
    """Group the ranks by host name; if a host's ranks do not sum first, each rank is a host.

    ``cuda`` is whether every rank has CUDA: only then is the sum within a host fast.
    """
    if setting == "0" or (setting == AUTO and not cuda):
        return Layout([[rank] for rank in range(len(names))])
    hosts: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        hosts.setdefault(name, []).append(rank)
    return Layout(list(hosts.values()))


def local_groups(store: Store, ranks: Sequence[int], rank: int, timeout: timedelta) -> LocalGroups:
    """Connect the ranks of one host."""

    def group(name: str) -> ProcessGroup:
        prefix = PrefixStore(f"host-of-{ranks[0]}/{name}", store)
        return inner_group(prefix, ranks.index(rank), len(ranks), timeout).group

    is_leader = rank == ranks[0]
    return LocalGroups(group("sums"), group("news"), group("results"), is_leader)
