"""The nodes on which a job may run, in one partition or several, and the replicas they can hold.

Nodes that are only in use count as if they were empty.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from trainshed.engines.slurm.nodes import ClusterState, is_open
from trainshed.engines.slurm.parse import Partition, SlurmNode
from trainshed.engines.slurm.shape import Need

#: A constraint that this module can judge: features that a node must all have.
_FEATURES: Final = re.compile(r"[A-Za-z0-9_.]+(&[A-Za-z0-9_.]+)*")
#: A node whose state has one of these words has no free GPUs.
_FULL: Final = frozenset({"ALLOCATED", "COMPLETING"})


class NodePool(NamedTuple):
    """The nodes of a partition that match a constraint."""

    cluster: ClusterState
    nodes: Sequence[SlurmNode]
    partition: Partition | None = None
    """None: unknown, or several partitions."""
    memory_per_cpu_max: int | None = None
    """The memory that a job may have for each CPU, in MiB; None: no limit."""
    constraint: str = ""
    """The features that nodes must have, as in Slurm's ``--constraint``; empty: any."""

    def count_room(self, node: SlurmNode, need: Need, word: str | None) -> int:
        """Count the replicas that an empty node can hold, with GPUs of Slurm's word ``word``."""
        return min(self._list_limits(node, need, word))

    def count_replicas(self, need: Need, word: str | None) -> int:
        """Count the replicas that all nodes can hold."""
        return sum(self.count_room(node, need, word) for node in self.nodes)

    def count_fitting(self, need: Need) -> int:
        """Count the nodes that can hold a replica, with GPUs of the best word."""
        return max(
            sum(1 for node in self.nodes if self.count_room(node, need, word))
            for word in self._list_words(need)
        )

    def choose_word(self, need: Need, count: int, kept_word: str = "") -> str | None:
        """Choose Slurm's word for the GPUs of ``count`` replicas; None: they need no GPUs.

        An allocation has GPUs of one word.  A word whose nodes can hold all replicas is best; of
        several, ``kept_word``, the word of an allocation that may be kept; then a word for a type,
        and then the word with the most room on nodes that are not full.
        """

        def rank(word: str | None) -> tuple[bool, bool, bool, int, int, str]:
            rooms = [(self.count_room(node, need, word), node) for node in self.nodes]
            total = sum(room for room, _ in rooms)
            free = sum(room for room, node in rooms if _may_have_room(node))
            is_kept = bool(word) and word == kept_word
            return total >= count, is_kept, bool(word), min(free, count), total, word or ""

        return max(self._list_words(need), key=rank)

    def count_gpus(self, need: Need) -> int:
        """Return the largest number of GPUs of the type that one node has under one word."""
        counts = (
            node.gres.get(word or "", 0) for node in self.nodes for word in self._list_words(need)
        )
        return max(counts, default=0)

    def list_words(self, need: Need) -> Sequence[str]:
        """List Slurm's words for the GPUs of a replica that the nodes have, sorted."""
        words = {word for node in self.nodes for word in node.gres}
        return sorted(word for word in self._list_words(need) if word is not None and word in words)

    def _list_words(self, need: Need) -> Sequence[str | None]:
        if not need.gpus:
            return (None,)
        return sorted(self.cluster.words_for(need.gpu_type)) or ("",)

    def _list_limits(self, node: SlurmNode, need: Need, word: str | None) -> Iterator[int]:
        """Yield the number of replicas for which the CPUs, the memory and the GPUs suffice."""
        yield node.cpus // need.cpus
        if need.memory_mib:
            yield _usable_memory(node, self.partition) // need.memory_mib
        if need.gpus:
            yield node.gres.get(word or "", 0) // need.gpus


def pool_of(cluster: ClusterState, partition: Partition | None, constraint: str = "") -> NodePool:
    """Return the nodes of a partition; all nodes if the partition is unknown."""
    nodes = cluster.nodes_of(partition)
    if _FEATURES.fullmatch(constraint):
        features = frozenset(constraint.split("&"))
        nodes = [node for node in nodes if features <= node.features]
    limit = partition.memory_per_cpu_max if partition else None
    return NodePool(cluster, nodes, partition, limit, constraint)


def merge(pools: Sequence[NodePool]) -> NodePool:
    """Return all nodes of several pools, with the smallest limit of memory."""
    if len(pools) == 1:
        return pools[0]
    nodes = {node.name: node for pool in pools for node in pool.nodes}
    limits = [pool.memory_per_cpu_max for pool in pools if pool.memory_per_cpu_max is not None]
    return NodePool(pools[0].cluster, tuple(nodes.values()), None, min(limits, default=None))


def _may_have_room(node: SlurmNode) -> bool:
    return is_open(node) and not _FULL.intersection(node.state)


def _usable_memory(node: SlurmNode, partition: Partition | None) -> int:
    limit = partition.memory_per_node_max if partition else None
    return node.memory_mib if limit is None else min(node.memory_mib, limit)
