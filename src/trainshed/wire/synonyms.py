"""Words that people know from gcloud's flags or the other dialect, and the fields that have them.

Letters lead astray: ``psType`` is written like ``masterType``, ``moduleName`` like no field.
"""

from collections.abc import Mapping
from typing import Final

from trainshed.wire.fields import MessageInfo
from trainshed.wire.parsed import plain, snake

_ROLES: Final = {
    "master": "master",
    "chief": "master",
    "worker": "worker",
    "ps": "parameterServer",
    "parameterServer": "parameterServer",
    "evaluator": "evaluator",
}

#: What follows the name of a role, and the field that has it.
_OF_ROLE: Final = {
    "Count": "Count",
    "Type": "Type",
    "Config": "Config",
    "MachineType": "Type",
    "ImageUri": "Config.imageUri",
    "Accelerator": "Config.acceleratorConfig",
    "AcceleratorConfig": "Config.acceleratorConfig",
}

#: By the name of a message: the plain word, and the dotted path of its field from there.
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "TrainingInput": {
        **{
            plain(role + word): name + field
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
    "ParameterSpec": {"parameterid": "parameterName"},
    "HyperparameterTuningJob": {
        "maxparalleltrials": "parallelTrialCount",
        "maxtrials": "maxTrialCount",
    },
    "StudySpec.ParameterSpec": {
        "categoricalvalues": "categoricalValueSpec.values",
        "discretevalues": "discreteValueSpec.values",
        "parametername": "parameterId",
    },
    "WorkerPoolSpec": {
        "containerimageuri": "containerSpec.imageUri",
        "image": "containerSpec.imageUri",
    },
    "CustomJobSpec": {"maxrunningtime": "scheduling.timeout"},
}

#: Words that no single field has, and what is written instead.
PHRASES: Final[Mapping[tuple[str, str], str]] = {
    ("StudySpec.ParameterSpec", "type"): "doubleValueSpec, integerValueSpec, categoricalValueSpec "
    "or discreteValueSpec, which holds the values",
}

#: Names that people give to values of enums.
VALUES: Final[Mapping[str, str]] = {
    "float": "DOUBLE",
    "real": "DOUBLE",
    "string": "CATEGORICAL",
    "choice": "CATEGORICAL",
}

#: Lists of named objects that people write as one object: the fields of the name and of the value.
NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "EnvVar": ("name", "value"),
    "ParameterSpec": ("parameterName", ""),
    "StudySpec.ParameterSpec": ("parameterId", ""),
    "StudySpec.MetricSpec": ("metricId", "goal"),
}


def find_field(info: MessageInfo, word: str) -> tuple[str, ...]:
    """The path of the field that people call by a word, in the word's key case; empty if none."""
    path = FIELDS.get(info.name, {}).get(plain(word), "")
    if not path or (path in info.by_key and plain(path) == plain(word)):
        return ()
    return tuple(snake(step) if "_" in word else step for step in path.split("."))
