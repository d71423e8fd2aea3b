"""Hosts, ranks and reducers on which the settings of `rings.py` are measured, side by side."""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from benchmarks.reduction.crew import Crew, crew
from benchmarks.reduction.reducers import Reducers, reducers
from benchmarks.reduction.shaped_network import Network, network
from benchmarks.reduction.theory import optimum, ring
from benchmarks.reduction.torch_rank import TorchRank

BACKENDS: Final = ("gloo", "reduction")
#: A tensor that warms a group up: connections, credit and buffers exist afterwards.
WARM_MB: Final = 2.0
#: No backend is faster than its links; a few hundred KB fit into what they let through at once.
IMPOSSIBLE: Final = 1.05


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The times of both backends for one tensor or one step, between the same hosts."""

    name: str
    workers: int
    reducers: int
    rate_mbit: float | None
    size_mb: float
    gloo_s: Sequence[float]
    ours_s: Sequence[float]

    @property
    def ratio(self) -> float:
        """The time of gloo over the time of reducers."""
        return statistics.median(self.gloo_s) / statistics.median(self.ours_s)

    @property
    def theory(self) -> float:
        """The shortest possible time of a ring over that of reducers."""
        return ring(self.workers) / optimum(self.workers, self.reducers)

    @property
    def eff(self) -> float:
        """The shortest possible time over ours; 0 if no link has a rate."""
        least_s = optimum(self.workers, self.reducers) * self._unit_s
        return least_s / statistics.median(self.ours_s)

    @property
    def gloo_eff(self) -> float:
        """The shortest possible time of a ring over gloo's: 1 if only the links limit gloo."""
        return ring(self.workers) * self._unit_s / statistics.median(self.gloo_s)

    @property
    def _unit_s(self) -> float:
        """M/G: seconds in which a link carries the tensor once."""
        return self.size_mb * 1e6 / Network(rate_mbit=self.rate_mbit).goodput


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some ranks and the reducers that serve them."""

    workers: int
    serving: Reducers
    stage: "Stage"

    def measure(self, name: str, size_mb: float, reps: int) -> Setting:
        """All-reduce a tensor, in turn with both backends: A B, B A, ...

        Raises:
            RuntimeError: a sum was wrong, or the links are not as slow as they should be.

        """
        seconds: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
        self._warm(size_mb)
        for turn in range(reps):
            for backend in BACKENDS[:: -1 if turn % 2 else 1]:
                seconds[backend].append(self.checked(backend, size_mb))
        setting = self.setting(name, size_mb, seconds)
        if setting.gloo_eff > IMPOSSIBLE:
            raise RuntimeError(f"{name}: gloo was {setting.gloo_eff:.2f} of what its links allow")
        return setting

    def measure_small(self, name: str, size_mb: float, turns: int, count: int) -> Setting:
        """The same for a small tensor, ``count`` times in each of many turns."""
        self._warm(size_mb)
        self.prepare(size_mb)
        order = [backend for turn in range(turns) for backend in BACKENDS[:: -1 if turn % 2 else 1]]
        request = {"do": "go_in_turn", "backends": order, "count": count}
        answers = self.stage.crew.ask(request, to=range(self.workers))
        slowest_s = [
            max(turn) for turn in zip(*(answer["seconds"] for answer in answers), strict=True)
        ]
        seconds: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
        for backend, turn_s in zip(order, slowest_s, strict=True):
            seconds[backend].append(turn_s)
        return self.setting(name, size_mb, seconds)

    def _warm(self, size_mb: float) -> None:
        """Sum a small tensor with both."""
        for backend in BACKENDS:
            self.checked(backend, min(size_mb, WARM_MB))

    def setting(self, name: str, size_mb: float, seconds: dict[str, list[float]]) -> Setting:
        """Return the measurement with its setting."""
        return Setting(
            name=name,
            workers=self.workers,
            reducers=len(self.serving.addresses),
            rate_mbit=self.stage.net.rate_mbit,
            size_mb=size_mb,
            gloo_s=seconds["gloo"],
            ours_s=seconds["reduction"],
        )

    def prepare(self, size_mb: float, dtype: str = "FLOAT32") -> None:
        """Let every rank make a tensor of as many elements as fp32 has in ``size_mb``."""
        elements = int(size_mb * 1e6) // 4
        self.stage.crew.ask(
            {"do": "prepare", "elements": elements, "dtype": dtype}, to=range(self.workers)
        )

    def checked(self, backend: str, size_mb: float, dtype: str = "FLOAT32") -> float:
        """Seconds of one all-reduce with one backend, which must give exactly the sum.

        Raises:
            RuntimeError: it gave another one.

        """
        ask, members = self.stage.crew.ask, range(self.workers)
        self.prepare(size_mb, dtype)
        seconds = self.stage.crew.together({"do": "go", "backend": backend}, to=members)
        if not all(answer["right"] for answer in ask({"do": "check"}, to=members)):
            raise RuntimeError(f"{backend} gave a wrong sum of {size_mb:g} MB {dtype}")
        return seconds


@dataclass(kw_only=True)
class Stage:
    """Worker hosts first, then reducer hosts; a group lives until another one is asked for."""

    net: Network
    crew: Crew
    opened: int = 0
    group_of: tuple[int, int, str] | None = None
    current: Group | None = None
    holds: ExitStack = field(default_factory=ExitStack)

    def at(self, rate_mbit: float) -> None:
        """Let every link have a rate; a group that was formed with another is left."""
        if rate_mbit != self.net.rate_mbit:
            self.leave()
            self.net.reshape(rate_mbit)

    def group(self, workers: int, pool: int, *, route: str = "always") -> Group:
        """Return a group of that many ranks and reducers; reuse the current group if it fits."""
        layout = (workers, pool, route)
        if self.current is None or self.group_of != layout:
            self.leave()
            self.group_of, self.current = layout, self._open(*layout)
        return self.current

    def _open(self, workers: int, pool: int, route: str) -> Group:
        """Start the reducers, and let the ranks meet under a name of their own in the store."""
        world, members = len(self.crew.ranks), range(workers)
        serving = self.holds.enter_context(reducers(self.net, range(world, world + pool)))
        self.opened += 1
        request = {"do": "open", "name": f"group {self.opened}", "size": workers, "route": route}
        self.crew.ask({**request, **serving.settings()}, to=members)
        self.holds.callback(self.crew.ask, {"do": "close"}, to=members)
        return Group(workers=workers, serving=serving, stage=self)

    def leave(self) -> None:
        """Close the group, and end its reducers."""
        self.current = None
        self.holds.close()


@contextmanager
def stage(workers: int, pool: int, rate_mbit: float | None) -> Iterator[Stage]:
    """Hosts for so many ranks and reducers, and the ranks themselves, that have a store."""
    with network(workers + pool, rate_mbit) as net, stage_on(net, workers) as built:
        yield built


@contextmanager
def stage_on(net: Network, workers: int) -> Iterator[Stage]:
    """Ranks on the first hosts of a network; the others are for reducers."""

    def rank(number: int) -> TorchRank:
        return TorchRank(number, net.address(number), net.interface)

    with crew(net, workers, rank) as ranks:
        store = ranks.ask({"do": "serve_store"}, to=[0])[0]
        ranks.ask({"do": "meet", **store})
        built = Stage(net=net, crew=ranks)
        with built.holds:
            yield built
