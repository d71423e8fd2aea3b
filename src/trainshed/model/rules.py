"""The closed set of reasons for which a request is refused, with their meanings.

A ``Violation`` names one of these; scripts that read ``trainshed validate --format json`` may
rely on them.  docs/reference/rules.md is rendered from this table.
"""

from collections.abc import Mapping
from typing import Final

#: Errors that are found while the document is read, before there is a job.
READING: Final[Mapping[str, str]] = {
    "unreadable": "The file cannot be read, or is neither YAML nor JSON that could be a job.",
    "not-a-job": "The document has none of the keys by which a job is recognised.",
    "unknown-field": "The dialect has no such field.",
    "duplicate-field": "One field is given twice, in snake_case and in camelCase.",
    "wrong-type": "The value is of another type than the field.",
    "unknown-value": "The field is an enum and has no such value.",
    "exactly-one-of": "Fields that exclude each other are given together.",
    "unsupported-field": "The field exists in the dialect, and Trainshed does not honour it.",
}

#: About the job as a whole.
JOB: Final[Mapping[str, str]] = {
    "job-id": "The job id is missing, malformed, or the id of another job.",
    "display-name": "The display name is missing or too long.",
    "hidden-characters": "A name has a control character or an invisible character.",
    "labels": "There are too many labels, or one is malformed.",
    "network-label": "The label trainshed-network has a value that is not a network layout.",
    "priority": "The priority is outside 0 to 1000.",
    "running-time": "The limit on the running time is impossible.",
    "waiting-time": "The limit on the waiting time is below the minimum.",
    "flex-start": "Strategy FLEX_START cannot be used with these machines.",
    "spot": "Strategy SPOT cannot be used with a slice of a TPU pod.",
    "job-dir": "The directory is neither a gs:// URI nor a local path.",
    "no-bucket": "The project has no bucket of this name.",
    "model": "The model's id, its parent or its folder is not valid.",
    "not-in-that-version": "The catalog edition does not have it yet.",
}

#: About the shape of the cluster.
CLUSTER: Final[Mapping[str, str]] = {
    "counts-need-custom": "Machine types, counts and accelerators need scaleTier CUSTOM.",
    "master-type-missing": "scaleTier CUSTOM needs masterType.",
    "machine-type-missing": "Replicas are requested without a machine type.",
    "worker-pools": "The first worker pool is missing or empty.",
    "primary-replica-count": "The first worker pool must have exactly one replica.",
    "replica-count": "A replica count must be a whole number from 1.",
    "mixed-categories": "Legacy and Compute Engine machine types are mixed.",
    "tpu-single-replica": "A TPU job must have one worker pool with one replica.",
}

#: About one machine.
MACHINE: Final[Mapping[str, str]] = {
    "unknown-machine-type": "Training jobs of the edition cannot use this machine type.",
    "unknown-accelerator": "The dialect has no accelerator of this name.",
    "accelerator-type-missing": "A count is given without a type.",
    "accelerator-missing": "The machine type must be used with its accelerators.",
    "accelerator-count": "This number of accelerators is not offered.",
    "accelerator-count-fixed": "The machine type has a fixed number of accelerators.",
    "accelerator-type-fixed": "The machine type has a fixed type of accelerator.",
    "accelerator-not-attachable": "The accelerator cannot be attached to this machine type.",
    "accelerator-on-legacy": "Legacy machine types accept no acceleratorConfig.",
    "accelerator-retired": "The accelerator has reached its end of support.",
    "not-enough-vcpus": "The machine has more vCPUs than this number of accelerators allows.",
    "not-enough-memory": "The machine has more memory than this number of accelerators allows.",
    "tpu-topology": "The TPU topology is missing, or the machine type does not have it.",
    "boot-disk-size": "The boot disk is too small or too large.",
    "boot-disk-type": "There is no such type of boot disk.",
}

