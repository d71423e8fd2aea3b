"""The nodes: what the engine offers goes to the store, from where every server knows them."""

from collections.abc import Callable, Sequence

from trainshed.engines.base import Engine
from trainshed.model.resources import Node
from trainshed.store.opening import Store

#: How often an unchanged fleet is written again, so that readers see that it is alive (seconds).
SEEN_AGAIN_S = 30.0


class FleetReporter:
    """Reports what the engine has, when it has changed or was last reported long ago."""

    def __init__(self, store: Store, engine: Engine, monotonic: Callable[[], float]) -> None:
        """Nothing has been reported yet."""
        self._store = store
        self._engine = engine
        self._monotonic = monotonic
        self._reported: Sequence[Node] | None = None
        self._reported_at = float("-inf")

    def once(self) -> bool:
        """Ask the engine; whether the fleet is another one than before."""
        nodes = tuple(self._engine.fleet())
        changed = nodes != self._reported
        now = self._monotonic()
        if changed or now - self._reported_at >= SEEN_AGAIN_S:
            self._store.see_nodes(self._engine.name, nodes)
            self._reported, self._reported_at = nodes, now
        return changed
