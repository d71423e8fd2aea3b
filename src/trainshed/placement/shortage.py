"""Describes with numbers which part of a demand does not fit on a fleet."""

from typing import Final

from trainshed.model.gpus import GpuState
from trainshed.model.resources import Demand, FleetPolicy, JobDemand
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.messages import of_each, within
from trainshed.placement.topology import MEMORY, VCPUS, ReplicaBatch, ReplicaRequest, Where

_MIB_PER_GB: Final = 1024
_ADVICE: Final = "ask for a smaller machine type, or start the server with policy best-effort"


class Shortage:
    """Describes shortages of one state of a fleet; caches the sentences."""

    def __init__(self, fleet: FleetUsage) -> None:
        self._fleet = fleet
        self._sentences: dict[object, str] = {}
        self._most: dict[tuple[Where, str | None], tuple[int, str] | None] = {}

    def of(self, demand: JobDemand) -> str:
        """Return ``needs 4 NVIDIA_TESLA_T4 on one machine; 2 are free on node-a ...``."""
        shape = self._fleet.topology.shape(demand)
        if shape.key not in self._sentences:
            sentences = (self._of_batch(shape.where, batch) for batch in shape.batches)
            alone = "each of its groups fits alone, but not all at once"
            self._sentences[shape.key] = next(filter(None, sentences), alone)
        return self._sentences[shape.key]

    def _of_batch(self, where: Where, batch: ReplicaBatch) -> str | None:
        room = sum(self._fleet.candidates(where, batch.replica).totals)
        if room >= batch.count:
            return None
        if room:
            needs = f"needs {batch.count} replicas with {of_each(batch.replica)} each at once"
            return f"{needs}{within(where.region)}; there is room for {room}"
        needs = f"needs {of_each(batch.replica)} on one machine{within(where.region)}"
        return f"{needs}; {self._free(where, batch)}"

    def _free(self, where: Where, batch: ReplicaBatch) -> str:
        if not len(self._fleet.candidates(where, batch.replica)):
            return "no node offers that"
        most = self._most_gpus(where, batch.replica) if batch.replica.gpu_count else None
        if most and most[0] < batch.replica.gpu_count:
            free = {0: "none is", 1: "1 is"}.get(most[0], f"{most[0]} are")
            sentence = f"{free} free on {most[1]}, and no node has more"
            return "; ".join((sentence, *self._faulty(where, batch.replica)))
        return f"no node has all of that free{self._largest(where, batch)}"

    def _largest(self, where: Where, batch: ReplicaBatch) -> str:
        """Describe the free resources of the best node among those that reserve CPUs and memory."""
        demand, topology = batch.replica, self._fleet.topology
        nodes = [
            i
            for i, _ in topology.eligible(where, demand)
            if topology.ready[i] and topology.nodes[i].policy is FleetPolicy.EXACT
        ]
        if not nodes:
            return ""
        node = max(nodes, key=lambda i: (self._covers(i, demand), -i))
        room = self._fleet.rooms[node]
        has = f"{room[VCPUS]} vCPUs and {room[MEMORY] / _MIB_PER_GB:g} GB of memory"
        reserves = "policy exact reserves vCPUs and memory"
        largest = f"the largest, {topology.name(node)}, has {has} ({reserves})"
        return f"; {largest}; {_ADVICE}"

    def _covers(self, node: int, demand: Demand) -> tuple[float, float]:
        """Return the smallest and the sum of the shares of a demand that a node has free."""
        room = self._fleet.rooms[node]
        needs = ((room[VCPUS], demand.vcpus), (room[MEMORY] / _MIB_PER_GB, demand.memory_gb))
        shares = [has / need for has, need in needs if need] or [1.0]
        return min(shares), sum(shares)

    def _faulty(self, where: Where, replica: Demand) -> tuple[str, ...]:
        """Describe the faulty GPUs, which no job gets, on nodes that could hold a replica."""
        topology = self._fleet.topology
        nodes = [i for i, _ in topology.eligible(where, replica)]
        faults = [
            f"GPU {gpu.index} of {topology.name(i)} is faulty: {gpu.problem}"
            for i in nodes
            for gpu in topology.nodes[i].devices
            if gpu.state is GpuState.FAULTY
        ]
        left = len(faults) - 1
        more = "and 1 more GPU is faulty" if left == 1 else f"and {left} more GPUs are faulty"
        return (*faults[:1], more) if left > 0 else tuple(faults)

    def _most_gpus(self, where: Where, replica: Demand) -> tuple[int, str] | None:
        """Return the most GPUs that one replica could get, and the node; None without GPUs."""
        key = (where, replica.gpu_type)
        if key not in self._most:
            topology = self._fleet.topology
            eligible = [(i, a) for i, a in topology.eligible(where, replica) if topology.ready[i]]
            best = max(
                ((self._gpus(i, request), -i) for i, request in eligible if request.pools),
                default=None,
            )
            self._most[key] = best and (best[0], topology.name(-best[1]))
        return self._most[key]

    def _gpus(self, node: int, request: ReplicaRequest) -> int:
        room = self._fleet.rooms[node]
        return max(0, *(room[pool] for pool in request.pools))