#: About places.
PLACE: Final[Mapping[str, str]] = {
    "region-unknown": "There is no such region, or none is named.",
    "region-without-gpus": "The region has no GPUs in the edition.",
    "gpu-not-in-region": "The region does not offer the accelerator for training.",
    "no-single-zone": "No single zone of the region has all GPU types of the job.",
    "quota": "The job is valid, and would use more than the default quota.",
}

#: About a Reduction Server pool.
REDUCTION: Final[Mapping[str, str]] = {
    "reduction-pool": "The Reduction Server's image must be in the third worker pool.",
    "reducer-with-gpu": "Reducers must have no GPUs.",
    "reduction-needs-gpu-workers": "A Reduction Server needs workers with GPUs.",
    "reduction-framework-version": "The workers' prebuilt image has no reduction client.",
    "reducer-bandwidth": "The reducers' bandwidth is below the workers'.",
}

#: About programs.
PROGRAM: Final[Mapping[str, str]] = {
    "container-xor-python": "A pool must have exactly one of containerSpec and pythonPackageSpec.",
    "image-missing": "No image is named, or its URI is not valid.",
    "image-name": "The image's name is not one that container runtimes accept.",
    "image-unmapped": "No local environment can replace the image.",
    "python-module": "The module to run is missing, or its name is not valid.",
    "package-uris": "There are no packages, too many, or one that is not a file in a bucket.",
    "runtime-xor-image": "A job must have exactly one of runtimeVersion and masterConfig.imageUri.",
    "unknown-runtime": "There is no such runtime version.",
    "runtime-retired": "The runtime version is blocked for training.",
    "python-version": "The runtime version does not have this version of Python.",
    "env-name": "The name of an environment variable is not a C identifier.",
    "env-count": "There are too many environment variables.",
    "args-conflict": "The job's args and a container's own command or args are both given.",
    "command-without-image": "A container's command or args are given without an image.",
    "no-program": "A pool has no program to run.",
    "no-module": "A Python package job names no module.",
    "no-command": "The image's entry point is not known, and no command is given.",
}

#: About tuning studies.
STUDY: Final[Mapping[str, str]] = {
    "study-metrics": "A metric is missing, given twice, or its name cannot be reported.",
    "study-parameters": "A parameter or its name is missing, or a name is given twice.",
    "study-bounds": "The bounds are missing, reversed, or of another type than the parameter.",
    "study-scale": "A log scale needs numbers above 0, and words have no scale.",
    "study-values": "The list of values is empty, too long, not in order, or of another type.",
    "study-default": "The first value of a parameter is not one of its values.",
    "study-algorithm": "The algorithm cannot be used with a parameter's type.",
    "study-trials": "The counts of trials are impossible.",
    "study-condition": "A condition names a value that the parent parameter does not have.",
    "study-safety": "A safety metric's limits are impossible, or no metric is left to optimize.",
    "study-stopping": "The rule by which trials are stopped early cannot be used with the study.",
    "early-stopping-label": "The label trainshed-early-stopping has a value that is not a rule, or "
    "another rule than the study has.",
    "prior-label": "A label trainshed-prior-NAME names no parameter, or has no value of it.",
    "study-ending": "The rules by which the study ends are impossible, or exclude each other.",
    "study-previous": "The previous job does not exist, has not ended, or has another study.",
    "study-known-results": "The known results are too many, or their study does not exist.",
    "study-first-points": "A first point is not a point of the study, or there are too many.",
}

RULES: Final[Mapping[str, Mapping[str, str]]] = {
    "Reading the document": READING,
    "The job": JOB,
    "The cluster": CLUSTER,
    "One machine": MACHINE,
    "Places and quota": PLACE,
    "Reduction Server": REDUCTION,
    "Programs": PROGRAM,
    "Tuning studies": STUDY,
}

NAMES: Final = frozenset(name for table in RULES.values() for name in table)


def page() -> str:
    """Return the text of docs/reference/rules.md, as Markdown."""
    lines = ["# Why a job is refused", "", "The `rule` of a violation is one of these.", ""]
    for title, table in RULES.items():
        lines += [f"## {title}", "", "| rule | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {meaning} |" for name, meaning in table.items()]
        lines.append("")
    return "\n".join(lines)
