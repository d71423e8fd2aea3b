"""Who gets CLUSTER_SPEC and what it lists."""

from dataclasses import replace

import pytest

from launch.builders import (
    STUDY,
    TRIAL,
    container,
    json_of,
    ml_spec,
    package,
    plan_of,
    replica_of,
    vertex_spec,
)
from trainshed.model.roles import Role

EVERYBODY = {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 2, Role.EVALUATOR: 3}


def test_vertex_lists_the_documented_example():
    plan = plan_of(vertex_spec(EVERYBODY))
    spec = json_of(plan.primary, "CLUSTER_SPEC")
    sizes = {pool: len(members) for pool, members in spec["cluster"].items()}
    assert sizes == {"workerpool0": 1, "workerpool1": 2, "workerpool2": 2, "workerpool3": 3}
    assert spec["environment"] == "cloud"
    assert spec["task"] == {"type": "workerpool0", "index": 0}


@pytest.mark.parametrize("program", [container(), package()])
def test_vertex_gives_it_to_a_single_replica_too(program):
    spec = json_of(plan_of(vertex_spec(program=program)).primary, "CLUSTER_SPEC")
    assert list(spec["cluster"]) == ["workerpool0"]


def test_a_pool_that_was_skipped_keeps_the_number_of_the_next_one():
    plan = plan_of(vertex_spec({Role.PRIMARY: 1, Role.PARAMETER_SERVER: 1}))
    spec = json_of(replica_of(plan, Role.PARAMETER_SERVER), "CLUSTER_SPEC")
    assert list(spec["cluster"]) == ["workerpool0", "workerpool2"]
    assert spec["task"]["type"] == "workerpool2"


def test_reducers_get_it_and_are_in_it_as_pool_2():
    plan = plan_of(vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1, Role.REDUCER: 2}))
    spec = json_of(replica_of(plan, Role.REDUCER, 1), "CLUSTER_SPEC")
    assert len(spec["cluster"]["workerpool2"]) == 2
    assert spec["task"] == {"type": "workerpool2", "index": 1}


def test_ml_v1_gives_it_to_images_only():
    assert "CLUSTER_SPEC" not in plan_of(ml_spec(EVERYBODY, package("2.11"))).primary.env
    in_image = replace(package(), image_uri="gcr.io/cloud-ml-public/training/pytorch-gpu.1-4")
    for program in (container(), in_image):
        plan = plan_of(ml_spec(EVERYBODY, program))
        assert "CLUSTER_SPEC" in plan.primary.env
        assert json_of(plan.primary, "TF_CONFIG")["task"]["type"] == "master"


@pytest.mark.parametrize("use_chief", [None, True])
def test_ml_v1_always_calls_the_primary_master_here(use_chief):
    plan = plan_of(ml_spec(EVERYBODY, container(), use_chief=use_chief))
    spec = json_of(plan.primary, "CLUSTER_SPEC")
    assert list(spec["cluster"]) == ["master", "worker", "ps", "evaluator"]
    assert spec["task"]["type"] == "master"


def test_trial_is_in_the_task_only_while_tuning():
    tuned = plan_of(vertex_spec(study=STUDY), trial=TRIAL)
    assert json_of(tuned.primary, "CLUSTER_SPEC")["task"]["trial"] == "3"
    assert "trial" not in json_of(plan_of(vertex_spec()).primary, "CLUSTER_SPEC")["task"]
