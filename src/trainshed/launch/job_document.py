"""The ``job`` entry of TF_CONFIG and CLUSTER_SPEC: the caller's own document, as JSON.

Vertex has the CustomJobSpec as submitted.  AI Platform Training has the TrainingInput with snake
case keys and its own key ``run_on_raw_vm``; programs read these keys.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from trainshed.launch.context import Context, Variables
from trainshed.launch.variables import CLOUD_ML_JOB
from trainshed.model.job import JobSpec
from trainshed.model.roles import Dialect, Role

#: Maps whose keys are the user's data and are never renamed.
USER_MAPS: Final = frozenset({"labels"})

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def job_document(spec: JobSpec) -> Any:
    """Return the ``job`` entry of a spec's cluster descriptions, as a JSON value."""
    return FORM[spec.dialect](json.loads(spec.request))


def variables(context: Context, _role: Role, _index: int) -> Variables:
    """Return CLOUD_ML_JOB for a replica of an ml v1 job; nothing for Vertex AI."""
    if context.spec.dialect is not Dialect.ML_V1:
        return {}
    return {CLOUD_ML_JOB: json.dumps(job_document(context.spec))}


def snake_keys(value: Any) -> Any:
    """Convert the keys of a JSON value to snake case at every level, except in the user's maps."""
    if isinstance(value, list):
        return [snake_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        snake_case(key): item if key in USER_MAPS else snake_keys(item)
        for key, item in value.items()
    }


def snake_case(word: str) -> str:
    """Write ``acceleratorConfig`` as ``accelerator_config``; snake case stays as it is."""
    return _HUMP.sub("_", word).lower()


def _training_input(job: Any) -> Any:
    return {**snake_keys(job.get("trainingInput", {})), "run_on_raw_vm": True}


def _as_sent(job_spec: Any) -> Any:
    return job_spec


#: The function that converts the caller's document, by dialect.
FORM: Final[Mapping[Dialect, Callable[[Any], Any]]] = {
    Dialect.ML_V1: _training_input,
    Dialect.AIPLATFORM_V1: _as_sent,
}
