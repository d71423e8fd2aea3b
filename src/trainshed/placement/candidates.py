"""Keeps the nodes that could take replicas of one size, in the order of preference.

Scanning a thousand nodes for each of a thousand jobs would make the planner slow.  A node is
examined again only when its room has changed.
"""

import heapq
from collections.abc import Sequence
from copy import copy

from trainshed.model.resources import Demand
from trainshed.placement.topology import (
    EMULATED,
    GPUS,
    MEMORY,
    SLOTS,
    VCPUS,
    ReplicaRequest,
    Topology,
    Where,
)

#: Free GPUs, vCPUs, memory and slots of a node, and the node: smaller is tighter.
Entry = tuple[int, int, int, int, int]


class Candidates:
    """Nodes by tier and by how many replicas fit, the fullest node first among equals."""

    __slots__ = ("_entries", "_levels", "_requests", "cursor", "fits", "totals")

    def __init__(
        self, topology: Topology, rooms: Sequence[Sequence[int]], where: Where, replica: Demand
    ) -> None:
        """Examine every node that takes new replicas."""
        eligible = topology.eligible(where, replica)
        self._requests: dict[int, ReplicaRequest] = {
            i: request for i, request in eligible if topology.ready[i]
        }
        self.fits: dict[int, int] = {}
        self.totals = [0] * (EMULATED + 1)
        self._entries: dict[int, Entry] = {}
        self._levels: list[dict[int, list[Entry]]] = [{} for _ in self.totals]
        self.cursor = 0
        for node in self._requests:
            self.look_at(node, rooms[node])

    def copy(self) -> "Candidates":
        """Return an independent copy."""
        new = copy(self)
        new.detach()
        return new

    def detach(self) -> None:
        """Replace the containers that this copy shares with its original."""
        self.fits = dict(self.fits)
        self.totals = list(self.totals)
        self._entries = dict(self._entries)
        self._levels = [
            {fits: list(heap) for fits, heap in levels.items()} for levels in self._levels
        ]

    def look_at(self, node: int, room: Sequence[int]) -> None:
        """Examine a node whose room may have changed."""
        request = self._requests.get(node)
        if request is None:
            return
        fits = max(request.fits(room), 0)
        entry = (sum(room[GPUS:]), room[VCPUS], room[MEMORY], room[SLOTS], node)
        before = self.fits.get(node, 0)
        if fits == before and self._entries.get(node) == entry:
            return
        self.fits[node] = fits
        self.totals[request.tier] += fits - before
        self._entries[node] = entry
        if fits:
            heap = self._levels[request.tier].setdefault(fits, [])
            heapq.heappush(heap, entry)
            if len(heap) > 4 * len(self._requests) + 16:
                self._tidy(heap, request.tier, fits)

    def best(self, tier: int, wanted: int) -> int | None:
        """Return the next node for ``wanted`` replicas, so that few nodes are used.

        Prefer the node with the least room that holds all of them, else the node with the most.
        """
        levels = self._levels[tier]
        largest = None
        for fits in sorted(levels):
            top = self._top(levels, fits)
            if top is not None:
                largest = top
                if fits >= wanted:
                    break
        return largest

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self._requests)

    def _tidy(self, heap: list[Entry], tier: int, fits: int) -> None:
        """Drop outdated entries of a heap that has grown."""
        heap[:] = sorted(
            self._entries[node]
            for node, node_fits in self.fits.items()
            if node_fits == fits and self._requests[node].tier == tier
        )

    def _top(self, levels: dict[int, list[Entry]], fits: int) -> int | None:
        """Return the first node of a level, after dropping outdated entries."""
        heap = levels[fits]
        while heap:
            entry = heap[0]
            node = entry[-1]
            if self.fits[node] == fits and self._entries[node] == entry:
                return node
            heapq.heappop(heap)
        del levels[fits]
        return None
