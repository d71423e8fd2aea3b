"""Makes the counters of a server and its pages of metrics."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from trainshed.api.metrics import MetricsPages
from trainshed.config import Settings
from trainshed.engines.several import Engines
from trainshed.service.nodes.node_gpus import GpusNow
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.job_page import JobsPage
from trainshed.service.telemetry.server_page import HeldTime, MetricsPage, PageSources
from trainshed.storage.buckets import buckets_of
from trainshed.store.opening import Store


class ServerTelemetry(NamedTuple):
    """The pages of a server, and the chore that counts the time of held GPUs."""

    pages: MetricsPages
    count_held: Callable[[], None]


def make_telemetry(  # noqa: PLR0913, PLR0917 - what the pages describe
    settings: Settings,
    store: Store,
    counters: Counters,
    engines: Engines,
    gpus_now: GpusNow | None,
    is_leading: Callable[[], bool],
) -> ServerTelemetry:
    """Connect the pages to what they read; nothing is read yet."""
    sources = PageSources(
        store=store,
        counters=counters,
        engines=engines,
        gpus_now=gpus_now,
        is_leading=is_leading,
        disks=_disks(settings),
        database="postgresql" if (settings.database or "").startswith("postgresql") else "sqlite",
    )
    page, jobs = MetricsPage(sources), JobsPage(store, settings.metrics.jobs_max)
    return ServerTelemetry(
        pages=MetricsPages(
            server=lambda is_open: page.text(is_open=is_open),
            jobs=(lambda names, is_open: jobs.text(names, is_open=is_open))
            if settings.metrics.jobs
            else None,
        ),
        count_held=HeldTime(sources).count,
    )


def _disks(settings: Settings) -> Mapping[str, Path]:
    folders = {"data": settings.data_dir, "buckets": buckets_of(settings.data_dir).root}
    is_file = not settings.database or settings.database.startswith("sqlite")
    return {**folders, "database": settings.data_dir} if is_file else folders
