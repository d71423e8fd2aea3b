"""The server's metrics in the text format of Prometheus."""

import threading
from collections.abc import Iterable
from dataclasses import replace

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from trainshed.engines.several import Engines
from trainshed.model.resources import shown_name
from trainshed.service.nodes import engine_metrics, gpu_metrics, node_gpus
from trainshed.service.nodes.node_gpus import GpusNow
from trainshed.store.opening import Store


class ServerMetrics:
    """Counts jobs and replicas at every scrape; keeps nothing."""

    def __init__(
        self, store: Store, gpus_now: GpusNow | None = None, engines: Engines | None = None
    ) -> None:
        """Make a separate registry: in tests, one process has several servers.

        ``gpus_now`` reads the GPUs of this server's machine.
        """
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(_Fleet(store, gpus_now, engines))
        self._lock = threading.Lock()

    def text(self) -> str:
        with self._lock:
            return generate_latest(self._registry).decode()


class _Fleet(Collector):
    def __init__(self, store: Store, gpus_now: GpusNow | None, engines: Engines | None) -> None:
        self._engines = engines
        self._store = store
        self._gpus_now = gpus_now

    def describe(self) -> Iterable[Metric]:
        """Describe nothing, so that registration does not query the store."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield jobs by project and state, and nodes with their replicas and GPUs."""
        jobs = GaugeMetricFamily("trainshed_jobs", "Jobs by state", labels=["project", "state"])
        for (project, state), count in self._store.counts().items():
            jobs.add_metric([project, state], count)
        replicas = GaugeMetricFamily(
            "trainshed_node_replicas", "Replicas that hold a place", labels=["node", "state"]
        )
        nodes = self._store.nodes()
        several = len({row.engine for row in nodes}) > 1
        named = [replace(row.node, name=shown_name(row.node, several=several)) for row in nodes]
        for row, node in zip(nodes, named, strict=True):
            replicas.add_metric([node.name, node.state.value], row.replicas)
        now = node_gpus.by_uuid(self._gpus_now)
        engines = self._engines
        return (
            jobs,
            replicas,
            *gpu_metrics.families(named, now),
            *(engine_metrics.families(engines, self._store.holding()) if engines else ()),
        )
