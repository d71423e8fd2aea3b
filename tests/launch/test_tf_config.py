"""Who gets TF_CONFIG, and whether the primary is a chief or a master."""

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
from trainshed.launch import names, tf_config
from trainshed.model.roles import Dialect, Role

EVERYBODY = {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 1, Role.EVALUATOR: 1}


def has_tf_config(spec):
    return ["TF_CONFIG" in replica.env for replica in plan_of(spec).replicas]


def test_vertex_gives_a_single_replica_no_tf_config():
    assert has_tf_config(vertex_spec()) == [False]


def test_ml_v1_gives_a_single_replica_tf_config():
    spec = ml_spec()
    config = json_of(plan_of(spec).primary, "TF_CONFIG")
    assert has_tf_config(spec) == [True]
    assert list(config["cluster"]) == ["chief"]
    assert config["task"]["type"] == "chief"


@pytest.mark.parametrize("make", [ml_spec, vertex_spec])
def test_every_replica_of_a_distributed_job_has_tf_config(make):
    assert has_tf_config(make(EVERYBODY)) == [True] * 5


def test_an_evaluator_alone_makes_a_vertex_job_distributed():
    spec = vertex_spec({Role.PRIMARY: 1, Role.EVALUATOR: 1})
    config = json_of(replica_of(plan_of(spec), Role.EVALUATOR), "TF_CONFIG")
    assert config["task"]["type"] == "evaluator"
    assert list(config["cluster"]) == ["chief"]


def test_reducers_have_no_tf_config_and_no_place_in_it():
    plan = plan_of(vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1, Role.REDUCER: 2}))
    assert "TF_CONFIG" not in replica_of(plan, Role.REDUCER).env
    assert set(json_of(plan.primary, "TF_CONFIG")["cluster"]) == {"chief", "worker"}


def test_reducers_make_a_vertex_job_distributed():
    plan = plan_of(vertex_spec({Role.PRIMARY: 1, Role.REDUCER: 1}))
    assert set(json_of(plan.primary, "TF_CONFIG")["cluster"]) == {"chief"}


@pytest.mark.parametrize(
    ("version", "word"),
    [
        ("1.4", "master"),
        ("1.15", "master"),
        ("2.1", "chief"),
        ("2.2", "chief"),
        ("2.11", "chief"),
        ("10.0", "chief"),
        (None, "chief"),
        ("HEAD", "chief"),
    ],
)
@pytest.mark.parametrize("use_chief", [None, True, False])
def test_a_package_is_named_by_its_runtime_version_alone(version, word, use_chief):
    assert tf_config.primary_word(ml_spec(program=package(version), use_chief=use_chief)) == word


@pytest.mark.parametrize(
    ("use_chief", "word"), [(None, "master"), (False, "master"), (True, "chief")]
)
def test_an_ml_v1_container_is_a_master_unless_it_asks_to_be_chief(use_chief, word):
    spec = ml_spec({Role.PRIMARY: 1, Role.WORKER: 1}, container(), use_chief=use_chief)
    config = json_of(plan_of(spec).primary, "TF_CONFIG")
    assert config["task"]["type"] == word
    assert set(config["cluster"]) == {word, "worker"}


@pytest.mark.parametrize("program", [container(), package()])
def test_vertex_always_says_chief(program):
    assert tf_config.primary_word(vertex_spec(program=program)) == "chief"


@pytest.mark.parametrize("make", [ml_spec, vertex_spec])
def test_trial_is_in_the_task_only_while_tuning(make):
    spec = make(EVERYBODY, study=STUDY)
    tuned, plain = plan_of(spec, trial=TRIAL), plan_of(spec)
    assert json_of(tuned.primary, "TF_CONFIG")["task"]["trial"] == "3"
    assert "trial" not in json_of(plain.primary, "TF_CONFIG")["task"]


def test_cloud_is_the_same_for_all_replicas_and_attempts_of_a_job():
    spec = ml_spec(EVERYBODY)
    clouds = {
        json_of(replica, "TF_CONFIG")["task"]["cloud"]
        for attempt in (1, 2)
        for replica in plan_of(spec, attempt=attempt).replicas
    }
    assert clouds == {names.cloud_id("digits_7")}
    assert names.cloud_id("digits_7") != names.cloud_id("digits_8")


def test_the_tables_are_total():
    assert set(tf_config.TASK_TYPE) == set(Role)
    assert set(tf_config.REPLICAS_MIN) == set(Dialect)
