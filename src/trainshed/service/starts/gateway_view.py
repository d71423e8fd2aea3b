"""Describes the gateway as the replicas of a job reach it."""

from collections.abc import Collection, Mapping
from typing import Final

from trainshed.engines.base import Traits
from trainshed.engines.container_runtime import CHILDREN_OF_CLIENT
from trainshed.model.faults import TransientFault
from trainshed.model.gateway import LABEL, OFF, GatewaySight
from trainshed.model.job import JobSpec
from trainshed.model.network import NetworkLayout
from trainshed.model.roles import Role
from trainshed.service.gateway.places import (
    METADATA_NAMES,
    GatewayPlace,
    OpenGateway,
    sight_in_network,
    sight_of,
)

#: No server listens at it in a container that has a network of its own.
_CLOSED: Final = "127.0.0.1"


def find_gateway(  # noqa: PLR0913, PLR0917 - what the answer depends on
    spec: JobSpec,
    contained: Collection[Role],
    traits: Traits,
    layout: NetworkLayout | None,
    open_gateway: OpenGateway,
    proxies: Mapping[str, str],
) -> GatewaySight | None:
    """Return the addresses by which replicas reach the gateway; None for a job without one.

    Raises TransientFault while another program has its port, for a job with the machine's network.
    """
    if spec.labels.get(LABEL) == OFF or (place := open_gateway()) is None:
        return None
    if place.refusal and layout is None:
        raise TransientFault(place.refusal)
    if _is_cut_off(spec, contained, traits):
        return _sight_by_bridge(place, traits.bridge, proxies)
    has_processes = len(contained) < sum(1 for group in spec.groups if group.count)
    has_names = not has_processes or traits.has_names
    describe = sight_of if layout is None else sight_in_network
    return describe(place, has_names=has_names, proxies=proxies)


def has_daemon(contained: Collection[Role], traits: Traits) -> bool:
    """Whether a daemon, such as docker's, starts the job's containers and makes their network."""
    runtime = traits.containers.runtime
    return bool(contained and runtime and runtime.name not in CHILDREN_OF_CLIENT)


def _sight_by_bridge(
    place: GatewayPlace, bridge: str | None, proxies: Mapping[str, str]
) -> GatewaySight | None:
    if bridge is None or bridge not in place.also:
        return None
    sight = sight_of(place._replace(host=bridge), proxies=proxies)
    return sight._replace(closed=tuple((_CLOSED, name) for name in METADATA_NAMES))


def _is_cut_off(spec: JobSpec, contained: Collection[Role], traits: Traits) -> bool:
    """Whether the job runs in a container that cannot reach the machine's loopback."""
    runtime = traits.containers.runtime
    return bool(
        has_daemon(contained, traits)
        and runtime is not None
        and runtime.is_isolated
        and spec.replica_count == 1
    )
