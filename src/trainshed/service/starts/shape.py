"""The ports that the replicas of a job need."""

from trainshed.engines.base import ReplicaShape
from trainshed.launch.reduction_env import procs_of
from trainshed.model.job import JobSpec
from trainshed.model.roles import Role

#: gcloud's order of ports (docs/sources/gcloud.md 9.1); reducers and evaluators come after it.
PORT_ORDER = (
    Role.PRIMARY,
    Role.PARAMETER_SERVER,
    Role.WORKER,
    Role.REDUCER,
    Role.EVALUATOR,
)


def shape_of(spec: JobSpec) -> tuple[ReplicaShape, ...]:
    """Return every replica in the order of ports, with one port for each listening process."""
    counts = {group.role: group.count for group in spec.groups}
    return tuple(
        ReplicaShape(role, index, procs_of(spec) if role is Role.REDUCER else 1)
        for role in PORT_ORDER
        for index in range(counts.get(role, 0))
    )
