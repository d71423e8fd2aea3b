"""The nodes and partitions of the cluster from the last poll, for the fleet and ``judge``."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.engines.accelerator_names import find_accelerator
from trainshed.engines.slurm.parse import Partition, SlurmNode
from trainshed.model.resources import ANY_GPU, FleetPolicy, Node, NodeState

_MIB_PER_GB: Final = 1024
#: A node whose state has one of these words accepts no new jobs.
_CLOSED: Final = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "FUTURE", "INVAL",
     "INVALID_REG", "MAINT", "MAINTENANCE", "REBOOT", "UNKNOWN"}
)  # fmt: skip
#: A node whose state has one of these words does not answer Slurm.
_SILENT: Final = frozenset({"NOT_RESPONDING", "NO_RESPOND", "*"})
#: Slurm has switched such a node off or restarts it, so its silence is expected.  Slurm boots a
#: node that is off when a job needs it.
_SWITCHED: Final = frozenset(
    {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED",
     "~", "#", "%", "!"}
)  # fmt: skip


class ClusterState(NamedTuple):
    """Nodes and partitions from the last poll."""

    nodes: Sequence[SlurmNode] = ()
    partitions: Mapping[str, Partition] = {}
    gres: Mapping[str, Sequence[str]] = {}
    """Slurm's words for the GPUs of a type, from the configuration."""
    has_gpu_options: bool = True
    """Whether jobs may request GPUs by task; otherwise only a number for each node."""
    kills_steps: bool = False
    """Whether the kernel kills all processes of a step, also launchers, if one has no memory."""

    def partition(self, name: str) -> Partition | None:
        """Return the partition of a name, or for "" the default partition; None: unknown."""
        if name:
            return self.partitions.get(name)
        return next(
            (partition for partition in self.partitions.values() if partition.is_default), None
        )

    def gives_notice(self, names: str) -> bool:
        """Return whether one of these partitions gives jobs notice of a preemption.

        ``names`` are joined by commas; empty: the default partition.
        """
        partitions = map(self.partition, names.split(","))
        return any(partition is not None and partition.gives_notice for partition in partitions)

    def nodes_of(self, partition: Partition | None) -> Sequence[SlurmNode]:
        """List the nodes of a partition; all nodes if the partition is unknown."""
        if partition is None:
            return self.nodes
        return [node for node in self.nodes if partition.name in node.partitions]

    def words_for(self, gpu_type: str | None) -> frozenset[str]:
        """Return Slurm's words for the GPUs of a type; all words if the type is None."""
        words = {word for node in self.nodes for word in node.gres}
        if gpu_type is None:
            return frozenset(words)
        if gpu_type in self.gres:
            return frozenset(self.gres[gpu_type])
        return frozenset(word for word in words if self.accelerator_of(word) in {gpu_type, ANY_GPU})

    def accelerator_of(self, word: str) -> str:
        """Return the accelerator type for Slurm's word; ANY_GPU if the word is empty."""
        gpu_type = next((name for name, words in self.gres.items() if word in words), None)
        if gpu_type or not word:
            return gpu_type or ANY_GPU
        return find_accelerator(word) or word

    def is_own_type(self, name: str) -> bool:
        """Return whether a type has only the cluster's name, so that no job can ask for it."""
        return name not in self.gres and find_accelerator(name) != name

    @property
    def types(self) -> list[str]:
        """The accelerator types of the cluster, sorted."""
        words = {word for node in self.nodes for word, count in node.gres.items() if count and word}
        return sorted({self.accelerator_of(word) for word in words})


def fleet(cluster: ClusterState, policy: FleetPolicy) -> Sequence[Node]:
    """Convert the cluster's nodes to nodes of the fleet."""
    return [_convert_node(cluster, node, policy) for node in cluster.nodes]


def is_open(node: SlurmNode) -> bool:
    """Return whether a node accepts new jobs, if necessary after it has booted."""
    return not (_CLOSED.intersection(node.state) or is_silent(node))


def is_silent(node: SlurmNode) -> bool:
    """Return whether Slurm cannot reach a node that should run: its jobs have an unknown state."""
    return bool(_SILENT.intersection(node.state)) and not _SWITCHED.intersection(node.state)


def _convert_node(cluster: ClusterState, node: SlurmNode, policy: FleetPolicy) -> Node:
    gpus: dict[str, int] = {}
    for word, count in node.gres.items():
        name = cluster.accelerator_of(word)
        gpus[name] = gpus.get(name, 0) + count
    return Node(
        name=node.name,
        vcpus=node.cpus,
        memory_gb=node.memory_mib / _MIB_PER_GB,
        gpus=gpus,
        policy=policy,
        state=NodeState.READY if is_open(node) else NodeState.DRAINED,
    )
