"""How the documents of aiplatform/v1 become groups, programs and a study."""

import json

import pytest

from trainshed.model.faults import Field, FieldPath
from trainshed.model.job import Accelerator, ProgramKind
from trainshed.model.roles import Role
from trainshed.model.study import ParameterKind, Scale
from trainshed.wire.aiplatform_v1.parse import (
    custom_job,
    custom_job_spec,
    training_pipeline,
    tuning_job,
)

POOL = {"containerSpec": {"imageUri": "i"}, "replicaCount": 1}
CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"


def groups(*pools):
    return custom_job_spec({"workerPoolSpecs": list(pools)}).spec.groups


@pytest.mark.parametrize(
    ("image", "role"),
    [
        ("us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest", Role.REDUCER),
        ("host:5000/my/reductionserver", Role.REDUCER),
        ("host/reductionserver@sha256:00", Role.REDUCER),
        ("host/reductionserver-client:1", Role.PARAMETER_SERVER),
        ("host/reductionserver/train:1", Role.PARAMETER_SERVER),
    ],
)
def test_the_third_pool_is_the_reducers_by_its_image(image, role):
    third = {"containerSpec": {"imageUri": image}}
    assert [g.role for g in groups(POOL, POOL, third)] == [Role.PRIMARY, Role.WORKER, role]


def test_the_reducers_image_elsewhere_changes_no_role():
    pool = {"containerSpec": {"imageUri": "host/reductionserver"}}
    assert [g.role for g in groups(POOL, pool)] == [Role.PRIMARY, Role.WORKER]


def test_an_empty_pool_keeps_its_place():
    pools = groups(POOL, {}, {}, POOL)
    assert [g.role for g in pools] == [Role.PRIMARY, Role.EVALUATOR]
    assert groups({}, POOL)[0].role is Role.WORKER


def test_a_count_that_is_not_given_is_one_and_zero_stays():
    pool = {"containerSpec": {"imageUri": "i"}}
    assert [g.count for g in groups(pool, {**pool, "replicaCount": "0"})] == [1, 0]


def test_half_an_accelerator_stays_half():
    [group] = groups({"machineSpec": {"acceleratorType": "NVIDIA_L4"}})
    assert group.accelerator == Accelerator(type="NVIDIA_L4")
    [group] = groups({"machineSpec": {"acceleratorCount": 2}})
    assert group.accelerator == Accelerator(count=2)
    assert group.program is None


def test_a_package_has_its_executor_image_and_variables_keep_their_order():
    env = [{"name": "B", "value": "1"}, {"name": "A", "value": "$(B)"}, {"name": "C"}]
    package = {"executorImageUri": "e", "pythonModule": "m", "packageUris": ["p"], "env": env}
    [group] = groups({"pythonPackageSpec": package})
    program = group.program
    assert (program.kind, program.image_uri) == (ProgramKind.PYTHON_PACKAGE, "e")
    assert program.env == (("B", "1"), ("A", "$(B)"), ("C", ""))


def test_a_fifth_pool_is_refused():
    parsed = custom_job({"jobSpec": {"worker_pool_specs": [POOL] * 5}})
    assert [(v.field, v.rule) for v in parsed.violations] == [
        ("jobSpec.worker_pool_specs[4]", "worker-pools")
    ]


def test_a_file_may_say_its_region_and_the_program_does_not_see_it():
    parsed = custom_job_spec({"region": "us-west1", "workerPoolSpecs": [POOL]})
    assert parsed.violations == ()
    assert parsed.spec.region == "us-west1"
    assert "region" not in json.loads(parsed.spec.request)
    [violation] = custom_job_spec({"region": 1, "workerPoolSpecs": [POOL]}).violations
    assert (violation.field, violation.rule) == ("region", "wrong-type")


def test_a_job_that_was_described_has_the_region_of_its_name():
    name = "projects/p/locations/europe-west4/customJobs/1"
    assert custom_job({"name": name, "jobSpec": {}}).spec.region == "europe-west4"
    assert custom_job({"name": "1", "jobSpec": {}}).spec.region is None


def test_what_stands_around_the_spec_is_kept_for_the_echo():
    document = {"displayName": "d", "encryptionSpec": {"kmsKeyName": "k"}, "jobSpec": {}}
    spec = custom_job(document).spec
    assert spec.request == "{}"
    assert spec.envelope == '{"displayName":"d","encryptionSpec":{"kmsKeyName":"k"}}'


@pytest.mark.parametrize("inputs", [None, "text", [], 3])
def test_a_pipelines_inputs_that_are_no_object_are_refused(inputs):
    parsed = training_pipeline(
        {"trainingTaskDefinition": CUSTOM_TASK, "trainingTaskInputs": inputs}
    )
    expected = [] if inputs is None else [("trainingTaskInputs", "wrong-type")]
    assert [(v.field, v.rule) for v in parsed.violations] == expected
    assert parsed.spec.groups == ()


def test_a_fault_in_a_pipelines_inputs_has_its_whole_path():
    document = {"training_task_inputs": {"worker_pool_specs": [{"machine": {}}]}}
    [violation] = training_pipeline(document).violations
    assert violation.field == "training_task_inputs.worker_pool_specs[0].machine"


def test_a_parameter_without_values_is_refused_however_deep_it_is():
    child = {"parameterId": "c"}
    parent = {
        "parameterId": "p",
        "categoricalValueSpec": {"values": ["a"]},
        "conditionalParameterSpecs": [
            {"parentCategoricalValues": {"values": ["a"]}, "parameterSpec": child}
        ],
    }
    parsed = tuning_job({"studySpec": {"parameters": [{"parameterId": "x"}, parent]}})
    child_path = "studySpec.parameters[1].conditionalParameterSpecs[0].parameterSpec"
    assert [(v.field, v.rule) for v in parsed.violations] == [
        ("studySpec.parameters[0]", "exactly-one-of"),
        (child_path, "exactly-one-of"),
    ]


def test_a_bound_that_is_zero_may_be_left_out():
    values = {"doubleValueSpec": {"maxValue": 1.0}, "scaleType": 1}
    [parameter] = tuning_job({"studySpec": {"parameters": [values]}}).spec.study.parameters
    assert (parameter.kind, parameter.bounds) == (ParameterKind.DOUBLE, (0.0, 1.0))
    assert parameter.scale is Scale.LINEAR


def test_a_pool_that_stands_alone_is_a_list_of_it_and_its_faults_have_no_position():
    pool = {
        "machineSpec": {"machineType": 4},
        "replicaCount": 2,
        "containerSpec": {"imageUri": "i"},
    }
    alone, in_list = (custom_job_spec({"workerPoolSpecs": pools}) for pools in (pool, [pool]))
    assert alone.spec == in_list.spec
    assert [v.field for v in alone.violations] == ["workerPoolSpecs.machineSpec.machineType"]
    assert alone.words(FieldPath(Field.COUNT, Role.PRIMARY)) == "workerPoolSpecs.replicaCount"
    assert in_list.words(FieldPath(Field.COUNT, Role.PRIMARY)) == "workerPoolSpecs[0].replicaCount"
