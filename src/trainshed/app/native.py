"""Connects the services behind the native API."""

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from trainshed import __version__
from trainshed.api.metrics import MetricsPages
from trainshed.api.native.services import ConsoleState
from trainshed.engines.several import Engines
from trainshed.placement.jobs import QuotaRule
from trainshed.service.alerts.alerts import Alerts
from trainshed.service.auth.access import Access
from trainshed.service.auth.sign_ins import SignIns
from trainshed.service.costs.prices import PriceSource
from trainshed.service.jobs.dry_runs import DryRuns
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.story import Stories
from trainshed.service.log.numbered import NumberedLogs
from trainshed.service.log.pages import LogService
from trainshed.service.log.streams import Streams
from trainshed.service.nodes.fencing import AttemptService
from trainshed.service.nodes.node_service import NodeService
from trainshed.service.upkeep.audit_log import AuditLog
from trainshed.service.upkeep.buckets import BucketService
from trainshed.storage.buckets import Buckets
from trainshed.store.opening import Store

if TYPE_CHECKING:
    from trainshed.service.costs.job_accounts import JobAccounts
    from trainshed.service.figures.progress import ProgressReader
    from trainshed.service.figures.scalars import ScalarReader
    from trainshed.service.figures.usage import UsageReader
    from trainshed.service.goodput.reader import GoodputReader


def make_native(  # noqa: PLR0913, PLR0917 - the services of its routes
    store: Store,
    logs: LogService,
    nodes: NodeService,
    attempts: AttemptService,
    buckets: BucketService,
    streams: Streams,
    *,
    alerts: Alerts,
    access: Access,
    sign_ins: SignIns,
    console: ConsoleState,
    audit_log: AuditLog,
    quotas: Sequence[QuotaRule],
    dry_runs: DryRuns,
    pipelines: PipelineService,
    metrics: MetricsPages,
    count_console_stream: Callable[[int], None],
    read_progress: Callable[[], "ProgressReader"],
    read_accounts: Callable[[], "JobAccounts"],
    data_buckets: Buckets,
    remote_buckets: Collection[str],
    prices: PriceSource,
) -> ASGIApp:
    """Return the application behind the native routes.

    Its imports are slow, and the server answers Google's clients before they have ended.
    """
    from trainshed.api.native.app import native_app  # noqa: PLC0415
    from trainshed.api.native.services import Native  # noqa: PLC0415
    from trainshed.service.jobs.orders import JobOrders  # noqa: PLC0415
    from trainshed.service.texts.forecasts import StartForecasts  # noqa: PLC0415
    from trainshed.service.texts.job_texts import JobTexts  # noqa: PLC0415
    from trainshed.service.texts.starts import TextStarts  # noqa: PLC0415

    starts = StartForecasts(store, quotas, nodes.engines, pipelines.jobs.choose_engine)
    stories = Stories(store, prices)
    read_usage = cache(partial(_make_usage, stories, attempts.engines))
    native = Native(
        store=store,
        stories=stories,
        logs=logs,
        numbered_logs=NumberedLogs(store, logs.job_log),
        metrics=metrics,
        count_console_stream=count_console_stream,
        nodes=nodes,
        alerts=alerts,
        attempts=attempts,
        buckets=buckets,
        streams=streams,
        access=access,
        sign_ins=sign_ins,
        console=console,
        audit_log=audit_log,
        quotas=quotas,
        dry_runs=dry_runs,
        orders=JobOrders(store, pipelines.jobs, pipelines),
        texts=JobTexts(
            store, pipelines.jobs, pipelines, TextStarts(pipelines.jobs, starts), prices
        ),
        usage=read_usage,
        scalars=cache(partial(_make_scalars, read_usage, data_buckets, remote_buckets)),
        progress=read_progress,
        goodput=cache(partial(_make_goodput, stories, read_accounts)),
    )
    return native_app(native, __version__)


def _make_usage(stories: Stories, engines: Engines) -> "UsageReader":
    # most requests of a server need none of these readers, which take half a megabyte
    from trainshed.service.figures.usage import UsageReader  # noqa: PLC0415

    return UsageReader(stories, engines)


def _make_scalars(
    read_usage: Callable[[], "UsageReader"], buckets: Buckets, remote_buckets: Collection[str]
) -> "ScalarReader":
    from trainshed.service.figures.scalars import ScalarReader  # noqa: PLC0415

    return ScalarReader(read_usage(), buckets, remote_buckets)


def _make_goodput(stories: Stories, read_accounts: Callable[[], "JobAccounts"]) -> "GoodputReader":
    from trainshed.service.goodput.reader import GoodputReader  # noqa: PLC0415

    return GoodputReader(stories=stories, accounts=read_accounts())
