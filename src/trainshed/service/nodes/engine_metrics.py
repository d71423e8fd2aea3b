"""Prometheus families of engines: their health, and the jobs in their own queues."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from trainshed.engines.base import PlacedBy
from trainshed.engines.capabilities import SupportsCommandCounts
from trainshed.engines.several import Engines
from trainshed.store.records.jobs import Holding


def families(engines: Engines, held: Iterable[Holding]) -> Iterator[Metric]:
    """Return the families of the configured engines."""
    up = GaugeMetricFamily(
        "trainshed_engine_up", "1 while an engine is well", labels=["engine", "reason"]
    )
    for name, why in engines.check_healths().items():
        up.add_metric([name, why.reason.value if why else ""], 0.0 if why else 1.0)
    return iter((up, _enqueued(engines, held), _waits(engines), _ages(engines), _commands(engines)))


def _enqueued(engines: Engines, held: Iterable[Holding]) -> Metric:
    family = GaugeMetricFamily(
        "trainshed_engine_enqueued", "Jobs that wait in an engine's own queue", labels=["engine"]
    )
    counts = Counter(holding.engine or engines.first for holding in held if holding.enqueued)
    for name in engines.served:
        if engines.traits_of(name).places is PlacedBy.ENGINE:
            family.add_metric([name], counts[name])
    return family


def _waits(engines: Engines) -> Metric:
    family = SummaryMetricFamily(
        "trainshed_engine_queue_seconds",
        "Time from the hand-over to an engine's queue until the start of the attempt",
        labels=["engine"],
    )
    for name, waited in engines.waits.totals().items():
        family.add_metric([name], waited.attempts, waited.seconds)
    return family


def _ages(engines: Engines) -> Metric:
    family = GaugeMetricFamily(
        "trainshed_engine_answer_age_seconds",
        "Time since the cluster of an engine last answered",
        labels=["engine"],
    )
    for name, engine in _counting(engines):
        if (at := engine.answered_s()) is not None:
            family.add_metric([name], max(0.0, time.time() - at))
    return family


def _commands(engines: Engines) -> Metric:
    family = CounterMetricFamily(
        "trainshed_engine_commands",
        "Commands that an engine has run, by result",
        labels=["engine", "command", "result"],
    )
    for name, engine in _counting(engines):
        for (command, is_well), count in engine.count_commands().items():
            family.add_metric([name, command, "done" if is_well else "failed"], count)
    return family


def _counting(engines: Engines) -> Iterator[tuple[str, SupportsCommandCounts]]:
    for name, served in engines.served.items():
        if isinstance(served.engine, SupportsCommandCounts):
            yield name, served.engine
