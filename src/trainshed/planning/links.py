"""Decides what a plan knows of the links between the hosts of one kind.

A link is known if several hosts or a stream between two hosts were measured, or if the user gives
its rate.  The network of a machine type of Google's catalog is an assumption: jobs name such types
also where they run on the owner's machines (docs/decisions/0104-unknown-links-are-a-range.md).
Of unknown links the planner evaluates a slow and a fast one, in place of a single assumed rate.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from trainshed.catalog.machines import egress_gbps, known_machines
from trainshed.planning.measured_hosts import is_same
from trainshed.planning.plan_request import CATALOG, PlanRequest
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.fitting import calibrated, timed
from trainshed.planning.scaling.parameters import parameters
from trainshed.planning.scaling.posterior import Posterior, posterior
from trainshed.planning.scaling.prediction import NoPrediction

#: The rates of unknown links, in Gbit/s.
SLOW_GBPS: Final = 1.0
FAST_GBPS: Final = 100.0
#: The note on figures for unknown links.
UNKNOWN_LINKS: Final = f"links of {SLOW_GBPS:g} to {FAST_GBPS:g} Gbit/s assumed"
_GIGABIT: Final = 1.25e8


@dataclass(frozen=True, kw_only=True)
class HostLinks:
    """One kind of host with its links, and the calibration that predicts it."""

    host: HostKind
    calibration: Calibration | None = None
    refused: NoPrediction | None = None
    """The reason why several hosts cannot be predicted, if there is one."""
    ends: tuple["HostLinks", ...] = ()
    """The same with slow and with fast links, if the links are unknown; else empty."""

    @cached_property
    def posterior(self) -> Posterior | None:
        """The posterior of the calibration; None if no step was timed."""
        if self.calibration is None or "compute_s" not in self.calibration.fitted.values:
            return None
        return posterior(self.calibration, parameters())


_NOT_IN_CATALOG: Final = NoPrediction(
    field="network-gbps",
    message="the catalog has no network of these hosts",
    accepted="--network-gbps GBPS, the nominal rate of the network of one host",
)


def measure_links(file: str | None) -> str:
    """Return the command that measures the links for a job's file, or without a file."""
    return f"trainshed plan calibrate --on-server {file} --hosts 1,2" if file else "iperf3 -c HOST"


def links_of(calibration: Calibration, kind: HostKind, request: PlanRequest) -> HostLinks:
    """Return hosts of a kind with links that were measured or are given, else with both ends."""
    host = _host_of(calibration.host, kind)
    if request.network_gbps == CATALOG and not _catalog_gbps(kind):
        return HostLinks(host=host, calibration=calibration, refused=_NOT_IN_CATALOG)
    if nominal := network_gbps(calibration, kind, request):
        return _with_rate(calibration, host, nominal, request.stream_gbps)
    is_measured = _is_same_machine(calibration.host, kind)
    if is_measured and any(run.hosts > 1 for run in timed(calibration.runs)):
        return HostLinks(host=host, calibration=calibration)
    ends = (_with_rate(calibration, host, rate) for rate in (SLOW_GBPS, FAST_GBPS))
    return HostLinks(host=host, calibration=calibration, ends=tuple(ends))


def network_gbps(calibration: Calibration, kind: HostKind, request: PlanRequest) -> float:
    """Return the nominal rate of hosts of a kind; 0 if it was neither measured nor given."""
    is_measured = _is_same_machine(calibration.host, kind)
    host = _host_of(calibration.host, kind)
    given = _catalog_gbps(kind) if request.network_gbps == CATALOG else request.network_gbps
    probe = request.stream_gbps or (_probed_gbps(calibration) if is_measured else 0.0)
    stated = 0.0 if host.network_assumed else host.network_gbps
    return max(float(given) or stated, probe)


def _is_same_machine(measured: HostKind, kind: HostKind) -> bool:
    """Whether a kind is of the measured machine type, with any number of accelerators."""
    return is_same(measured, replace(kind, per_host=measured.per_host))


def _host_of(measured: HostKind, kind: HostKind) -> HostKind:
    """Return the hosts to predict: the measured ones, or others with the network that they have."""
    if is_same(measured, kind):
        return measured
    if not _is_same_machine(measured, kind):
        return kind
    gbps, is_assumed = measured.network_gbps, measured.network_assumed
    return replace(kind, network_gbps=gbps, network_assumed=is_assumed)


def _catalog_gbps(kind: HostKind) -> float:
    """Return the network of a machine type of the catalog; 0 if it is not known."""
    if kind.network_assumed:
        return kind.network_gbps
    machine = known_machines().get(kind.machine_type)
    return (egress_gbps(machine) if machine else None) or 0.0


def _probed_gbps(calibration: Calibration) -> float:
    """Return the rate of the stream between two hosts that was measured; 0 without one."""
    return max((run.link_bytes / _GIGABIT for run in calibration.of(RunKind.LINK)), default=0.0)


def _with_rate(
    calibration: Calibration, host: HostKind, gbps: float, stream_gbps: float = 0.0
) -> HostLinks:
    """Return hosts with a network of ``gbps``, and a stream of ``stream_gbps`` if it is above 0.

    The calibration is fitted again for that network.  If it was measured on another network, it
    stays: the share of the nominal rate that its training reaches holds for the new network too.
    """
    measured = calibration.host
    planned = replace(host, network_gbps=gbps, network_assumed=False)
    is_stated = measured.network_gbps > 0 and not measured.network_assumed
    is_other_network = planned != measured and _crosses(calibration)
    is_other_network &= is_stated or host != measured
    if (is_other_network or planned == measured) and not stream_gbps:
        return HostLinks(host=planned, calibration=calibration)
    at_rate = replace(measured, network_gbps=gbps, network_assumed=False)
    runs = _with_stream(calibration.runs, stream_gbps) if stream_gbps else calibration.runs
    refit = calibrated(calibration.training, at_rate, runs)
    refit = replace(refit, trainer_digest=calibration.trainer_digest, date=calibration.date)
    return HostLinks(host=planned, calibration=refit)


def _crosses(calibration: Calibration) -> bool:
    """Whether a run used the network between hosts."""
    runs = (*timed(calibration.runs), *calibration.of(RunKind.LINK))
    return any(run.hosts > 1 for run in runs)


def _with_stream(runs: Iterable[Run], gbps: float) -> tuple[Run, ...]:
    """Return the runs with a stream of this rate in place of the measured one."""
    stream = Run(kind=RunKind.LINK, accelerators=2, hosts=2, link_bytes=gbps * _GIGABIT)
    return (*(run for run in runs if run.kind is not RunKind.LINK), stream)
