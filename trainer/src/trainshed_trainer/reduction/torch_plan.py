"""Plans a group from the settings of rank 0 and the addresses of all ranks."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import torch

from trainshed_trainer import contract
from trainshed_trainer.reduction.links import Address
from trainshed_trainer.reduction.places import reducers_of
from trainshed_trainer.reduction.torch_addresses import own_address
from trainshed_trainer.reduction.torch_hosts import Layout, hostname_of, layout_of, local_setting
from trainshed_trainer.reduction.torch_route import route_setting
from trainshed_trainer.reduction.torch_staging import staging_max


@dataclass(frozen=True)
class ExchangePlan:
    """The settings of rank 0, and the properties of all ranks."""

    epoch: int
    reducers: Sequence[Address]
    route: str
    token: str | None
    layout: Layout
    addresses: Sequence[str]
    staging: Sequence[int]
    workers_reduce: bool

    @property
    def hybrid(self) -> bool:
        """Whether workers reduce too: if reducers are few or slow (docs/sources/reduction.md 1)."""
        return self.workers_reduce or len(self.reducers) < len(self.layout.hosts)

    @property
    def one_machine(self) -> bool:
        """Whether all ranks have the same address, so that reducers save no network traffic."""
        return len(set(self.addresses)) == 1

    def __str__(self) -> str:
        """Return the text for the log."""
        workers = f"{len(self.layout.hosts)} workers"
        if self.layout.shared:
            ranks = sum(len(host) for host in self.layout.hosts)
            workers = f"{len(self.layout.hosts)} hosts of {ranks} ranks"
        role = ", which reduce a share each" if self.hybrid else ""
        return f"{workers}{role}, and {len(self.reducers)} reducers"


def describe_rank(
    rank: int, environ: Mapping[str, str], *, workers_reduce: bool = False
) -> dict[str, Any]:
    """Describe a rank for the other ranks; the description of rank 0 includes the settings.

    With ``workers_reduce``, workers reduce for any number of reducers.
    """
    reducers = reducers_of(environ)
    word: dict[str, Any] = {
        "host": hostname_of(environ),
        "cuda": torch.cuda.is_available(),
        "address": own_address(environ, reducers),
        "staging": staging_max(environ),
    }
    if rank == 0:
        has_token = contract.TRAINSHED_REDUCTION_TOKEN in environ or (
            contract.TRAINSHED_REDUCTION_TOKEN_FILE in environ
        )
        word.update(
            epoch=time.time_ns(),
            reducers=reducers,
            route=route_setting(environ),
            asked=workers_reduce,
            local=local_setting(environ),
            # without reducers only ranks of this group need a token, so rank 0 may create it
            token=None if reducers or has_token else secrets.token_hex(32),
        )
    return word


def make_plan(words: Sequence[Mapping[str, Any]]) -> ExchangePlan:
    """Make the plan from the descriptions of all ranks; it is the same on every rank."""
    first = words[0]
    names = [word["host"] for word in words]
    cuda = all(word["cuda"] for word in words)
    return ExchangePlan(
        epoch=first["epoch"],
        reducers=[(host, port) for host, port in first["reducers"]],
        route=first["route"],
        token=first["token"],
        layout=layout_of(names, first["local"], cuda=cuda),
        addresses=[word["address"] for word in words],
        staging=[word["staging"] for word in words],
        workers_reduce=first["asked"],
    )
