"""The names of replicas: in logs, in CLUSTER_SPEC, and as hosts.

Each dialect has one word for a role, and three names are formed from it: the task name of the logs
(docs/sources/gcloud.md 7.5), the key of CLUSTER_SPEC, and the host name.  One table has the words,
so that the three names always agree.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from trainshed.model.job import JobSpec
from trainshed.model.launch_plan import Address
from trainshed.model.network import CLUSTER_PORT, RENDEZVOUS_PORT
from trainshed.model.roles import POOL_OF_ROLE, Dialect, Role

#: The dialects' words for a role.  Two words of ml v1 are Trainshed's own: AI Platform has no
#: reducers, and docs/sources/gcloud.md 7.5 has no task name of an evaluator.
TASK_WORD: Final[Mapping[Dialect, Mapping[Role, str]]] = {
    Dialect.ML_V1: {
        Role.PRIMARY: "master",
        Role.WORKER: "worker",
        Role.PARAMETER_SERVER: "ps",
        Role.REDUCER: "reducer",
        Role.EVALUATOR: "evaluator",
    },
    Dialect.AIPLATFORM_V1: {role: f"workerpool{pool}" for role, pool in POOL_OF_ROLE.items()},
}

#: The format of a task name, from the word of the role and the index.
TASK_NAME: Final[Mapping[Dialect, str]] = {
    Dialect.ML_V1: "{word}-replica-{index}",
    Dialect.AIPLATFORM_V1: "{word}-{index}",
}


def task_name(dialect: Dialect, role: Role, index: int) -> str:
    """Return a task name: ``master-replica-0`` in ml v1, ``workerpool1-3`` in aiplatform v1."""
    return TASK_NAME[dialect].format(word=TASK_WORD[dialect][role], index=index)


def host_name(dialect: Dialect, job_id: str, role: Role, index: int) -> str:
    """Name a replica's host as Google does, such as ``cmle-training-workerpool1-0a1b2c3d4e-0``.

    In host names the primary of ml v1 is ``master``, even if TF_CONFIG calls it chief.
    """
    return f"cmle-training-{TASK_WORD[dialect][role]}-{short_id(job_id)}-{index}"


def short_id(job_id: str) -> str:
    """Return ten hexadecimal digits, always the same for a job: host names must be short."""
    return _digest(job_id)[:10]


def cloud_id(job_id: str) -> str:
    """Return ``task.cloud`` of TF_CONFIG: an internal id, always the same for one job."""
    return f"{_digest(job_id)[:17]}-ml"


def list_replicas(spec: JobSpec) -> Iterator[tuple[Role, int]]:
    """List every replica, in the order of the groups: of an admitted spec, the primary first."""
    for group in spec.groups:
        for index in range(group.count):
            yield group.role, index


def google_addresses(spec: JobSpec, job_id: str) -> dict[tuple[Role, int], Address]:
    """Give each replica the address it would have at Google, for plans that are only printed."""
    return {
        (role, index): Address(
            host=host_name(spec.dialect, job_id, role, index),
            port=CLUSTER_PORT,
            rendezvous_port=RENDEZVOUS_PORT,
        )
        for role, index in list_replicas(spec)
    }


def role_word(role: Role) -> str:
    """Name a role in a sentence: ``parameter server``."""
    return role.value.replace("_", " ")


def _digest(job_id: str) -> str:
    import hashlib  # noqa: PLC0415 - slow to import; a plain local run has no such names

    return hashlib.sha256(job_id.encode()).hexdigest()
