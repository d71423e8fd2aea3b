"""Makes the counters of a server and its pages of metrics."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainshed.api.metrics import MetricsPages
from trainshed.app.traces import Traces
from trainshed.catalog.open import catalog_for
from trainshed.config import Settings
from trainshed.controller.loop import Controller
from trainshed.engines.several import Engines
from trainshed.model.job import JobSpec
from trainshed.model.roles import Dialect
from trainshed.service.costs.prices import PriceSource
from trainshed.service.log.streams import Streams
from trainshed.service.nodes.node_service import NodeService
from trainshed.service.telemetry import families
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.family import Family
from trainshed.service.telemetry.job_page import JobFigures, JobsPage
from trainshed.service.telemetry.server_page import HeldTime, MetricsPage, PageSources
from trainshed.storage.buckets import buckets_of
from trainshed.store.opening import Store

if TYPE_CHECKING:
    from trainshed.service.costs.job_accounts import JobAccounts
    from trainshed.service.figures.progress import ProgressReader


class ServerTelemetry(NamedTuple):
    """The pages of a server, and the chore that counts the time of held GPUs."""

    pages: MetricsPages
    count_held: Callable[[], None]


def make_telemetry(  # noqa: PLR0913, PLR0917 - what the pages describe
    settings: Settings,
    store: Store,
    counters: Counters,
    controller: Controller,
    nodes: NodeService,
    streams: Streams,
    traces: Traces,
    read_progress: Callable[[], "ProgressReader"],
    read_accounts: Callable[[], "JobAccounts"],
) -> ServerTelemetry:
    """Connect the pages to what they read; nothing is read yet."""
    sources = PageSources(
        store=store,
        counters=counters,
        engines=nodes.engines,
        gpus_now=nodes.gpus_now,
        is_leading=lambda: controller.leading,
        figures=_list_figures(controller, streams, traces),
        disks=_disks(settings),
        database="postgresql" if (settings.database or "").startswith("postgresql") else "sqlite",
    )
    page = MetricsPage(sources)
    figures = JobFigures(
        progress=lambda: read_progress().progress(None).rows,
        reported=lambda: read_progress().reported_s,
        checkpoints=lambda: read_accounts().checkpoints,
    )
    jobs = JobsPage(store, settings.metrics.jobs_max, figures)
    return ServerTelemetry(
        pages=MetricsPages(
            server=lambda is_open, is_scrape: page.text(is_open=is_open, is_scrape=is_scrape),
            jobs=(lambda names, is_open: jobs.text(names, is_open=is_open))
            if settings.metrics.jobs
            else None,
        ),
        count_held=HeldTime(sources).count,
    )


def _list_figures(
    controller: Controller, streams: Streams, traces: Traces
) -> Mapping[Family, Callable[[], float]]:
    figures: dict[Family, Callable[[], float]] = {
        families.REPLICAS_HUNG: lambda: controller.hung_replicas,
        families.UNATTENDED: lambda: controller.unattended_attempts,
        families.LOG_STREAMS: streams.count,
    }
    if (exporter := traces.exporter) is not None:
        figures[families.OTEL_DROPPED] = lambda: exporter.dropped
    return figures


def make_progress(store: Store, engines: Engines, prices: PriceSource) -> "ProgressReader":
    """Return the reader of the progress of running jobs."""
    # these imports are slow, and needed only for pages that show jobs
    from trainshed.service.figures.progress import ProgressReader  # noqa: PLC0415

    return ProgressReader(store, engines, prices, partial(_predict_step_s, store, prices))


def _predict_step_s(store: Store, prices: PriceSource, project: str, spec: JobSpec) -> float | None:
    from trainshed.service.learning.submit_notes import predict_job_step_s  # noqa: PLC0415

    catalog = catalog_for(Dialect.AIPLATFORM_V1, None, (), None)
    return predict_job_step_s(store, catalog, prices, project, spec)


def _disks(settings: Settings) -> Mapping[str, Path]:
    folders = {"data": settings.data_dir, "buckets": buckets_of(settings.data_dir).root}
    is_file = not settings.database or settings.database.startswith("sqlite")
    return {**folders, "database": settings.data_dir} if is_file else folders
