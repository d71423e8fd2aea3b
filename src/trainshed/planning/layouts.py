"""Lays counts of accelerators out on hosts: more of them in one host first, then more hosts.

A machine type of the catalog may have several counts of an accelerator, so eight GPUs of a job
with one GPU a host are first eight GPUs of one host.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.scaling.cluster import HostKind
from trainshed.planning.scaling.prediction import NoPrediction

#: The largest default count.
_LARGEST_MAX: Final = 1 << 20
#: Without a job's own count, the default counts end at this many full hosts.
_HOSTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A count of accelerators on hosts of one kind."""

    host: HostKind
    accelerators: int

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return math.ceil(self.accelerators / self.host.per_host)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostType:
    """Hosts of one machine type: the usual host, and the same with other accelerator counts."""

    host: HostKind
    variants: tuple[HostKind, ...] = ()
    """The hosts of this type with each count that it may have; empty: it may have any."""

    def holding(self, per_host: int) -> HostKind:
        """Return the host with ``per_host`` accelerators, whether or not the catalog has it."""
        variants = (kind for kind in self.variants if kind.per_host == per_host)
        return next(variants, None) or replace(self.host, per_host=per_host)

    def filled(self, accelerators: int) -> HostKind:
        """Return the host to use for a count: the largest that the count fills exactly."""
        if accelerators <= self.host.per_host:
            return self.host
        fitting = [self.host, *(kind for kind in self.variants if not accelerators % kind.per_host)]
        return max(fitting, key=lambda kind: kind.per_host)

    def comparable(self, accelerators: int) -> Layout:
        """Return the layout of a count, or of the next count that fills hosts of this type."""
        host = self.filled(accelerators)
        per_host = min(accelerators, host.per_host)
        if self.refuse(per_host) or accelerators % per_host:
            accelerators = -(-accelerators // host.per_host) * host.per_host
        return Layout(host=host, accelerators=accelerators)

    def refuse(self, per_host: int) -> NoPrediction | None:
        """Return why a host of the catalog cannot have this many accelerators, or None."""
        if self.host.accelerator == "CPU" and per_host > self.host.per_host:
            return NoPrediction(
                field="gpus-per-host",
                message=f"{per_host} replicas on one host would share its processors, which was "
                "not measured",
                accepted="hosts=N; or trainshed plan calibrate --processes N",
            )
        counts = [kind.per_host for kind in self.variants]
        if not counts or per_host in counts:
            return None
        return NoPrediction(
            field="gpus",
            message=f"{self.host.machine_type} cannot have {per_host} {self.host.accelerator}",
            accepted=f"{' or '.join(map(str, counts))} on each host",
        )


def requested_layouts(
    host_type: HostType, request: PlanRequest, own_hosts: int
) -> Iterator[Layout]:
    """Yield what ``--what-if`` asks of a host_type; hosts default to ``own_hosts``, else one."""
    for accelerators in request.counts("gpus"):
        yield Layout(host=host_type.filled(accelerators), accelerators=accelerators)
    per_hosts = request.counts("gpus-per-host")
    hosts = request.counts("hosts") or ((own_hosts or 1,) if per_hosts else ())
    for per_host in per_hosts or (host_type.host.per_host,):
        for count in hosts:
            yield Layout(host=host_type.holding(per_host), accelerators=count * per_host)


def usual_layouts(host_type: HostType, own_count: int) -> Iterator[Layout]:
    """Yield powers of two, up to twice the job's own count (0 if unknown)."""
    per_host = host_type.host.per_host
    most = 2 * own_count or _HOSTS * per_host
    for power in range(_LARGEST_MAX.bit_length()):
        accelerators = 1 << power
        layout = Layout(host=host_type.filled(accelerators), accelerators=accelerators)
        is_partial = accelerators < per_host and host_type.refuse(accelerators) is None
        if accelerators <= most and (is_partial or not accelerators % layout.host.per_host):
            yield layout
