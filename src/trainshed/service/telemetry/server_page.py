"""The page of metrics of one server: what it counts itself, and what it reads for each scrape.

Only the server that schedules describes the whole installation, so that sums over servers are
right.  All callers within a second get the same reading.  A database that does not answer costs a
caller ``STORE_S_MAX``, and the page has what the process knows.
"""

import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final

from trainshed import __version__
from trainshed.engines.several import Engines
from trainshed.files import room
from trainshed.model.resources import Node, shown_name
from trainshed.service.nodes import node_gpus
from trainshed.service.nodes.node_gpus import GpusNow
from trainshed.service.telemetry import families
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.engines import read_engines, read_enqueued
from trainshed.service.telemetry.family import Family, FamilySamples
from trainshed.service.telemetry.first_values import FirstValues
from trainshed.service.telemetry.gpus import count_held, list_local, read_local, read_node_gpus
from trainshed.service.telemetry.installation import NODES_MAX, read_jobs, read_nodes
from trainshed.service.telemetry.page import write_page
from trainshed.service.telemetry.process import read_process
from trainshed.service.telemetry.timed_reader import TimedReader
from trainshed.store.holdings import Holdings
from trainshed.store.opening import Store
from trainshed.store.records.nodes import NodeRow

#: Seconds for which a reading answers further callers.
FRESH_S: Final = 1.0
#: Seconds to wait for the database; Prometheus waits ten seconds for the page.
STORE_S_MAX: Final = 2.0
#: The longest time between two calls that is counted; a machine may have been suspended.
HELD_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSources:
    """Where the page reads."""

    store: Store
    counters: Counters
    engines: Engines | None = None
    gpus_now: GpusNow | None = None
    """Reads the GPUs of this server's machine; None: the engine reads none."""
    is_leading: Callable[[], bool] = lambda: True
    """Whether this server schedules, and so describes the whole installation."""
    figures: Mapping[Family, Callable[[], float]] = field(default_factory=dict)
    """Families without labels, with what other parts of the server know."""
    disks: Mapping[str, Path] = field(default_factory=dict)
    """Folders whose disks the page reports, by the value of the label ``what``."""
    database: str = ""
    """``sqlite`` or ``postgresql``."""


class MetricsPage:
    """The default page.  Thread-safe."""

    def __init__(
        self, sources: PageSources, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Read nothing before the first call."""
        self._sources = sources
        self._monotonic = monotonic
        self._store_reader = StoreReader(sources)
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._counted: Sequence[FamilySamples] = ()
        self._read_now: Sequence[FamilySamples] = ()
        self._first_values = FirstValues()
        self._texts: dict[tuple[bool, bool], str] = {}

    def text(self, *, is_open: bool = False, is_scrape: bool = False) -> str:
        """Return the page, in OpenMetrics if ``is_open``; at most ``FRESH_S`` old.

        With ``is_scrape`` new series of counters begin at 0.
        """
        with self._lock:
            if self._monotonic() - self._read_at >= FRESH_S:
                self._counted = list(self._sources.counters.read())
                self._read_now = list(self._read())
                self._texts = {}
                self._read_at = self._monotonic()
            key = is_open, is_scrape
            if key not in self._texts:
                self._texts[key] = self._write(is_open=is_open, is_scrape=is_scrape)
            return self._texts[key]

    def _write(self, *, is_open: bool, is_scrape: bool) -> str:
        counted: Iterable[FamilySamples] = self._counted
        if is_scrape:
            counted = self._first_values.begin_at_zero(counted, self._read_at)
        return write_page(chain(counted, self._read_now), is_open=is_open)

    def _read(self) -> Iterator[FamilySamples]:
        began = time.perf_counter()
        sources = self._sources
        yield families.BUILD_INFO, {_build(sources.database): 1.0}
        yield families.SERVER_LEADER, {(): float(sources.is_leading())}
        if sources.engines:
            yield from read_engines(sources.engines)
        for family, figure in sources.figures.items():
            yield family, {(): float(figure())}
        yield from _read_disks(sources.disks)
        yield from read_process()
        stored = self._store_reader.read()
        yield families.STORE_UP, {(): float(stored is not None)}
        yield from stored or ()
        yield families.SCRAPE, {(): time.perf_counter() - began}


class StoreReader:
    """Reads the families that need the database, and waits ``STORE_S_MAX`` at most."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._holdings = Holdings(sources.store)
        self._reader = TimedReader(lambda: list(self._read()), "metrics-store")

    def read(self) -> Sequence[FamilySamples] | None:
        """Return the families; None if the database does not answer in time."""
        return self._reader.read(STORE_S_MAX)

    def _read(self) -> Iterator[FamilySamples]:
        sources = self._sources
        yield families.CLOCK_SKEW, {(): sources.store.clock_skew_s()}
        rows = sources.store.nodes(with_replicas=False)  # asks the database, also if not leading
        if sources.is_leading():
            yield from self._read_installation(rows)

    def _read_installation(self, rows: Sequence[NodeRow]) -> Iterator[FamilySamples]:
        """Read what several servers share, with the GPUs of their machine."""
        sources = self._sources
        held = self._holdings.refresh()
        now = node_gpus.by_uuid(sources.gpus_now)
        nodes = name_nodes(rows)
        yield from read_local(list_local(nodes, now), held, sources.counters.projects.choose)
        yield families.SERVERS, {(): float(len(sources.store.servers()))}
        yield from read_jobs(sources.store.count_open(), sources.counters.projects.choose)
        are_many = len(nodes) > NODES_MAX
        labelled = [replace(node, name="") for node in nodes] if are_many else nodes
        yield from read_nodes(rows, held, [node.name for node in labelled])
        yield read_node_gpus(labelled, now)
        if sources.engines:
            yield read_enqueued(sources.engines, held.values())


class HeldTime:
    """Counts the time for which jobs hold the GPUs of this machine, while this server leads."""

    def __init__(
        self, sources: PageSources, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin to count at the first call of ``count``."""
        self._sources = sources
        self._monotonic = monotonic
        self._holdings = Holdings(sources.store)
        self._counted_at: float | None = None

    def count(self) -> None:
        """Count the time since the last call, at most ``HELD_S_MAX``.  Raises StoreFault."""
        if not self._sources.is_leading():
            self._counted_at = None
            return
        now = node_gpus.by_uuid(self._sources.gpus_now)
        at, self._counted_at = self._counted_at, self._monotonic()
        if not now or at is None:
            return
        nodes = name_nodes(self._sources.store.nodes(with_replicas=False))
        seconds = min(HELD_S_MAX, self._counted_at - at)
        held = self._holdings.refresh()
        count_held(list_local(nodes, now), held, self._sources.counters, seconds)


def name_nodes(rows: Sequence[NodeRow]) -> Sequence[Node]:
    """Return the nodes with the names that users see."""
    several = len({row.engine for row in rows}) > 1
    return [replace(row.node, name=shown_name(row.node, several=several)) for row in rows]


def _build(database: str) -> tuple[str, str, str]:
    return __version__, platform.python_version(), database


def _read_disks(disks: Mapping[str, Path]) -> Iterator[FamilySamples]:
    free: dict[tuple[str, ...], float] = {}
    sizes: dict[tuple[str, ...], float] = {}
    for what, folder in disks.items():
        with suppress(OSError):
            free[what,] = float(room.free_bytes(folder))
            sizes[what,] = float(room.total_bytes(folder))
    yield families.DATA_FREE, free
    yield families.DATA_SIZE, sizes
