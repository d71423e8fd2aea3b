"""The services behind the native routes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.api.metrics import MetricsPages
from trainshed.placement.jobs import QuotaRule
from trainshed.service.alerts.alerts import Alerts
from trainshed.service.auth.access import Access
from trainshed.service.auth.sign_ins import SignIns
from trainshed.service.jobs.dry_runs import DryRuns
from trainshed.service.jobs.orders import JobOrders
from trainshed.service.jobs.story import Stories
from trainshed.service.log.numbered import NumberedLogs
from trainshed.service.log.pages import LogService
from trainshed.service.log.streams import Streams
from trainshed.service.nodes.fencing import AttemptService
from trainshed.service.nodes.node_service import NodeService
from trainshed.service.texts.job_texts import JobTexts
from trainshed.service.upkeep.audit_log import AuditLog
from trainshed.service.upkeep.buckets import BucketService
from trainshed.store.opening import Store

if TYPE_CHECKING:
    from trainshed.service.figures.progress import ProgressReader
    from trainshed.service.figures.scalars import ScalarReader
    from trainshed.service.figures.usage import UsageReader
    from trainshed.service.goodput.reader import GoodputReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleState:
    """How the server offers its console."""

    is_enabled: bool
    is_anonymous: bool
    """Whether callers of this machine need no sign-in."""
    plain_http: bool
    """Whether browsers on other machines may sign in over plain HTTP."""
    revision: str
    """A hash of the sources of the page; empty without a console."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """The services behind the native routes.

    ``metrics`` are the pages of Prometheus.  ``count_console_stream`` gets 1 for each stream of
    changes that begins, and -1 for one that ends.
    """

    store: Store
    stories: Stories
    logs: LogService
    numbered_logs: NumberedLogs
    metrics: MetricsPages
    count_console_stream: Callable[[int], None]
    nodes: NodeService
    alerts: Alerts
    attempts: AttemptService
    buckets: BucketService
    streams: Streams
    access: Access
    sign_ins: SignIns
    console: ConsoleState
    audit_log: AuditLog
    dry_runs: DryRuns
    orders: JobOrders
    texts: JobTexts
    usage: "Callable[[], UsageReader]"
    """The readers of figures are imported for the first request that needs them."""
    scalars: "Callable[[], ScalarReader]"
    progress: "Callable[[], ProgressReader]"
    goodput: "Callable[[], GoodputReader]"
    quotas: Sequence[QuotaRule] = ()
