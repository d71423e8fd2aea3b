"""Resources that replicas need and machines have, for placement.

A ``Demand`` has the resources that one replica needs on its node; a ``Node`` has those of one
machine.  The node's policy decides whether CPU and memory count.
"""

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainshed.model.gpus import NodeGpu
from trainshed.model.roles import Role

#: In ``Node.gpu_alias``: GPUs of any type replace the requested type.
ANY_GPU = "any"


class FleetPolicy(enum.Enum):
    """The resources that a replica reserves on a node."""

    EXACT = "exact"
    """The machine type's vCPUs, memory and GPUs."""
    BEST_EFFORT = "best-effort"
    """GPUs only; CPU and memory are not reserved."""
    EMULATE = "emulate"
    """Nothing: the job runs without GPUs and its log says so."""


class NodeState(enum.Enum):
    """Whether a node accepts new replicas."""

    READY = "READY"
    DRAINED = "DRAINED"
    """The node accepts no new replicas; its running replicas continue."""
    MAINTENANCE = "MAINTENANCE"
    """The node accepts no new replicas; its running replicas get notice, and their jobs restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The resources that one replica of a group needs on its node.  0 and None mean not set."""

    vcpus: int = 0
    memory_gb: float = 0.0
    gpu_type: str | None = None
    gpu_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDemand:
    """The demand of all replicas of one group."""

    role: Role
    count: int
    each: Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDemand:
    """The demand of a whole job: all replicas are placed at once, or none."""

    region: str | None
    groups: tuple[GroupDemand, ...]
    engine: str | None = None
    """Only nodes of this engine may run the job; None: nodes of any engine."""

    @property
    def replica_count(self) -> int:
        """The number of replicas of the job."""
        return sum(group.count for group in self.groups)

    @property
    def gpus(self) -> Mapping[str, int]:
        """The number of GPUs of the whole job by type, which quota counts."""
        counts: Counter[str] = Counter()
        for group in self.groups:
            if group.each.gpu_type and group.each.gpu_count:
                counts[group.each.gpu_type] += group.count * group.each.gpu_count
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of the fleet.

    ``gpus`` is the number of its GPUs by type.  ``gpus_held`` is the number that other programs
    use; jobs do not get these GPUs until they are free.  ``gpu_alias`` maps a requested type to one
    that the node has, or to ``ANY_GPU``.  ``slots`` limits the replicas at one time, under every
    policy.  ``region`` None serves all regions: a user's own machines need not be where Google's
    are.  ``isolation`` is the isolation mode of jobs on the node.  ``leftovers`` are the means that
    end processes of a killed supervisor.  ``network`` is the network of jobs: ``job``, or ``host``
    and the reason.  These are empty if not known.  ``devices`` lists its GPUs for users; placement
    counts ``gpus``.
    """

    name: str
    region: str | None = None
    vcpus: int = 0
    memory_gb: float = 0.0
    gpus: Mapping[str, int] = field(default_factory=dict)
    gpus_held: Mapping[str, int] = field(default_factory=dict)
    gpu_alias: Mapping[str, str] = field(default_factory=dict)
    slots: int = 64
    policy: FleetPolicy = FleetPolicy.BEST_EFFORT
    state: NodeState = NodeState.READY
    isolation: str = ""
    leftovers: str = ""
    network: str = ""
    devices: tuple[NodeGpu, ...] = ()
    engine: str = ""
    """The name of the node's engine; the server sets it, engines leave it empty."""


def shown_name(node: Node, *, several: bool) -> str:
    """Return ``NODE``, or ``ENGINE/NODE`` where there are several engines."""
    return f"{node.engine}/{node.name}" if several and node.engine else node.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The node of one replica."""

    role: Role
    index: int
    node: str
    engine: str = ""
    """The name of the node's engine; empty: the only engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The quota that a job holds while the queue of its engine chooses its nodes.

    ``wants`` are labels of the job that begin with ``trainshed-``: wishes that the engine may
    support.
    """

    engine: str
    demand: JobDemand
    project: str = ""
    running_s_max: float | None = None
    """The seconds that the job may be RUNNING from now on; no limit if None."""
    priority: int = 0
    wants: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    """Why this engine was chosen, as a sentence; empty if there is no other."""


#: Where an attempt will run: the seats that the server gave it, or a claim on an engine's queue.
SeatsOrClaim = Sequence[Seat] | Claim
