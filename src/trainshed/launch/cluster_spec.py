"""CLUSTER_SPEC: the whole cluster, for frameworks other than TensorFlow.

Unlike TF_CONFIG it lists every group, evaluators and reducers included, and each replica finds
itself in it: ``cluster[task.type][task.index]`` is its own address.
"""

import json

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables, primary_program
from trainshed.launch.job_document import job_document
from trainshed.launch.names import TASK_WORD
from trainshed.model.job import JobSpec
from trainshed.model.roles import Dialect, Role


def variables(context: Context, role: Role, index: int) -> Variables:
    """Return CLUSTER_SPEC for a replica; nothing if its job has none."""
    if not is_set(context.spec):
        return {}
    task = {"type": TASK_WORD[context.spec.dialect][role], "index": index}
    if context.trial:
        task["trial"] = context.trial.trial_id
    description = {
        "cluster": cluster(context),
        "environment": "cloud",
        "task": task,
        "job": job_document(context.spec),
    }
    return {names_of.CLUSTER_SPEC: json.dumps(description)}


def is_set(spec: JobSpec) -> bool:
    """Whether the replicas of a job get CLUSTER_SPEC (docs/sources/vertex.md 10).

    All Vertex AI jobs have it, and AI Platform jobs whose primary runs in an image.
    """
    program = primary_program(spec)
    if program is None:
        return False
    return spec.dialect is Dialect.AIPLATFORM_V1 or program.image_uri is not None


def cluster(context: Context) -> dict[str, list[str]]:
    """List the addresses of all groups that exist, under the dialect's word for each."""
    words = TASK_WORD[context.spec.dialect]
    return {words[group.role]: context.members(group.role) for group in context.spec.groups}
