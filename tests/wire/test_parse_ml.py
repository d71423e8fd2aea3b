"""How a Job of ml/v1 becomes groups, programs and a study."""

import pytest

from trainshed.model.job import Accelerator, Disk, ProgramKind, ScaleTier
from trainshed.model.roles import Role
from trainshed.model.study import Goal
from trainshed.wire.ml_v1.parse import job


def spec(**training):
    return job({"trainingInput": training}).spec


def roles(job_spec):
    return {group.role: group.count for group in job_spec.groups}


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({}, {Role.PRIMARY: 1}),
        ({"scaleTier": "CUSTOM"}, {Role.PRIMARY: 1}),
        ({"scaleTier": "BASIC"}, {}),
        ({"scaleTier": "BASIC", "pythonModule": "m"}, {Role.PRIMARY: 1}),
        ({"scaleTier": "BASIC", "masterType": "n1"}, {Role.PRIMARY: 1}),
        ({"workerCount": 2}, {Role.PRIMARY: 1, Role.WORKER: 2}),
        ({"workerCount": 0}, {Role.PRIMARY: 1}),
        ({"workerConfig": {}}, {Role.PRIMARY: 1}),
        ({"workerType": "n1", "workerCount": 0}, {Role.PRIMARY: 1, Role.WORKER: 0}),
        ({"workerType": "n1"}, {Role.PRIMARY: 1, Role.WORKER: 0}),
        ({"workerConfig": {"imageUri": "i"}}, {Role.PRIMARY: 1, Role.WORKER: 0}),
        ({"evaluatorCount": -1}, {Role.PRIMARY: 1, Role.EVALUATOR: -1}),
        (
            {"parameterServerCount": "3", "evaluatorCount": 1, "evaluatorType": "n1"},
            {Role.PRIMARY: 1, Role.PARAMETER_SERVER: 3, Role.EVALUATOR: 1},
        ),
    ],
)
def test_a_group_exists_when_the_caller_spoke_of_it(training, expected):
    assert roles(spec(**training)) == expected


def test_an_image_defaults_to_the_masters_and_a_command_does_not():
    master = {"imageUri": "m", "containerCommand": ["c"], "containerArgs": ["a"]}
    job_spec = spec(masterConfig=master, args=["x"], workerCount=1, evaluatorCount=1)
    worker = job_spec.group(Role.WORKER).program
    assert (worker.kind, worker.image_uri) == (ProgramKind.CONTAINER, "m")
    assert (worker.command, worker.args) == ((), ("x",))
    primary = job_spec.group(Role.PRIMARY).program
    assert (primary.command, primary.args) == (("c",), ("a",))


def test_a_workers_own_image_wins():
    job_spec = spec(masterConfig={"imageUri": "m"}, workerConfig={"imageUri": "w"}, workerCount=1)
    assert job_spec.group(Role.WORKER).program.image_uri == "w"


def test_a_package_job_has_the_same_program_everywhere():
    job_spec = spec(pythonModule="trainer.task", packageUris=["p"], args=["x"], workerCount=2)
    primary = job_spec.group(Role.PRIMARY).program
    assert primary.kind is ProgramKind.PYTHON_PACKAGE
    assert (primary.module, primary.package_uris, primary.args) == ("trainer.task", ("p",), ("x",))
    assert job_spec.group(Role.WORKER).program == primary


@pytest.mark.parametrize(
    ("image", "master", "kind"),
    [
        ("gcr.io/cloud-ml-public/training/pytorch-gpu.1-4", {}, ProgramKind.PYTHON_PACKAGE),
        ("us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-4", {}, ProgramKind.PYTHON_PACKAGE),
        (
            "gcr.io/cloud-ml-public/training/pytorch-gpu.1-4",
            {"containerCommand": ["python", "a.py"]},
            ProgramKind.CONTAINER,
        ),
        ("gcr.io/me/own", {}, ProgramKind.CONTAINER),
    ],
)
def test_only_google_s_own_images_run_a_module(image, master, kind):
    config = {"imageUri": image, **master}
    job_spec = spec(
        masterConfig=config, pythonModule="trainer.task", packageUris=["p"], workerCount=1
    )
    program = job_spec.group(Role.PRIMARY).program
    assert (program.kind, program.image_uri, program.module) == (kind, image, "trainer.task")


def test_a_job_that_names_no_program_has_none():
    assert spec(scaleTier="CUSTOM", masterType="n1").group(Role.PRIMARY).program is None


def test_half_an_accelerator_stays_half():
    config = {"acceleratorConfig": {"count": "2"}, "diskConfig": {"bootDiskSizeGb": 200}}
    group = spec(masterConfig=config).group(Role.PRIMARY)
    assert group.accelerator == Accelerator(count=2)
    assert group.disk == Disk(size_gb=200)
    assert spec(masterConfig={"acceleratorConfig": {}}).group(Role.PRIMARY).accelerator is None


def test_durations_are_seconds():
    scheduling = spec(scheduling={"maxRunningTime": "3.5s", "maxWaitTime": "1800s"}).scheduling
    assert (scheduling.running_s_max, scheduling.waiting_s_max) == (3.5, 1800)


