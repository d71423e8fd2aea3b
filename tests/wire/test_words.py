"""Every field of the model has words in every kind of document."""

import re

import pytest

from trainshed.model.faults import Field, FieldPath
from trainshed.model.roles import Role
from trainshed.wire.detect import parse
from trainshed.wire.fields import table

CONTAINER = {"containerSpec": {"imageUri": "i"}}
PACKAGE = {"pythonPackageSpec": {"executorImageUri": "i"}}
POOLS = [CONTAINER, PACKAGE, {"containerSpec": {"imageUri": "h/reductionserver:1"}}]
DOCUMENTS = {
    "Job": {"trainingInput": {"scaleTier": "CUSTOM"}},
    "CustomJob": {"jobSpec": {"workerPoolSpecs": POOLS}},
    "CustomJobSpec": {"workerPoolSpecs": POOLS},
    "HyperparameterTuningJob": {"trialJobSpec": {"workerPoolSpecs": POOLS}},
    "TrainingPipeline": {"trainingTaskInputs": {"workerPoolSpecs": POOLS}},
}
PATHS = [FieldPath(field, role) for field in Field for role in (None, *Role)]
DIALECT = {"Job": "ml_v1"}
#: What Vertex says around a CustomJobSpec: in the URL, or in a document of another kind.
BESIDE_THE_SPEC = {"region", "labels", "name", "displayName", "studySpec"}


@pytest.mark.parametrize("message", DOCUMENTS)
def test_every_field_of_the_model_in_every_role_has_words_that_exist(message):
    words = parse(DOCUMENTS[message]).words
    assert [path for path in PATHS if not is_named(message, words(path))] == []


def is_named(message, words):
    return (message != "Job" and words in BESIDE_THE_SPEC) or exists(message, words)


def exists(message, words):
    """Whether the dotted name leads from field to field of the dialect's messages."""
    dialect_table = table(DIALECT.get(message, "aiplatform_v1"))
    info = dialect_table.messages[message]
    for step in words.split("."):
        field = info.by_key.get(re.sub(r"\[\d\]", "", step)) if info else None
        if field is None:
            return False
        kind = "CustomJobSpec" if field.json_name == "trainingTaskInputs" else field.type
        info = dialect_table.messages.get(kind)
    return True


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        (
            {"trainingInput": {}},
            FieldPath(Field.ACCELERATOR_COUNT, Role.WORKER),
            "trainingInput.workerConfig.acceleratorConfig.count",
        ),
        ({"trainingInput": {}}, FieldPath(Field.COUNT, Role.PRIMARY), "trainingInput.masterType"),
        (
            {"training_input": {"worker_config": {"acceleratorConfig": {}}}},
            FieldPath(Field.ACCELERATOR_COUNT, Role.WORKER),
            "training_input.worker_config.acceleratorConfig.count",
        ),
        (
            {"trainingInput": {"masterConfig": {"imageUri": "i", "containerCommand": ["c"]}}},
            FieldPath(Field.ARGS, Role.PRIMARY),
            "trainingInput.masterConfig.containerArgs",
        ),
        (
            {"workerPoolSpecs": [{}, PACKAGE]},
            FieldPath(Field.IMAGE_URI, Role.WORKER),
            "workerPoolSpecs[1].pythonPackageSpec.executorImageUri",
        ),
        (
            {"jobSpec": {"workerPoolSpecs": []}},
            FieldPath(Field.ACCELERATOR_COUNT, Role.REDUCER),
            "jobSpec.workerPoolSpecs[2].machineSpec.acceleratorCount",
        ),
        (
            {
                "trainingTaskInputs": {
                    "worker_pool_specs": [{"machine_spec": {"machine_type": "m"}}]
                }
            },
            FieldPath(Field.MACHINE_TYPE, Role.PRIMARY),
            "trainingTaskInputs.worker_pool_specs[0].machine_spec.machine_type",
        ),
        (
            {"trialJobSpec": {"workerPoolSpecs": []}},
            FieldPath(Field.RUNNING_MAX),
            "trialJobSpec.scheduling.timeout",
        ),
    ],
)
def test_the_words_are_the_callers_own(document, path, words):
    assert parse(document).words(path) == words
