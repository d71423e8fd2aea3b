"""Writes the nodes that the engines offer to the store, where every server reads them."""

from collections.abc import Callable, Sequence

from trainshed.engines.several import Engines
from trainshed.model.resources import Node
from trainshed.store.opening import Store

#: Seconds after which an unchanged fleet is written again, to show that it is current.
SEEN_AGAIN_S = 30.0


class FleetReporter:
    """Reports the nodes of each engine when they change, and at a slow interval."""

    def __init__(self, store: Store, engines: Engines, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._engines = engines
        self._monotonic = monotonic
        self._reported: dict[str, tuple[Sequence[Node], float]] = {}

    def once(self) -> bool:
        """Query the engines; return whether the fleet has changed."""
        changed = [name for name in self._engines.served if self._report(name)]
        return bool(changed)

    def _report(self, name: str) -> bool:
        """Store an engine's nodes; return whether they changed.  Skip an unreachable engine."""
        fleet = self._engines.list_nodes(name)
        if fleet is None:
            return False
        nodes = tuple(fleet)
        before, reported_at = self._reported.get(name, (None, float("-inf")))
        now = self._monotonic()
        if nodes != before or now - reported_at >= SEEN_AGAIN_S:
            self._store.see_nodes(name, nodes)
            self._reported[name] = nodes, now
        return nodes != before
