"""Fields at the wrong level: where they belong, and that nothing else is reported of them."""

import json

import pytest

from trainshed.wire import detect
from trainshed.wire.parsed import compact

POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "gcr.io/p/i"},
}


def pool_without(name, **more):
    return {**{key: value for key, value in POOL.items() if key != name}, **more}


def job_with(pool, **more):
    return {"displayName": "d", "jobSpec": {"workerPoolSpecs": [pool], **more}}


TUNING = {
    "displayName": "d",
    "maxTrialCount": 1,
    "parallelTrialCount": 1,
    "trialJobSpec": {"workerPoolSpecs": [POOL]},
}

#: A document, the field that is named, what the message says, and what would be right.
ML_CASES = [
    (
        {"jobId": "j", "trainingInput": None, "scaleTier": "CUSTOM"},
        "scaleTier",
        "scaleTier belongs below trainingInput",
        "trainingInput.scaleTier",
    ),
    (
        {"training_input": {}, "scale_tier": "CUSTOM"},
        "scale_tier",
        "scale_tier belongs below training_input",
        "training_input.scale_tier",
    ),
    (
        {"trainingInput": {}, "hyperparameters": {"goal": "MAXIMIZE"}},
        "hyperparameters",
        "hyperparameters belongs below trainingInput",
        "trainingInput.hyperparameters",
    ),
    (
        {"trainingInput": {"labels": {"a": "b"}}},
        "trainingInput.labels",
        "labels belongs at the top level, beside trainingInput",
        "labels",
    ),
    (
        {"trainingInput": {"jobId": "j"}},
        "trainingInput.jobId",
        "jobId belongs at the top level, beside trainingInput",
        "jobId",
    ),
    (
        {"trainingInput": {"masterConfig": {"masterType": "n1-standard-4"}}},
        "trainingInput.masterConfig.masterType",
        "masterType belongs in trainingInput, beside masterConfig",
        "trainingInput.masterType",
    ),
    (
        {"trainingInput": {"masterConfig": {"count": 1, "imageUri": "i"}}},
        "trainingInput.masterConfig.count",
        "count belongs below trainingInput.masterConfig.acceleratorConfig",
        "trainingInput.masterConfig.acceleratorConfig.count",
    ),
    (
        {"trainingInput": {"maxTrials": 3, "hyperparameters": {}}},
        "trainingInput.maxTrials",
        "maxTrials belongs below trainingInput.hyperparameters",
        "trainingInput.hyperparameters.maxTrials",
    ),
    (
        {"trainingInput": {"maxRunningTime": "3600s"}},
        "trainingInput.maxRunningTime",
        "maxRunningTime belongs below trainingInput.scheduling",
        "trainingInput.scheduling.maxRunningTime",
    ),
    (
        {"trainingInput": {"hyperparameters": {"params": [{"goal": "MAXIMIZE"}]}}},
        "trainingInput.hyperparameters.params[0].goal",
        "goal belongs in trainingInput.hyperparameters, beside params",
        "trainingInput.hyperparameters.goal",
    ),
    (
        {"trainingInput": {"imageUri": "gcr.io/p/i"}},
        "trainingInput.imageUri",
        "imageUri belongs below trainingInput.evaluatorConfig, trainingInput.masterConfig, ",
        "trainingInput.evaluatorConfig.imageUri, trainingInput.masterConfig.imageUri, ",
    ),
    (
        {"trainingInput": {"imageUri": "gcr.io/p/i", "workerConfig": {}}},
        "trainingInput.imageUri",
        "imageUri belongs below trainingInput.workerConfig",
        "trainingInput.workerConfig.imageUri",
    ),
    (
        {"trainingInput": {"trainingInput": {"scaleTier": "CUSTOM", "masterType": "n1"}}},
        "trainingInput.trainingInput",
        "the line trainingInput is there twice: take one of them out",
        "trainingInput.scaleTier, trainingInput.masterType",
    ),
    (
        {"trainingInput": {"masterConfig": {"replicaConfig": {"imageUri": "i"}}}},
        "trainingInput.masterConfig.replicaConfig",
        "what is below replicaConfig belongs in trainingInput.masterConfig: take the line ",
        "trainingInput.masterConfig.imageUri",
    ),
    *(
        (
            {"trainingInput": {word: 1}},
            f"trainingInput.{word}",
            f"did you mean {field}?",
            f"trainingInput.{field}",
        )
        for word, field in {
            "psCount": "parameterServerCount",
            "ps_type": "parameter_server_type",
            "chiefType": "masterType",
            "masterImageUri": "masterConfig.imageUri",
            "worker-machine-type": "workerType",
            "workerAccelerator": "workerConfig.acceleratorConfig",
            "module-name": "pythonModule",
            "packages": "packageUris",
            "replicaCount": "workerCount",
        }.items()
    ),
    (
        {"trainingInput": {"masterConfig": {"acceleratorType": "NVIDIA_TESLA_T4"}}},
        "trainingInput.masterConfig.acceleratorType",
        "did you mean acceleratorConfig.type?",
        "trainingInput.masterConfig.acceleratorConfig.type",
    ),
    (
        {"trainingInput": {"hyperparameters": {"metricTag": "acc"}}},
        "trainingInput.hyperparameters.metricTag",
        "did you mean hyperparameterMetricTag?",
        "trainingInput.hyperparameters.hyperparameterMetricTag",
    ),
]
VERTEX_CASES = [
    (
        {"trainingInput": {}, "workerPoolSpecs": [POOL]},
        "workerPoolSpecs",
        "workerPoolSpecs belongs to a job of Vertex AI, and a file holds one job",
        "a file of its own",
    ),
    (
        {"trainingInput": {"workerPoolSpecs": [POOL]}},
        "trainingInput.workerPoolSpecs",
        "workerPoolSpecs belongs to a job of Vertex AI",
        "a file of its own",
    ),
    *(
        (
            job_with(POOL, **{key: "us-central1"}),
            f"jobSpec.{key}",
            f"the {word} of a job is a flag, not a field",
            f"--{word}",
        )
        for key, word in {"region": "region", "location": "region", "projectId": "project"}.items()
    ),
    (
        job_with(pool_without("machineSpec", machineSpec={"acceleratorConfig": {"count": 1}})),
        "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorConfig",
        "it has acceleratorType and acceleratorCount",
        "acceleratorType and acceleratorCount",
    ),
    (
        job_with(POOL, scheduling={"maxRunningTime": "3600s"}),
        "jobSpec.scheduling.maxRunningTime",
        "did you mean timeout?",
        "jobSpec.scheduling.timeout",
    ),
    (
        {
            **TUNING,
            "studySpec": {"parameters": [{"parameterId": "a", "doubleValueSpec": {"min": 1}}]},
        },
        "studySpec.parameters[0].doubleValueSpec.min",
        "did you mean minValue?",
        "studySpec.parameters[0].doubleValueSpec.minValue",
    ),
    (
        {"displayName": "d", "jobSpec": {"jobSpec": {"workerPoolSpecs": [POOL]}}},
        "jobSpec.jobSpec",
        "the line jobSpec is there twice: take one of them out",
        "jobSpec.workerPoolSpecs",
    ),
    (
        job_with(POOL, jobSpec={"labels": {"a": "b"}, "scheduling": {}}),
        "jobSpec.labels",
        "labels belongs at the top level, beside jobSpec",
        "labels",
    ),
    (
        {"displayName": "d", "jobSpec": {"customJobSpec": {"workerPoolSpecs": [POOL]}}},
        "jobSpec.customJobSpec",
        "what is below customJobSpec belongs in jobSpec: take the line customJobSpec out",
        "jobSpec.workerPoolSpecs",
    ),
    (
        job_with(pool_without("containerSpec", **{"container-image-uri": "gcr.io/p/i"})),
        "jobSpec.workerPoolSpecs[0].container-image-uri",
        "did you mean containerSpec.imageUri?",
        "jobSpec.workerPoolSpecs[0].containerSpec.imageUri",
    ),
    (
        {**TUNING, "studySpec": {"parameters": [{"type": "DOUBLE"}]}},
        "studySpec.parameters[0].type",
        "its type is the field that holds its values: doubleValueSpec, integerValueSpec, ",
        "doubleValueSpec, integerValueSpec, ",
    ),
    (
        job_with(pool_without("machineSpec", machineType="n1-standard-4")),
        "jobSpec.workerPoolSpecs[0].machineType",
        "machineType belongs below jobSpec.workerPoolSpecs[0].machineSpec",
        "jobSpec.workerPoolSpecs[0].machineSpec.machineType",
    ),
    (
        job_with(pool_without("containerSpec", imageUri="gcr.io/p/i")),
        "jobSpec.workerPoolSpecs[0].imageUri",
        "imageUri belongs below jobSpec.workerPoolSpecs[0].containerSpec",
        "jobSpec.workerPoolSpecs[0].containerSpec.imageUri",
    ),
    (
        job_with(pool_without("machineSpec", machineSpec={"machineType": "n1", "replicaCount": 1})),
        "jobSpec.workerPoolSpecs[0].machineSpec.replicaCount",
        "replicaCount belongs in jobSpec.workerPoolSpecs[0], beside machineSpec",
        "jobSpec.workerPoolSpecs[0].replicaCount",
    ),
    (
        job_with(POOL, labels={"a": "b"}),
        "jobSpec.labels",
        "labels belongs at the top level, beside jobSpec",
        "labels",
    ),
    (
        {"displayName": "d", "workerPoolSpecs": [POOL], "jobSpec": {}},
        "workerPoolSpecs",
        "workerPoolSpecs belongs below jobSpec",
        "jobSpec.workerPoolSpecs",
    ),
    (
        {"workerPoolSpecs": [POOL], "labels": {"a": "b"}},
        "labels",
        "labels belongs to a CustomJob, beside jobSpec; CustomJobSpec has none",
        "a flag, or a CustomJob",
    ),
    (
        {"workerPoolSpecs": [POOL], "timeout": "3600s"},
        "timeout",
        "timeout belongs below scheduling",
        "scheduling.timeout",
    ),
    (
        {**TUNING, "metrics": [{"metricId": "m", "goal": "MAXIMIZE"}]},
        "metrics",
        "metrics belongs below studySpec",
        "studySpec.metrics",
    ),
    (
        {**TUNING, "trialJobSpec": {**TUNING["trialJobSpec"], "studySpec": {}}},
        "trialJobSpec.studySpec",
        "studySpec belongs at the top level, beside trialJobSpec",
        "studySpec",
    ),
    (
        {**TUNING, "studySpec": {"maxTrialCount": 4}},
        "studySpec.maxTrialCount",
        "maxTrialCount belongs at the top level, beside studySpec",
        "maxTrialCount",
    ),
    (
        {
            "displayName": "d",
            "trainingTaskDefinition": "gs://x/trainingjob/definition/custom_task_1.0.0.yaml",
            "trainingTaskInputs": {"workerPoolSpecs": [POOL], "labels": {}},
        },
        "trainingTaskInputs.labels",
        "labels belongs at the top level, beside trainingTaskInputs",
        "labels",
    ),
    (
        {
            "displayName": "d",
            "trainingTaskDefinition": "gs://x/trainingjob/definition/custom_task_1.0.0.yaml",
            "workerPoolSpecs": [POOL],
        },
        "workerPoolSpecs",
        "workerPoolSpecs belongs below trainingTaskInputs",
        "trainingTaskInputs.workerPoolSpecs",
    ),
]


