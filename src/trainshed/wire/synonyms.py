"""Maps words of gcloud's flags and of the other dialect to the fields that they mean.

A comparison of letters does not find these fields: ``psType`` is similar to ``masterType``, and
``moduleName`` to no field.
"""

from collections.abc import Mapping
from typing import Final

from trainshed.model.spelling import letters_of
from trainshed.wire.fields import MessageInfo
from trainshed.wire.parsed import snake

_ROLES: Final = {
    "master": "master",
    "chief": "master",
    "worker": "worker",
    "ps": "parameterServer",
    "parameterServer": "parameterServer",
    "evaluator": "evaluator",
}

#: The field's suffix, by the suffix of the word after a role name.
_OF_ROLE: Final = {
    "Count": "Count",
    "Type": "Type",
    "Config": "Config",
    "MachineType": "Type",
    "ImageUri": "Config.imageUri",
    "Accelerator": "Config.acceleratorConfig",
    "AcceleratorConfig": "Config.acceleratorConfig",
}

#: By message: the word as lower-case letters, and the dotted path of the field in the message.
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "TrainingInput": {
        **{
            letters_of(role + word): name + field
            for role, name in _ROLES.items()
            for word, field in _OF_ROLE.items()
        },
        "machinetype": "masterType",
        "modulename": "pythonModule",
        "packagepath": "packageUris",
        "packages": "packageUris",
        "replicacount": "workerCount",
    },
    "ReplicaConfig": {
        "acceleratorcount": "acceleratorConfig.count",
        "acceleratortype": "acceleratorConfig.type",
        "command": "containerCommand",
    },
    "HyperparameterSpec": {
        "maxtrialcount": "maxTrials",
        "metricid": "hyperparameterMetricTag",
        "metrictag": "hyperparameterMetricTag",
        "paralleltrialcount": "maxParallelTrials",
    },
    "ParameterSpec": {
        "max": "maxValue",
        "min": "minValue",
        "name": "parameterName",
        "parameterid": "parameterName",
        "scale": "scaleType",
        "values": "categoricalValues",
    },
    "Job": {
        "modulename": "trainingInput.pythonModule",
        "trainingargs": "trainingInput.args",
        "trainingpythonmodule": "trainingInput.pythonModule",
    },
    "HyperparameterTuningJob": {
        "maxparalleltrials": "parallelTrialCount",
        "maxtrials": "maxTrialCount",
    },
    "StudySpec.ParameterSpec": {
        "categoricalvalues": "categoricalValueSpec.values",
        "discretevalues": "discreteValueSpec.values",
        "name": "parameterId",
        "parametername": "parameterId",
        "scale": "scaleType",
    },
    "StudySpec.ParameterSpec.DoubleValueSpec": {"max": "maxValue", "min": "minValue"},
    "StudySpec.ParameterSpec.IntegerValueSpec": {"max": "maxValue", "min": "minValue"},
    "StudySpec.MetricSpec": {"hyperparametermetrictag": "metricId", "name": "metricId"},
    "StudySpec": {"params": "parameters"},
    "Scheduling": {"maxrunningtime": "timeout", "timeout": "maxRunningTime"},
    "MachineSpec": {"count": "acceleratorCount", "type": "machineType"},
    "WorkerPoolSpec": {
        "containerimageuri": "containerSpec.imageUri",
        "image": "containerSpec.imageUri",
    },
    "CustomJobSpec": {"maxrunningtime": "scheduling.timeout"},
}

_VALUE_SPECS: Final = "doubleValueSpec, integerValueSpec, categoricalValueSpec or discreteValueSpec"

#: Keys of Vertex AI's documents, and the messages of its jobs.
_OF_VERTEX: Final = ("workerPoolSpecs", "jobSpec", "trialJobSpec", "studySpec")
_VERTEX: Final = ("CustomJob", "CustomJobSpec", "HyperparameterTuningJob")


def _of_other(key: str, product: str) -> tuple[str, str]:
    sentence = f"{key} belongs to a job of {product}, and a file holds one job"
    return sentence, f"a file of its own for the job of {product}"


def _flag(word: str) -> tuple[str, str]:
    return f"the {word} of a job is a flag, not a field", f"--{word}; in a call, the URL"


#: Words that mean no single field: a clause on what to write instead, and the accepted form.
PHRASES: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("StudySpec.ParameterSpec", "type"): (
        f"its type is the field that holds its values: {_VALUE_SPECS}",
        _VALUE_SPECS,
    ),
    ("MachineSpec", "acceleratorconfig"): (
        "it has acceleratorType and acceleratorCount",
        "acceleratorType and acceleratorCount",
    ),
    **{
        (message, letters_of(key)): _of_other(key, "Vertex AI")
        for message in ("Job", "TrainingInput")
        for key in _OF_VERTEX
    },
    **{
        (message, "traininginput"): _of_other("trainingInput", "AI Platform") for message in _VERTEX
    },
    **{
        (message, key): _flag("project")
        for message in ("Job", *_VERTEX)
        for key in ("project", "projectid")
    },
    **{(message, key): _flag("region") for message in _VERTEX for key in ("region", "location")},
}

#: Messages for which users write only the value of one field, and that field.
ALONE: Final[Mapping[str, str]] = {
    "AcceleratorConfig": "type",
    "ContainerSpec": "imageUri",
    "GcsDestination": "outputUriPrefix",
    "MachineSpec": "machineType",
    "ReplicaConfig": "imageUri",
    "StudySpec.ParameterSpec.CategoricalValueSpec": "values",
    "StudySpec.ParameterSpec.DiscreteValueSpec": "values",
}

#: Other names for values of enums.
VALUES: Final[Mapping[str, str]] = {
    "float": "DOUBLE",
    "real": "DOUBLE",
    "string": "CATEGORICAL",
    "choice": "CATEGORICAL",
    "preemptible": "SPOT",
}

#: Lists of named objects that users write as one object: the fields of the name and of the value.
NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "EnvVar": ("name", "value"),
    "ParameterSpec": ("parameterName", ""),
    "StudySpec.ParameterSpec": ("parameterId", ""),
    "StudySpec.MetricSpec": ("metricId", "goal"),
}


def find_field(info: MessageInfo, word: str) -> tuple[str, ...]:
    """Return the path of the field that a word means, in the word's key case; empty if none."""
    path = FIELDS.get(info.name, {}).get(letters_of(word), "")
    if path.partition(".")[0] not in info.by_key:
        return ()
    return tuple(snake(step) if "_" in word else step for step in path.split("."))