@pytest.mark.parametrize(
    ("training", "tier"),
    [
        ({"scaleTier": "custom", "masterType": "n1"}, ScaleTier.CUSTOM),
        ({"scaleTier": "BASIC_GP"}, None),
        ({"scaleTier": 5, "workerType": "n1"}, ScaleTier.CUSTOM),
        ({"scaleTeir": "CUSTOM", "masterType": "n1"}, ScaleTier.CUSTOM),
        ({"scale_teir": "CUSTOM", "masterType": "n1"}, ScaleTier.CUSTOM),
        ({"scaletier": "CUSTOM", "masterType": "n1"}, ScaleTier.CUSTOM),
        ({"scaleTeir": "BASIC", "scaleTier": "BASIC_GPU", "masterType": "n1"}, ScaleTier.BASIC_GPU),
        ({"scaleTeir": "CUSTOM"}, ScaleTier.CUSTOM),
        ({"labels": {}, "masterType": "n1"}, None),
        ({}, None),
    ],
)
def test_a_tier_that_cannot_be_read_does_not_make_the_machines_wrong(training, tier):
    assert spec(**training).scale_tier is tier


def test_a_study_that_says_little_has_the_services_defaults():
    study = spec(hyperparameters={"params": [{"parameterName": "n", "type": "INTEGER"}]}).study
    assert study.metrics[0].metric_id == "training/hptuning/metric"
    assert study.metrics[0].goal is Goal.MAXIMIZE
    assert (study.trial_count_max, study.trial_count_parallel) == (1, 1)
    assert study.parameters[0].bounds is None


def test_a_bound_that_is_not_given_beside_another_is_0():
    params = [{"parameterName": "n", "type": "DOUBLE", "maxValue": 2}]
    assert spec(hyperparameters={"params": params}).study.parameters[0].bounds == (0.0, 2.0)


@pytest.mark.parametrize(
    ("hyperparameters", "is_whole"),
    [
        ({"params": [{"parameterName": "n", "type": "INTEGER"}]}, True),
        ({"params": [{"parameterName": "n", "type": "INTEGER", "minValue": "x"}]}, False),
        ({"params": [{"parameterName": "n"}]}, False),
        ({"maxTrialsX": 8}, False),
    ],
)
def test_a_study_says_whether_all_of_it_could_be_read(hyperparameters, is_whole):
    assert spec(hyperparameters=hyperparameters).study.is_whole is is_whole


def list_violations(**training):
    return [(v.field, v.rule) for v in job({"trainingInput": training}).violations]


@pytest.mark.parametrize("name", ["containerCommand", "containerArgs"])
def test_a_containers_own_command_excludes_the_jobs_args(name):
    """docs/sources/vertex.md 7.1: mutually exclusive."""
    config = {"imageUri": "i", name: ["x"]}
    path = f"trainingInput.workerConfig.{name}"
    assert list_violations(workerConfig=config, args=["a"]) == [(path, "args-conflict")]
    assert list_violations(workerConfig=config, args=[]) == []
    assert list_violations(workerConfig={"imageUri": "i", name: []}, args=["a"]) == []


def test_a_conflict_is_named_in_the_callers_spelling():
    config = {"image_uri": "i", "container_args": ["x"]}
    document = {"training_input": {"master_config": config, "args": ["a"]}}
    [violation] = job(document).violations
    assert violation.field == "training_input.master_config.container_args"
    assert violation.message == "args and containerArgs exclude each other"
    assert violation.accepted


@pytest.mark.parametrize("name", ["containerCommand", "containerArgs"])
def test_a_containers_own_command_needs_an_image(name):
    path = f"trainingInput.evaluatorConfig.{name}"
    command = {"evaluatorConfig": {name: ["x"]}, "evaluatorCount": 1}
    assert list_violations(**command, runtimeVersion="2.1") == [(path, "command-without-image")]
    assert list_violations(**command, masterConfig={"imageUri": "m"}) == []
    assert list_violations(evaluatorConfig={name: ["x"], "imageUri": "e"}) == []


def test_a_command_that_cannot_be_read_is_told_once():
    path = "trainingInput.masterConfig.containerArgs"
    assert list_violations(masterConfig={"containerArgs": {"a": 3}}) == [(path, "wrong-type")]


def test_a_parameter_without_a_type_is_told_once():
    params = [{"parameterName": "a"}, {"type": "REAL"}, {"type": "DOUBLE"}]
    parsed = job({"trainingInput": {"hyperparameters": {"params": params}}})
    assert [(v.field, v.rule) for v in parsed.violations] == [
        ("trainingInput.hyperparameters.params[1].type", "unknown-value"),
        ("trainingInput.hyperparameters.params[0].type", "unknown-value"),
    ]
    assert len(parsed.spec.study.parameters) == 1


def test_faulty_fields_leave_the_rest_to_be_judged():
    parsed = job({"trainingInput": {"masterType": 4, "region": "r", "workerCount": "x"}, "x": 1})
    assert [v.rule for v in parsed.violations] == ["wrong-type", "wrong-type", "unknown-field"]
    assert parsed.spec.region == "r"