@pytest.mark.parametrize(("document", "field", "says", "accepted"), ML_CASES + VERTEX_CASES)
def test_a_field_at_the_wrong_level_is_told_its_place(document, field, says, accepted):
    violation = next(v for v in detect.parse(document).violations if v.field == field)
    assert violation.rule == "unknown-field"
    assert says in violation.message
    assert violation.accepted.startswith(accepted)


@pytest.mark.parametrize(
    ("document", "meant"),
    [
        (
            {"trainingInput": None, "jobId": "j", "scaleTier": "CUSTOM", "masterType": "n1"},
            {"trainingInput": {"scaleTier": "CUSTOM", "masterType": "n1"}, "jobId": "j"},
        ),
        (
            {"trainingInput": {"hyperparameters": {"maxRunningTime": "5s", "maxTrials": 2}}},
            {
                "trainingInput": {
                    "hyperparameters": {"maxTrials": 2},
                    "scheduling": {"maxRunningTime": "5s"},
                }
            },
        ),
        (job_with(pool_without("machineSpec", machineType="n1-standard-4")), job_with(POOL)),
        (
            job_with(pool_without("machineSpec", machineSpecs=POOL["machineSpec"])),
            job_with(POOL),
        ),
        ({"workerPoolSpecs": [POOL], "displayName": "d", "jobSpec": {}}, job_with(POOL)),
        ({"displayName": "d", "jobSpec": {"jobSpec": job_with(POOL)["jobSpec"]}}, job_with(POOL)),
        (
            {"training-input": {"scale-tier": "CUSTOM", "masterConfig": {"image-uri": "i"}}},
            {"trainingInput": {"scaleTier": "CUSTOM", "masterConfig": {"imageUri": "i"}}},
        ),
        (
            {"region": "us-central1", "scale_tier": "CUSTOM", "masterType": "n1"},
            {"trainingInput": {"region": "us-central1", "scaleTier": "CUSTOM", "masterType": "n1"}},
        ),
        (
            {"jobSpec": {"workerPoolSpecs": pool_without("machineSpec", machineType="n1")}},
            {"jobSpec": {"workerPoolSpecs": {**POOL, "machineSpec": {"machineType": "n1"}}}},
        ),
    ],
)
def test_the_rest_is_judged_in_the_document_as_it_was_meant(document, meant):
    before = json.dumps(document)
    parsed = detect.parse(document)
    assert {v.rule for v in parsed.violations} == {"unknown-field"}
    assert parsed.spec.groups == detect.parse(meant).spec.groups
    assert parsed.spec.request == detect.parse(meant).spec.request
    assert json.dumps(document) == before


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"scaleTier": "CUSTOM", "masterType": "n1"}, detect.DocumentKind.ML_JOB),
        ({"hyperparameters": {}}, detect.DocumentKind.ML_JOB),
        ({"machineSpec": {}, "containerSpec": {}}, detect.DocumentKind.CUSTOM_JOB_SPEC),
        ({"machine_spec": {}, "replica_count": 1}, detect.DocumentKind.CUSTOM_JOB_SPEC),
        ({"WorkerPoolSpecs": []}, detect.DocumentKind.CUSTOM_JOB_SPEC),
        ({"worker-pool-specs": []}, detect.DocumentKind.CUSTOM_JOB_SPEC),
        ({"training-input": {}}, detect.DocumentKind.ML_JOB),
        ({"parameters": [], "metrics": []}, detect.DocumentKind.TUNING_JOB),
    ],
)
def test_a_document_that_lacks_its_outer_level_is_known_by_its_fields(document, kind):
    assert detect.kind_of(document) is kind
    for violation in detect.parse(document).violations:
        is_placed = " belongs " in violation.message or "did you mean" in violation.message
        assert violation.rule != "unknown-field" or is_placed


