"""What PyTorch and JAX are told."""

import pytest

from launch.builders import ml_spec, plan_of, replica_of, vertex_spec
from trainshed.model.launch_plan import Address
from trainshed.model.roles import Role

EVERYBODY = {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 1, Role.EVALUATOR: 1}
TORCH = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
JAX = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


def values_of(replica, names):
    return [replica.env[name] for name in names if name in replica.env]


@pytest.mark.parametrize("make", [ml_spec, vertex_spec])
def test_ranks_start_at_the_primary_and_count_workers_on(make):
    plan = plan_of(make(EVERYBODY))
    assert plan.primary.env["RANK"] == "0"
    assert replica_of(plan, Role.WORKER, 0).env["RANK"] == "1"
    assert replica_of(plan, Role.WORKER, 1).env["RANK"] == "2"
    assert plan.primary.env["WORLD_SIZE"] == "3"


def test_everybody_meets_at_the_primarys_rendezvous_port():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1})
    addresses = {
        (Role.PRIMARY, 0): Address(host="10.0.0.1", port=1000, rendezvous_port=1001),
        (Role.WORKER, 0): Address(host="10.0.0.2", port=2000, rendezvous_port=2001),
    }
    plan = plan_of(spec, addresses=addresses)
    for rank, replica in enumerate(plan.replicas):
        assert values_of(replica, TORCH) == ["10.0.0.1", "1001", str(rank), "2"]
        assert values_of(replica, JAX) == ["10.0.0.1:1001", "2", str(rank)]


@pytest.mark.parametrize("make", [ml_spec, vertex_spec])
@pytest.mark.parametrize("names", [TORCH, JAX])
def test_a_single_replica_is_told_nothing(make, names):
    assert values_of(plan_of(make()).primary, names) == []


@pytest.mark.parametrize("role", [Role.PARAMETER_SERVER, Role.EVALUATOR])
@pytest.mark.parametrize("names", [TORCH, JAX])
def test_servers_and_evaluators_are_told_nothing(role, names):
    assert values_of(replica_of(plan_of(vertex_spec(EVERYBODY)), role), names) == []


def test_reducers_are_outside_the_world_that_they_make_distributed():
    plan = plan_of(vertex_spec({Role.PRIMARY: 1, Role.REDUCER: 2}))
    assert values_of(plan.primary, ("RANK", "WORLD_SIZE")) == ["0", "1"]
    assert values_of(replica_of(plan, Role.REDUCER), TORCH + JAX) == []
