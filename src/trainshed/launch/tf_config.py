"""TF_CONFIG, which TensorFlow's distribution strategies read.

The cluster is the same text on every replica; only ``task`` differs.  Evaluators have a task but
are not in the cluster.  Reducers have neither: they run Trainshed's program, and user code would
connect to them if they were listed as parameter servers.
"""

import json
from collections.abc import Mapping
from typing import Final

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables, primary_program
from trainshed.launch.job_document import job_document
from trainshed.launch.names import cloud_id
from trainshed.model.job import JobSpec
from trainshed.model.roles import Dialect, Role

#: The least number of replicas with which a job has TF_CONFIG (docs/sources/vertex.md 10).
REPLICAS_MIN: Final[Mapping[Dialect, int]] = {Dialect.ML_V1: 1, Dialect.AIPLATFORM_V1: 2}

#: TensorFlow's names of roles; a role with None has no TF_CONFIG.  Some jobs call their chief
#: ``master``.
TASK_TYPE: Final[Mapping[Role, str | None]] = {
    Role.PRIMARY: "chief",
    Role.WORKER: "worker",
    Role.PARAMETER_SERVER: "ps",
    Role.REDUCER: None,
    Role.EVALUATOR: "evaluator",
}

#: The roles that make up TensorFlow's cluster.
IN_CLUSTER: Final = (Role.PRIMARY, Role.WORKER, Role.PARAMETER_SERVER)

#: The first runtime version whose primary is a chief (catalog runtimes.toml, policy.tf_config).
CHIEF_SINCE: Final = (2, 1)


def variables(context: Context, role: Role, index: int) -> Variables:
    """Return TF_CONFIG for a replica; nothing if its dialect or its role has none."""
    task_type = task_type_of(context.spec, role)
    if task_type is None or context.spec.replica_count < REPLICAS_MIN[context.spec.dialect]:
        return {}
    config = {
        "cluster": cluster(context),
        "environment": "cloud",
        "job": job_document(context.spec),
        "task": {"type": task_type, "index": index, "cloud": cloud_id(context.job_id)},
    }
    if context.trial:
        config["task"]["trial"] = context.trial.trial_id
    return {names_of.TF_CONFIG: json.dumps(config)}


def cluster(context: Context) -> dict[str, list[str]]:
    """List the addresses of TensorFlow's cluster by task type; empty roles are left out."""
    groups = ((task_type_of(context.spec, role), context.members(role)) for role in IN_CLUSTER)
    return {task_type: members for task_type, members in groups if task_type and members}


def task_type_of(spec: JobSpec, role: Role) -> str | None:
    """Return a role's name in this job's TF_CONFIG; None for a role that has no TF_CONFIG."""
    return primary_word(spec) if role is Role.PRIMARY else TASK_TYPE[role]


def primary_word(spec: JobSpec) -> str:
    """Return ``chief`` or ``master``, the name of a job's primary in TF_CONFIG.

    Vertex says chief.  AI Platform Training says chief from runtime version 2.1 on and master
    before, and master for an image unless ``useChiefInTfConfig`` is true; a runtime version ignores
    that field.  A package with neither is a local run: chief.
    """
    program = primary_program(spec)
    if spec.dialect is Dialect.AIPLATFORM_V1 or program is None:
        return "chief"
    if program.image_uri:
        return "chief" if spec.use_chief_in_tf_config else "master"
    version = _numbers(program.runtime_version or "")
    return "master" if version and version < CHIEF_SINCE else "chief"


def _numbers(version: str) -> tuple[int, ...]:
    """Read ``2.11`` as (2, 11), which is more than (2, 2); return () for any other text."""
    words = version.split(".")
    return tuple(int(word) for word in words) if all(map(str.isdecimal, words)) else ()
