"""Sets up one rank of a group: its own reducer, its connections, and the group of its host."""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import Mapping, Sequence

from torch._C._distributed_c10d import PrefixStore, Store

from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.links import Address
from trainshed_trainer.reduction.places import token_of
from trainshed_trainer.reduction.reducer import Reducer
from trainshed_trainer.reduction.torch_addresses import choose_reachable, listen_on
from trainshed_trainer.reduction.torch_exchange import Carrier, Exchange
from trainshed_trainer.reduction.torch_hosts import LocalGroups, local_groups
from trainshed_trainer.reduction.torch_plan import ExchangePlan
from trainshed_trainer.reduction.torch_relay import Leader, Member
from trainshed_trainer.reduction.torch_report import say


class RankSetup:
    """The parts of one rank that have been set up so far."""

    def __init__(
        self, plan: ExchangePlan, rank: int, silence: float, environ: Mapping[str, str]
    ) -> None:
        """``silence`` is how many seconds a reducer may be silent."""
        self._plan = plan
        self._rank = rank
        self._silence = silence
        self._environ = environ
        self._host_index = plan.layout.host_of(rank)
        self._ranks = plan.layout.hosts[self._host_index]
        self.own: Reducer | None = None
        self.client: Client | None = None
        self.carrier: Carrier | None = None
        self._groups: LocalGroups | None = None

    def fingerprint(self) -> str | None:
        """Return a fingerprint of a leader's token, to find different tokens before a timeout."""
        if not self._is_leader:
            return None
        return hmac.new(self._token(), b"fingerprint", "sha256").hexdigest()

    def start_own(self) -> Address | None:
        """Start this rank's reducer if workers reduce and it is a leader; return its address."""
        if not self._is_leader or not self._plan.hybrid:
            return None
        mine = self._plan.addresses[self._rank]
        sock = listen_on(choose_reachable(mine, self._plan.addresses, self._environ))
        index = len(self._plan.reducers) + self._host_index
        self.own = Reducer(sock, self._token(), index=index, timeout=self._silence)
        self.own.start()
        return self.own.address

    def connect(self, own: Sequence[Address]) -> None:
        """Connect to all reducers if this rank is the leader of its host."""
        if self._is_leader:
            self.client = Client.connect(
                self._plan.reducers,
                rank=self._host_index,
                world=len(self._plan.layout.hosts),
                epoch=self._plan.epoch,
                token=self._token(),
                timeout=self._silence,
                own=own,
                report=say,
            )
            self.carrier = Carrier(self.client, staging_max=self._plan.staging[self._rank])

    def connect_host(self, store: Store, timeout: timedelta) -> None:
        """Connect to the ranks of this host if the ranks of a host sum first."""
        if self._plan.layout.shared:
            prefix = PrefixStore(f"{self._plan.epoch}", store)
            self._groups = local_groups(prefix, self._ranks, self._rank, timeout)

    def exchange(self) -> Exchange:
        """Return the exchange that sums this rank's tensors; call it after the connections."""
        groups, leader, carrier = self._groups, self._ranks[0], self.carrier
        if carrier and groups:
            return Leader(groups, carrier, self._plan.layout)
        if groups:
            return Member(groups, leader)
        if carrier:
            return carrier
        raise ReductionError(f"worker {self._rank} has neither reducers nor a leader")

    def close(self) -> None:
        """Close the parts that were set up."""
        for resource in (self._groups, self.client, self.own):
            if resource:
                resource.close()

    @property
    def _is_leader(self) -> bool:
        return self._ranks[0] == self._rank

    def _token(self) -> bytes:
        token = self._plan.token
        return token.encode() if token else token_of(self._environ)
