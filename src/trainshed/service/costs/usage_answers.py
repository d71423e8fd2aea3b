"""Responses of the native API on what machines were used for, and what that cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedGpu:
    """A GPU that jobs held."""

    index: int | None
    """The driver's number of the GPU on its node; None: unknown."""
    uuid: str
    type: str
    """Empty: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineHolding:
    """For how long the jobs of a user in a project held a GPU or the machines of a node."""

    project: str
    user: str
    seconds: float
    """GPU-seconds; vCPU-seconds of machines without GPUs."""
    idle_s: float
    """Those of ``seconds`` in which the GPUs ran nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """What some machines were used for.  Seconds are by use; uses without time are absent."""

    key: str
    """The project, user, machine type, day (2026-11-01, UTC), job (``PROJECT/JOB``), node, or node
    with the number of the GPU (``NODE/0``)."""
    user: str
    """The creator of the job; empty for other keys."""
    jobs: int
    gpu_seconds: Mapping[str, float]
    vcpu_seconds: Mapping[str, float]
    """Of machines without GPUs alone."""
    energy_j: float | None
    """Joules of the GPUs; None: not measured."""
    cost: Mapping[str, Any] | None
    """None: no machine was used."""
    other_costs: Sequence[Mapping[str, Any]]
    """Costs in other currencies, which are never added."""
    node: str | None = None
    """In reports by node and GPU: the name of the node; empty: unknown."""
    gpu: UsedGpu | None = None
    """In reports by GPU; None: machines without GPUs, or GPUs that were not measured."""
    holders: Sequence[MachineHolding] | None = None
    """In reports by node and GPU of at most 62 days: the users with the longest time, at most five;
    else None."""
    more_holders: int = 0
    """The number of further users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetUse:
    """How long the GPUs of all nodes were in which state, as servers observed them."""

    gpu_seconds: Mapping[str, float]
    """By state: free, drained, foreign, faulty, held; ``unobserved`` while no server ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The use of machines in some days, by one key."""

    by: str
    since: str
    """The first day, in UTC."""
    until: str
    """The last day."""
    rows: Sequence[MachineUse]
    left_out: int
    """The number of rows beyond the limit; ``total`` includes them."""
    total: MachineUse
    fleet: FleetUse | None
    """None for callers and questions that are limited to one project."""
