"""Connects the ranks of a group to the reducers, to the ranks' own reducers, and to each other.

The settings of rank 0 apply to all ranks, so that every rank forms the same group.  A step that
fails on one rank fails on all ranks.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Mapping, Sequence

from torch._C._distributed_c10d import Store

from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.reducer import Reducer
from trainshed_trainer.reduction.torch_exchange import Carrier, Exchange
from trainshed_trainer.reduction.torch_inner import RankChannel
from trainshed_trainer.reduction.torch_plan import ExchangePlan, describe_rank, make_plan
from trainshed_trainer.reduction.torch_rank_setup import RankSetup
from trainshed_trainer.reduction.torch_report import Meter, ReportWriter, document, say

#: Longest silence of a reducer or a worker, in seconds, even if the group's timeout is longer.
TIMEOUT_S = 60.0
#: Seconds that a worker's own reducer waits for the others to leave.
LINGER_S = 10.0


@dataclass
class Lineup:
    """A rank's part in a group that reduces; ``exchange`` sums its tensors."""

    exchange: Exchange
    client: Client | None
    carrier: Carrier | None
    own: Reducer | None
    plan: ExchangePlan
    reports: list[ReportWriter] = field(default_factory=list)

    def report_to(self, path: str | None) -> None:
        """Start to count, and write the achieved rate to ``path``; only rank 0 does this."""
        client, carrier = self.client, self.carrier
        if path and client and carrier and client.group.rank == 0:
            meter = carrier.meter = Meter()
            world, reducers = len(self.plan.layout.hosts), len(self.plan.reducers)
            self.reports.append(
                ReportWriter(
                    Path(path),
                    lambda: document(meter, client.rates, world=world, reducers=reducers),
                )
            )

    def close(self, linger: float = LINGER_S) -> None:
        """Leave; this rank's reducer ends with the last worker, or after ``linger`` seconds."""
        self.exchange.close()
        for report in self.reports:
            report.close()
        if self.own:
            self.own.wait_over(linger)
            self.own.close()


def form_lineup(
    control: RankChannel,
    store: Store,
    timeout: timedelta,
    environ: Mapping[str, str] = os.environ,
    *,
    workers_reduce: bool = False,
) -> Lineup | None:
    """Form the group, or return None if reducers are of no use; all ranks must call it.

    ``timeout`` is that of the group.  With ``workers_reduce``, workers reduce for any number of
    reducers.  Raises :class:`ReductionError` on all ranks.
    """
    if control.world == 1:
        return None
    rank = control.rank
    words = control.together(lambda: describe_rank(rank, environ, workers_reduce=workers_reduce))
    plan = make_plan(words)
    if len(plan.layout.hosts) == 1:
        if control.rank == 0:
            say("reducers are not used, because all ranks are on one host")
        return None
    lineup = _join(control, plan, store, timeout, environ)
    if control.rank == 0:
        say(str(plan))
    return lineup


def _join(
    control: RankChannel,
    plan: ExchangePlan,
    store: Store,
    timeout: timedelta,
    environ: Mapping[str, str],
) -> Lineup:
    """Start this rank's own reducer, connect to all, and to the ranks of this host."""
    setup = RankSetup(plan, control.rank, min(TIMEOUT_S, timeout.total_seconds()), environ)
    with contextlib.ExitStack() as undo:
        undo.callback(setup.close)
        _compare(control.together(setup.fingerprint))
        own = [tuple(address) for address in control.together(setup.start_own) if address]
        control.together(lambda: setup.connect(own))
        control.together(lambda: setup.connect_host(store, timeout))
        undo.pop_all()
    return Lineup(setup.exchange(), setup.client, setup.carrier, setup.own, plan)


def _compare(fingerprints: Sequence[str | None]) -> None:
    """Raise if ranks have different tokens; ``None`` is for a rank without a token."""
    for rank, fingerprint in enumerate(fingerprints):
        if fingerprint not in (None, fingerprints[0]):
            raise ReductionError(
                f"worker {rank} has another token than worker 0; give all workers the same one",
                blame=Culprit(Kind.WORKER, rank),
            )


def confirm_by(control: RankChannel, lineup: Lineup | None) -> None:
    """Raise the error of any rank on all ranks; all ranks must call it."""

    def checked() -> None:
        error = lineup.exchange.failed() if lineup else None
        if error:
            raise error

    control.together(checked)