@pytest.mark.parametrize("document", [{}, {"foo": 1}, {"labels": {}}, {"displayName": "d"}])
def test_a_document_of_no_known_fields_is_no_job(document):
    assert detect.parse(document).spec is None


def test_a_value_does_not_replace_one_at_its_place():
    parsed = detect.parse({"scaleTier": "BASIC", "trainingInput": {"scaleTier": "CUSTOM"}})
    assert json.loads(parsed.spec.request)["trainingInput"]["scaleTier"] == "CUSTOM"


def test_a_list_of_places_does_not_grow_with_the_document():
    document = {"trainingInput": {f"x{i}": i for i in range(500)}}
    parsed = detect.parse(document)
    assert len(parsed.violations) == 500
    assert compact(parsed.spec.request)


@pytest.mark.parametrize(
    ("key", "job", "kind"),
    [
        ("job", {"trainingInput": {}}, "an AI Platform Job"),
        ("customJob", job_with(POOL), "a CustomJob"),
        ("custom_job_spec", {"worker_pool_specs": [POOL]}, "a CustomJobSpec"),
        ("hyperparameterTuningJob", TUNING, "a HyperparameterTuningJob"),
    ],
)
def test_a_job_below_a_key_of_its_own_is_told_to_lose_that_level(key, job, kind):
    [violation] = detect.parse({key: job}).violations
    assert violation.field == key
    assert f"{kind} is below it; take the line {key} out" in violation.message


