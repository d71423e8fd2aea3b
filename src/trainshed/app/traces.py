"""Connects traces and the log of requests; OpenTelemetry is loaded only with an endpoint."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from trainshed import __version__
from trainshed.api.chain import AnsweredRequest, RequestWatch
from trainshed.api.request_records import log_request, trace_requests
from trainshed.config import Settings
from trainshed.model.attempt import AttemptKey
from trainshed.model.texts import install_command
from trainshed.observability.log_fields import set_traced_installation
from trainshed.observability.logs import ServerLogFormat
from trainshed.observability.spans import attempt_parent
from trainshed.store.opening import Store

if TYPE_CHECKING:
    from trainshed.observability.span_exporter import Collector, SpanExporter

_LOG = logging.getLogger(__name__)

#: The modules that the exporter imports.
_PACKAGES: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


@dataclass(frozen=True, slots=True)
class Traces:
    """The exporter of a server; ``exporter`` is None if it has no endpoint."""

    store: Store
    exporter: "SpanExporter | None" = None
    to_replicas: bool = False

    def start(self, leads: Callable[[], bool]) -> None:
        """Start to send spans; ``leads`` is whether this server sends those of jobs.

        Raises StoreFault.
        """
        if self.exporter is not None:
            from trainshed.service.traces.job_traces import JobTraces  # noqa: PLC0415

            # a server that is killed before it leads must leave out nothing after its start
            self.store.trace_mark()
            set_traced_installation(self.store.installation_number())
            self.exporter.start(JobTraces(self.store, leads))

    def stop(self) -> None:
        """Send what waits, for at most a few seconds."""
        if self.exporter is not None:
            self.exporter.stop()
            set_traced_installation(None)

    def parent_of(self, key: AttemptKey) -> str:
        """Return the ``traceparent`` for the programs of an attempt; empty without traces."""
        if self.exporter is None or not self.to_replicas or not key.uid:
            return ""
        return attempt_parent(self.store.installation_number(), key.uid, key.attempt).text


def make_traces(settings: Settings, store: Store) -> Traces:
    """Return the traces of a server."""
    otel = settings.otel
    if not otel.endpoint or not _has_packages():
        return Traces(store)
    from trainshed.observability.span_exporter import SpanExporter  # noqa: PLC0415

    exporter = SpanExporter(partial(_make_collector, otel.endpoint))
    return Traces(store, exporter, otel.to_replicas)


def make_watch(settings: Settings, traces: Traces) -> RequestWatch | None:
    """Return what is done with each answered request; None if nothing is."""
    watches: list[RequestWatch] = []
    if settings.log.format is ServerLogFormat.JSON:
        watches.append(log_request)
    if traces.exporter is not None:
        watches.append(trace_requests(traces.exporter))
    if len(watches) <= 1:
        return next(iter(watches), None)

    def watch_all(answered: AnsweredRequest) -> None:
        for watch in watches:
            watch(answered)

    return watch_all


def _has_packages() -> bool:
    """Whether OpenTelemetry is installed; logs what is missing.

    Its variables are often set for all programs of a machine, so the server starts without it.
    """
    try:
        missing = [name for name in _PACKAGES if find_spec(name) is None]
    except ModuleNotFoundError as error:  # a package above one of them
        missing = [str(error.name)]
    if missing:
        command = install_command("otel")
        _LOG.warning("cannot send traces: %s is missing; install it with %s", missing[0], command)
    return not missing


def _make_collector(endpoint: str) -> "Collector":
    # loads OpenTelemetry, which takes a tenth of a second and some megabytes
    from trainshed.observability.otlp import OtlpCollector  # noqa: PLC0415

    attributes = {"service.instance.id": f"{os.uname().nodename}-{os.getpid()}"}
    return OtlpCollector(endpoint, version=__version__, attributes=attributes)
