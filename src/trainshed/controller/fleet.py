"""The nodes: what the engines offer goes to the store, from where every server knows them."""

from collections.abc import Callable, Sequence

from trainshed.engines.several import Engines
from trainshed.model.resources import Node
from trainshed.store.opening import Store

#: How often an unchanged fleet is written again, so that readers see that it is alive (seconds).
SEEN_AGAIN_S = 30.0


class FleetReporter:
    """Reports what each engine has, when it has changed or was last reported long ago."""

    def __init__(self, store: Store, engines: Engines, monotonic: Callable[[], float]) -> None:
        """Nothing has been reported yet."""
        self._store = store
        self._engines = engines
        self._monotonic = monotonic
        self._reported: dict[str, tuple[Sequence[Node], float]] = {}

    def once(self) -> bool:
        """Ask the engines; whether the fleet is another one than before."""
        changed = [name for name in self._engines.served if self._report(name)]
        return bool(changed)

    def _report(self, name: str) -> bool:
        """Whether the fleet of an engine has changed; one that cannot say it keeps the last."""
        fleet = self._engines.fleet_of(name)
        if fleet is None:
            return False
        nodes = tuple(fleet)
        before, reported_at = self._reported.get(name, (None, float("-inf")))
        now = self._monotonic()
        if nodes != before or now - reported_at >= SEEN_AGAIN_S:
            self._store.see_nodes(name, nodes)
            self._reported[name] = nodes, now
        return nodes != before
