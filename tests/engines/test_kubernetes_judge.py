"""What can never run on a Kubernetes cluster is refused, with what would be accepted."""

import pytest

from engines.kubernetes_requests import ROWS, T4, read_options
from trainshed.engines.base import JobNeeds
from trainshed.engines.kubernetes.judge import explain_refusal
from trainshed.model.explanation import Reason
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role

OPTIONS = read_options(wishes=["queue"])


def group(role, *, gpu_type=None):
    demand = Demand(vcpus=4, memory_gb=15.0, gpu_type=gpu_type, gpu_count=1 if gpu_type else 0)
    return GroupDemand(role=role, count=2, each=demand)


def refusal_of(*groups, rows=ROWS, **wants):
    demand = JobDemand(region=None, groups=groups)
    return explain_refusal(JobNeeds(demand=demand, wants=wants), rows, OPTIONS, namespace="ml")


@pytest.mark.parametrize("gpu_type", [None, T4])
def test_what_the_nodes_may_hold_is_accepted(gpu_type):
    assert refusal_of(group(Role.PRIMARY), group(Role.WORKER, gpu_type=gpu_type)) is None


def test_without_any_row_every_type_is_accepted():
    assert refusal_of(group(Role.PRIMARY, gpu_type="NVIDIA_H100_80GB"), rows={}) is None


def test_a_type_that_no_node_has_is_refused_with_the_others():
    refusal = refusal_of(group(Role.PRIMARY), group(Role.WORKER, gpu_type="NVIDIA_H100_80GB"))
    assert refusal.reason is Reason.NO_SUCH_NODE
    assert refusal.message.startswith("worker: the cluster has no NVIDIA_H100_80GB")
    assert (refusal.change.field, refusal.change.accepted) == ("accelerator_type", T4)


def test_reducers_are_refused():
    refusal = refusal_of(group(Role.PRIMARY), group(Role.REDUCER))
    assert refusal.reason is Reason.NO_SUCH_NODE
    assert "cannot run reducers" in refusal.message
    assert "trainshed-engine" in refusal.message


def test_a_label_that_the_settings_do_not_permit_is_refused():
    refusal = refusal_of(group(Role.PRIMARY), **{"trainshed-kubernetes-priority-class": "high"})
    assert "accepted are: trainshed-kubernetes-queue" in refusal.message
