"""Samples of engines: their health, and the jobs in their own queues."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from trainshed.engines.base import PlacedBy
from trainshed.engines.capabilities import SupportsCommandCounts
from trainshed.engines.several import Engines
from trainshed.service.telemetry import families
from trainshed.service.telemetry.family import Distribution, FamilySamples
from trainshed.store.records.jobs import Holding


def read_engines(engines: Engines) -> Iterator[FamilySamples]:
    """Return what this server knows of its engines."""
    healths = engines.check_healths().items()
    up = {(name, why.reason.value if why else ""): 0.0 if why else 1.0 for name, why in healths}
    yield families.ENGINE_UP, up
    waits = engines.waits.totals().items()
    totals = {(name,): Distribution((), waited.attempts, waited.seconds) for name, waited in waits}
    yield families.ENGINE_QUEUE, totals
    yield families.ENGINE_ANSWER_AGE, dict(_list_ages(engines))
    yield families.ENGINE_COMMANDS, dict(_list_commands(engines))


def read_enqueued(engines: Engines, held: Iterable[Holding]) -> FamilySamples:
    """Count the jobs of all servers that wait in the engines' own queues."""
    counts = Counter(holding.engine or engines.first for holding in held if holding.enqueued)
    names = [name for name in engines.served if engines.traits_of(name).places is PlacedBy.ENGINE]
    return families.ENGINE_ENQUEUED, {(name,): float(counts[name]) for name in names}


def _list_ages(engines: Engines) -> Iterator[tuple[tuple[str, ...], float]]:
    for name, engine in _counting(engines):
        if (at := engine.answered_s()) is not None:
            yield (name,), max(0.0, time.time() - at)


def _list_commands(engines: Engines) -> Iterator[tuple[tuple[str, ...], float]]:
    for name, engine in _counting(engines):
        for (command, is_well), count in engine.count_commands().items():
            yield (name, command, "done" if is_well else "failed"), float(count)


def _counting(engines: Engines) -> Iterator[tuple[str, SupportsCommandCounts]]:
    for name, served in engines.served.items():
        if isinstance(served.engine, SupportsCommandCounts):
            yield name, served.engine