@pytest.mark.parametrize(
    ("parameter", "field"),
    [
        ({"parameterId": "a", "minValue": 1}, "studySpec.parameters[0].minValue"),
        ({"parameterId": "a", "type": "DOUBLE"}, "studySpec.parameters[0].type"),
    ],
)
def test_a_parameter_with_an_unknown_field_is_not_told_besides_that_it_has_no_values(
    parameter, field
):
    violations = detect.parse({**TUNING, "studySpec": {"parameters": [parameter]}}).violations
    assert [v.field for v in violations if "parameters" in v.field] == [field]


def test_inputs_of_a_pipeline_below_themselves_are_refused():
    """Their place is outside of the document that is read then."""
    inputs = {"scheduling": {}, "trainingTaskInputs": {"workerPoolSpecs": [POOL], "tasks": 1}}
    pipeline = {"displayName": "d", "trainingTaskDefinition": "custom_task_1.0.0.yaml"}
    violations = detect.parse({**pipeline, "trainingTaskInputs": inputs}).violations
    assert "trainingTaskInputs.trainingTaskInputs" in [v.field for v in violations]


@pytest.mark.parametrize(
    "document",
    [
        {"trainingInput": {"workerTypes": [POOL]}},
        {"trainingInput": {"scaleTiers": {"a": 1}}},
        job_with(pool_without("containerSpec", containerSpec={"imageUri": "i", "imageUrl": {}})),
    ],
)
def test_a_field_of_another_shape_is_not_suggested(document):
    [violation] = detect.parse(document).violations
    assert "did you mean" not in violation.message
