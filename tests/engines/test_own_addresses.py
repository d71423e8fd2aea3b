"""Replicas that have a network of their own get fixed addresses, and ports that never collide."""

import os
from dataclasses import replace

import pytest

from engines.support import cluster, plan_of
from trainshed.engines.base import ReplicaShape
from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.attempts.plan_file import ReplicaSite
from trainshed.engines.network.addresses import network_rule, own_addresses
from trainshed.engines.network.rule import REPLICAS_MAX, NetworkRule
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import NetworkPlan
from trainshed.model.network import NetworkLayout
from trainshed.model.roles import Role

#: In the order of ports, which is not that of a plan.
SHAPE = (
    ReplicaShape(Role.PRIMARY, 0),
    ReplicaShape(Role.PARAMETER_SERVER, 0),
    ReplicaShape(Role.WORKER, 0),
    ReplicaShape(Role.WORKER, 1),
    ReplicaShape(Role.REDUCER, 0, ports=4),
    ReplicaShape(Role.EVALUATOR, 0),
)


def test_each_replica_has_googles_ports_where_it_has_a_namespace_for_itself():
    addresses = own_addresses(SHAPE, NetworkLayout.REPLICA)
    assert list(addresses) == [(replica.role, replica.index) for replica in SHAPE]
    assert {address.port for address in addresses.values()} == {2222}
    assert {address.rendezvous_port for address in addresses.values()} == {3333}
    assert addresses[Role.PRIMARY, 0].text == "198.18.1.16:2222"
    assert addresses[Role.WORKER, 0].host == "198.18.1.17", "the order of a plan: primary, workers"
    assert addresses[Role.PARAMETER_SERVER, 0].host == "198.18.1.19"


@pytest.mark.parametrize("procs", [1, 32])
def test_no_port_is_taken_twice_in_a_namespace_of_all_replicas(procs):
    shape = [ReplicaShape(Role.PRIMARY, 0)]
    shape += [ReplicaShape(Role.REDUCER, index, procs) for index in range(200)]
    addresses = own_addresses(shape, NetworkLayout.JOB)
    ports = [
        addresses[replica.role, replica.index].port + place
        for replica in shape
        for place in range(replica.ports)
    ]
    ports.append(addresses[Role.PRIMARY, 0].rendezvous_port)
    assert len(set(ports)) == len(ports)
    assert len({address.host for address in addresses.values()}) == len(shape)


@pytest.mark.parametrize("layout", NetworkLayout)
def test_addresses_are_the_same_whenever_they_are_asked_for(layout):
    assert own_addresses(SHAPE, layout) == own_addresses(SHAPE, layout)


def test_more_replicas_than_addresses_are_refused_with_what_to_do():
    shape = [ReplicaShape(Role.WORKER, index) for index in range(REPLICAS_MAX + 1)]
    assert len(own_addresses(shape[:-1], NetworkLayout.JOB)) == REPLICAS_MAX
    with pytest.raises(EngineFault, match=r'at most 751 replicas, got 752.*network = "host"'):
        own_addresses(shape, NetworkLayout.JOB)


def test_a_plan_without_a_network_of_its_own_asks_for_no_namespaces():
    assert network_rule(None) is None


@pytest.mark.parametrize("layout", NetworkLayout)
def test_a_plan_s_network_becomes_the_rule_of_its_supervisor(layout):
    addresses = ("198.18.1.16", "198.18.1.17")
    rule = network_rule(NetworkPlan(layout=layout, addresses=addresses))
    assert rule == NetworkRule(addresses, shared=layout is NetworkLayout.JOB)


def test_replicas_with_a_network_each_have_host_names_that_lead_to_them():
    """Torchrun tells the other replicas the host name of the first."""
    plan = _plan(NetworkLayout.REPLICA)
    specs = _replicas(plan)
    assert [spec.host_name for spec in specs] == ["replica-0", "replica-1", "replica-2"]
    assert {spec.hosts for spec in specs} == {plan.hosts}


def test_replicas_that_share_a_network_share_a_host_name_that_leads_to_the_primary():
    plan = _plan(NetworkLayout.JOB)
    specs = _replicas(plan)
    assert {spec.host_name for spec in specs} == {""}
    assert {spec.hosts[0] for spec in specs} == {("198.18.1.16", os.uname().nodename)}


def test_on_the_machine_s_network_replicas_have_the_plan_s_names_alone():
    plan = replace(_plan(NetworkLayout.JOB), network=None)
    assert {(spec.host_name, spec.hosts) for spec in _replicas(plan)} == {("", plan.hosts)}


def _plan(layout):
    addresses = ("198.18.1.16", "198.18.1.17", "198.18.1.18")
    hosts = [(address, f"replica-{index}") for index, address in enumerate(addresses)]
    hosts += [(address, f"other-{index}") for index, address in enumerate(addresses)]
    network = NetworkPlan(layout=layout, addresses=addresses)
    return plan_of(cluster("", "", ""), network=network, hosts=tuple(hosts))


def _replicas(plan):
    site = ReplicaSite(key=AttemptKey(7, 1), folder=AttemptFolder("/jobs/7/1"))
    return plan_file.outlines_of(site, plan)
