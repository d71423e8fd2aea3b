"""Ranks that share a host send its gradient once: they sum among themselves first.

The host's first rank, its leader, is the worker that the reducers see; the others reach it through
the host's own memory or its GPUs' links.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Mapping, NamedTuple, Sequence

from torch._C._distributed_c10d import PrefixStore, ProcessGroup, Store

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_inner import inner_group

#: Whether ranks of a host sum among themselves first: 1, 0, or auto, which is where CUDA is.
LOCAL = contract.TRAINSHED_REDUCTION_LOCAL
#: The name of this rank's host, where the system's is not it.
HOSTNAME = contract.TRAINSHED_REDUCTION_HOSTNAME
AUTO = "auto"


class Layout(NamedTuple):
    """The ranks of each host, ascending, in the order of their first; the first is the leader."""

    hosts: list[list[int]]

    def host_of(self, rank: int) -> int:
        """The place of a rank's host among all."""
        return next(place for place, ranks in enumerate(self.hosts) if rank in ranks)

    @property
    def shared(self) -> bool:
        """Whether any host has more than one rank."""
        return any(len(ranks) > 1 for ranks in self.hosts)


class LocalGroups(NamedTuple):
    """The groups of one host's ranks; its leader has rank 0 in each.

    There are three since each has an order of its own: sums are given in the order of calls, news
    of rounds and their results in that of their ends.
    """

    sums: ProcessGroup
    news: ProcessGroup
    results: ProcessGroup
    leads: bool

    def close(self) -> None:
        """End them; gloo's connections end with the last reference, or with the process."""
        for group in (self.sums, self.news, self.results):
            group.shutdown()


def hostname_of(environ: Mapping[str, str]) -> str:
    """The host of this rank."""
    return environ.get(HOSTNAME) or socket.gethostname()


def local_setting(environ: Mapping[str, str]) -> str:
    """``1``, ``0`` or ``auto``; :class:`ReductionError` for anything else."""
    setting = environ.get(LOCAL) or AUTO
    if setting not in ("0", "1", AUTO):
        raise ReductionError(f"{LOCAL} is 1, 0 or {AUTO}, not {setting!r}")
    return setting


def layout_of(names: Sequence[str], setting: str, *, cuda: bool) -> Layout:
    """Which ranks share a host, by their hosts' names; each is alone where they shall not sum.

    ``cuda`` says whether every rank has it: only then does the host's own sum cost nothing.
    """
    if setting == "0" or (setting == AUTO and not cuda):
        return Layout([[rank] for rank in range(len(names))])
    hosts: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        hosts.setdefault(name, []).append(rank)
    return Layout(list(hosts.values()))


def local_groups(store: Store, ranks: Sequence[int], rank: int, timeout: timedelta) -> LocalGroups:
    """Connect the ranks of one host with each other."""

    def group(name: str) -> ProcessGroup:
        prefix = PrefixStore(f"host-of-{ranks[0]}/{name}", store)
        return inner_group(prefix, ranks.index(rank), len(ranks), timeout).group

    leads = rank == ranks[0]
    return LocalGroups(group("sums"), group("news"), group("results"), leads)
