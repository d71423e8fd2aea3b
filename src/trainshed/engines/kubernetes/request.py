"""The values of a manifest: all that the objects of one attempt depend on.

A request has no secret, so a request and its JobSet may be printed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.names import JOB_ID, PROJECT
from trainshed.engines.kubernetes.options import KubernetesOptions, PodScheduling
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.resources import Demand, JobDemand
from trainshed.model.roles import Role

#: The port of a launcher: pods have addresses of their own, so no other program has the port.
LAUNCHER_PORT: Final = 61100
#: Seconds between the last possible end by a launcher and the end by the cluster.  Time before the
#: programs run counts too: an installation of packages may take six hours.
_SPARE_S: Final = 7 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRuntime:
    """What pods run launchers and wardens with; paths are those in pods."""

    start: tuple[str, ...]
    """The words before the archive."""
    archive: str
    architecture: str
    user: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """The pods of all replicas of one role."""

    role: Role
    first: int
    """Position in the plan of the first replica; the others follow."""
    count: int
    image: str
    """The image of the pods, which also runs the launcher."""
    demand: Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRequest:
    """The values of the JobSet of one attempt."""

    key: AttemptKey
    installation: str
    roles: tuple[RoleRequest, ...]
    """In the order of the plan: the primary is the first."""
    start: tuple[str, ...]
    """The words that start the server's Python in pods, with its options."""
    archive: str
    """Path in pods of the archive that launchers and wardens run from."""
    options: KubernetesOptions
    user: int
    """The server's user id, with which launchers run."""
    group: int
    architecture: str
    """The server's architecture in Kubernetes' words, such as ``amd64``."""
    scheduling: PodScheduling
    job_id: str
    """The job's id in its project."""
    project: str
    gpus: Mapping[str, GpuRow] = field(default_factory=dict)
    """The rows of GPUs by accelerator type: those of the settings and of the nodes."""
    buckets: tuple[str, ...] = ()
    """The names of the buckets of the job's project."""
    deadline_s: int | None = None
    """Seconds after which the cluster ends the pods; None: never."""

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the JobSet and its pods."""
        return {JOB_ID: self.job_id, PROJECT: self.project}


def list_roles(
    replicas: Sequence[ReplicaPlan], demand: JobDemand, choose_image: Callable[[ReplicaPlan], str]
) -> tuple[RoleRequest, ...]:
    """List the roles of a plan; all replicas of a role have one image.

    Raises ValueError for a plan in another order than by role, with the primary first.
    """
    demands = {group.role: group.each for group in demand.groups}
    roles, first = [], 0
    for role, group in groupby(replicas, key=lambda replica: replica.role):
        members = list(group)
        roles.append(
            RoleRequest(
                role=role,
                first=first,
                count=len(members),
                image=choose_image(members[0]),
                demand=demands.get(role, Demand()),
            )
        )
        first += len(members)
    _check_roles([role.role for role in roles])
    return tuple(roles)


def choose_deadline_s(running_s_max: float | None, options: KubernetesOptions) -> int | None:
    """Return the seconds after which the cluster ends the pods of an attempt as a last resort.

    The launcher ends the attempt earlier.  None: the attempt has no limit.
    """
    if running_s_max is None:
        return None
    return math.ceil(running_s_max + options.start_timeout_s + options.grace_s_max + _SPARE_S)


def _check_roles(roles: Sequence[Role]) -> None:
    if len(set(roles)) < len(roles) or roles[:1] != [Role.PRIMARY]:
        words = ", ".join(role.value for role in roles)
        raise ValueError(f"a plan must have its replicas by role, the primary first, got {words}")
