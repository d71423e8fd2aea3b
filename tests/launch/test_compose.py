"""The plan as a whole: order, devices, skipped groups, notes."""

from dataclasses import replace

import pytest

from launch.builders import container, json_of, ml_spec, plan_of, vertex_spec
from trainshed.launch import names, variables
from trainshed.model.job import Accelerator
from trainshed.model.launch_plan import Environment
from trainshed.model.roles import Dialect, Role

EVERYBODY = {Role.PRIMARY: 1, Role.WORKER: 2, Role.PARAMETER_SERVER: 1, Role.EVALUATOR: 1}


def test_the_primary_comes_first_and_the_roles_in_order():
    spec = vertex_spec({**EVERYBODY, Role.REDUCER: 1})
    shuffled = replace(spec, groups=spec.groups[::-1])
    order = [replica.role for replica in plan_of(shuffled).replicas]
    assert order == [
        Role.PRIMARY,
        Role.WORKER,
        Role.WORKER,
        Role.PARAMETER_SERVER,
        Role.REDUCER,
        Role.EVALUATOR,
    ]


def test_task_names_are_those_of_the_logs():
    ml = [replica.task_name for replica in plan_of(ml_spec(EVERYBODY)).replicas]
    vertex = [replica.task_name for replica in plan_of(vertex_spec(EVERYBODY)).replicas]
    assert ml == [
        "master-replica-0",
        "worker-replica-0",
        "worker-replica-1",
        "ps-replica-0",
        "evaluator-replica-0",
    ]
    assert vertex == [
        "workerpool0-0",
        "workerpool1-0",
        "workerpool1-1",
        "workerpool2-0",
        "workerpool3-0",
    ]


def test_hosts_are_named_as_google_names_them():
    assert names.host_name(Dialect.AIPLATFORM_V1, "j", Role.WORKER, 3) == (
        f"cmle-training-workerpool1-{names.short_id('j')}-3"
    )
    assert names.host_name(Dialect.ML_V1, "j", Role.PRIMARY, 0) == (
        f"cmle-training-master-{names.short_id('j')}-0"
    )


@pytest.mark.parametrize("dialect", Dialect)
def test_each_role_has_a_word_in_each_dialect(dialect):
    assert set(names.TASK_WORD[dialect]) == set(Role)
    assert dialect in names.TASK_NAME


def test_the_plan_carries_what_the_caller_knows():
    environment = Environment(python="/opt/python", packages=("a.whl",))
    plan = plan_of(ml_spec(), attempt=4, environment=environment, cwd="/srv")
    assert (plan.job_id, plan.attempt, plan.cwd) == ("digits_7", 4, "/srv")
    assert plan.environment is environment


def test_gpus_are_asked_for_by_count_and_type():
    gpus = Accelerator(type="NVIDIA_TESLA_T4", count=4)
    primary = plan_of(ml_spec(accelerator=gpus)).primary
    assert (primary.gpu_count, primary.gpu_type) == (4, "NVIDIA_TESLA_T4")


@pytest.mark.parametrize(
    "accelerator",
    [
        None,
        Accelerator(),
        Accelerator(type="NVIDIA_TESLA_T4"),
        Accelerator(type="NVIDIA_TESLA_T4", count=0),
        Accelerator(count=2),
        Accelerator(type="ACCELERATOR_TYPE_UNSPECIFIED", count=2),
    ],
)
def test_no_devices_and_no_note_where_none_were_asked_for(accelerator):
    plan = plan_of(ml_spec(accelerator=accelerator))
    assert (plan.primary.gpu_count, plan.primary.gpu_type) == (0, None)
    assert plan.notes == ()


def test_a_tpu_is_not_given_and_the_plan_says_so_once_a_group():
    tpu = Accelerator(type="TPU_V3", count=8)
    plan = plan_of(ml_spec({Role.PRIMARY: 1, Role.WORKER: 2}, accelerator=tpu))
    assert {replica.gpu_count for replica in plan.replicas} == {0}
    assert plan.notes == (
        "Each primary replica requests 8 TPU_V3; no engine here has any, so it runs without them.",
        "Each worker replica requests 8 TPU_V3; no engine here has any, so it runs without them.",
    )


def test_a_tpu_worker_runs_no_program_as_at_google():
    """BASIC_TPU: the program runs once, on the master, and waits for no worker."""
    spec = ml_spec({Role.PRIMARY: 1, Role.WORKER: 1}, container())
    master, worker = spec.groups
    spec = replace(spec, groups=(master, replace(worker, machine_type="cloud_tpu")))
    plan = plan_of(spec)
    assert [replica.task_name for replica in plan.replicas] == ["master-replica-0"]
    assert list(json_of(plan.primary, "CLUSTER_SPEC")["cluster"]) == ["master"]
    assert plan.notes[0].startswith("The worker of machine type cloud_tpu is not started: at Goo")
    alone = replace(spec, groups=(replace(master, machine_type="cloud_tpu"),))
    assert [replica.role for replica in plan_of(alone).replicas] == [Role.PRIMARY]


def test_a_group_of_no_replicas_is_no_group():
    plan = plan_of(ml_spec({Role.PRIMARY: 1, Role.WORKER: 0}, container()))
    assert list(json_of(plan.primary, "CLUSTER_SPEC")["cluster"]) == ["master"]
    assert plan.notes == ()


def test_an_address_that_is_missing_is_our_mistake_not_the_callers():
    with pytest.raises(AssertionError, match="no address"):
        plan_of(ml_spec(), addresses={})


def test_a_job_without_a_primary_is_our_mistake_too():
    with pytest.raises(AssertionError, match="without a primary"):
        plan_of(replace(ml_spec(EVERYBODY), groups=ml_spec(EVERYBODY).groups[1:]))


def test_every_variable_that_any_replica_gets_is_taken_from_the_launchers_environment():
    names = {
        name
        for spec in (ml_spec(EVERYBODY, container()), vertex_spec(EVERYBODY))
        for replica in plan_of(spec, metric_file="/run/m").replicas
        for name in replica.env
    }
    assert names <= set(plan_of(ml_spec()).unset_env)
    assert len(set(variables.UNSET)) == len(variables.UNSET)


@pytest.mark.parametrize("name", ["LOCAL_RANK", "JAX_LOCAL_DEVICE_IDS", "AIP_DATA_FORMAT"])
def test_what_other_launchers_leave_behind_is_taken_out_too(name):
    assert name in plan_of(ml_spec()).unset_env
