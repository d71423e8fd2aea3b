"""Makes a server from the settings: connects its store, engines, controller and APIs."""

import os
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from starlette.applications import Starlette

from trainshed.api.call import Method, Routes
from trainshed.api.chain import BrowserAccess, ChainServices
from trainshed.api.console.bundle import ConsoleBundle, read_bundle
from trainshed.api.handlers import (
    JobHandlers,
    LogEntries,
    ModelHandlers,
    Operations,
    TrainingPipelines,
)
from trainshed.api.metrics import MetricsPages, metrics_routes
from trainshed.api.native.services import ConsoleState
from trainshed.api.not_here import absent_sentence
from trainshed.api.permissions import Permissions
from trainshed.api.probes import Probes
from trainshed.api.rest import LazyApp, make_app
from trainshed.api.storage import storage_routes
from trainshed.api.table import Handlers, google_table
from trainshed.app.bucket_objects import open_objects, user_of_bucket
from trainshed.app.chores import (
    make_accounting,
    make_accounts,
    make_housekeeping,
    make_learning,
    make_submit_notes,
    open_job_log,
)
from trainshed.app.gateway import make_gateway_listener, select_env
from trainshed.app.native import make_native
from trainshed.app.telemetry import make_progress, make_telemetry
from trainshed.app.traces import Traces, make_traces, make_watch
from trainshed.catalog.open import catalog_for
from trainshed.config import Settings, load_environments
from trainshed.config.engine import engines_of
from trainshed.controller.loop import Controller
from trainshed.controller.perform import Compose
from trainshed.controller.worker import Pace
from trainshed.engines.base import Engine, NodeLocation
from trainshed.engines.capabilities import SupportsGpuStatus
from trainshed.engines.several import Engines
from trainshed.files.server_files import BACKUP_FILE
from trainshed.model.faults import UsageFault
from trainshed.model.roles import Dialect
from trainshed.service.alerts.alerts import Alerts
from trainshed.service.auth.access import Access
from trainshed.service.auth.sign_ins import SignIns
from trainshed.service.costs.prices import open_prices
from trainshed.service.gateway.listening import GatewayListener
from trainshed.service.gateway.places import NO_GATEWAY
from trainshed.service.jobs.dry_runs import DryRuns
from trainshed.service.jobs.job_service import JobService, OperationService
from trainshed.service.jobs.models import ModelService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.studies import TrialJobs
from trainshed.service.jobs.submission import SubmitRules
from trainshed.service.learning.plan_notes import PlanNotes
from trainshed.service.log.pages import LogService
from trainshed.service.log.streams import Streams
from trainshed.service.nodes.fencing import AttemptService
from trainshed.service.nodes.node_service import NodeService
from trainshed.service.ports.listening import OwnPorts, ServerPorts
from trainshed.service.starts.engine_images import RereadImages, images_of
from trainshed.service.starts.images import ImagesByEngine
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.store_counts import StoreCounts
from trainshed.service.upkeep.audit_log import AuditLog
from trainshed.service.upkeep.buckets import BucketService
from trainshed.service.upkeep.file_modes import PRIVATE_FOLDER, make_private
from trainshed.service.upkeep.housekeeping import Housekeeping
from trainshed.service.upkeep.project_bytes import ProjectBytes
from trainshed.storage.buckets import buckets_of
from trainshed.storage.uploads import Uploads
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store, open_store
from trainshed.store.records.jobs import JobKind

#: Seconds from the start until the server loads the native API, after its first requests.
NATIVE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One server, ready to be started."""

    settings: Settings
    store: Store
    controller: Controller
    housekeeping: Housekeeping
    http: Starlette
    native_timer: threading.Timer
    """Loads the native API ``NATIVE_S`` after the start."""
    table: Sequence[Method]
    chain_services: ChainServices
    audit_log: AuditLog
    learning: Housekeeping
    """Learns from ended jobs, more often than other chores run: users soon look at the results."""
    engines: Engines
    metrics: MetricsPages
    gateway: GatewayListener | None
    """Serves a Google VM's metadata to jobs; None if turned off or not supported by the engine."""
    traces: Traces

    def start(self) -> None:
        """Start the threads.  Raises StoreFault if another machine's server uses the database."""
        if self.engines.nearest.traits.reach is NodeLocation.THIS_MACHINE:
            _check_machine(os.uname().nodename, self.store.servers())
        if self.gateway:
            self.gateway.open_again()
            self.housekeeping.add("certificate of the gateway", self.gateway.renew)
        self.traces.start(lambda: self.controller.leading)
        self.controller.start()
        self.housekeeping.start()
        self.audit_log.start()
        self.learning.start()
        self.native_timer.start()

    def stop(self) -> None:
        """Stop the threads and close the store; jobs continue until the next server finds them."""
        self.native_timer.cancel()
        self.housekeeping.stop()
        self.learning.stop()
        self.audit_log.stop()
        try:
            self.controller.stop()
        finally:
            self.traces.stop()
            if self.gateway:
                self.gateway.close()
            self.engines.close()
            self.store.close()


def _check_machine(machine: str, servers: Sequence[str]) -> None:
    """Raise StoreFault if a server on another machine uses the database.

    Each of the two servers would start jobs that are placed on the other machine.
    """
    other_machines = {name.rsplit("-", 2)[0] for name in servers} - {machine}
    if other_machines:
        raise StoreFault(
            f"a server on {min(other_machines)} uses this database, and this machine is {machine}; "
            "run all servers of a database on one machine"
        )


def build(
    settings: Settings,
    *,
    engine: Engine | None = None,
    compose: Compose | None = None,
    ports: ServerPorts | None = None,
) -> Application:
    """Make a server and connect its parts; ``engine`` replaces the engine of the settings.

    ``ports`` makes the listening sockets of the gateway; by default the sockets close when the
    server ends.

    Raises StoreFault if the database cannot be used, UsageFault for invalid settings.
    """
    folder, counters = settings.data_dir, Counters()
    prices = open_prices(settings.prices_file)
    ports = ports or OwnPorts()
    if (folder / BACKUP_FILE).exists():
        raise UsageFault(
            f"--data-dir must not be a backup, got {folder}; restore it with: trainshed restore "
            f"{folder}"
        )
    make_private(folder)
    with ThreadPoolExecutor(1) as executor:  # an engine calls docker, which may be slow
        future = executor.submit(lambda: _engines(settings, engine))
        store = open_store(settings.store_url, listener=StoreCounts(counters))
        engines = future.result()
    engines.set_lookup(store.engines_of)
    nearest = engines.nearest
    images = _images(settings, engines)
    settings.jobs_dir.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    objects = open_objects(settings, partial(user_of_bucket, store, nearest.traits.uids))
    uploads = Uploads(objects)
    project_bytes = ProjectBytes(settings.project_bytes_max)
    storage = storage_routes(objects, uploads, store, project_bytes)
    access = Access(
        store,
        anonymous=settings.anonymous,
        clock=time.time,
        failures_a_minute=settings.failed_sign_ins_a_minute,
    )
    sign_ins = SignIns(store, access, time.time, counters.signed_in)
    bundle = read_bundle() if settings.console.enabled else None
    audit_log = AuditLog(store)
    gateway = make_gateway_listener(
        settings, store, engines, storage, access, audit_log, ports.listen
    )
    traces = make_traces(settings, store)
    launching = Launching(
        store,
        engines,
        images=images,
        buckets=buckets_of(folder),
        library=folder / LIBRARY,
        open_gateway=gateway.open if gateway else NO_GATEWAY,
        gs_paths=settings.gateway.gs_paths,
        proxies=select_env(os.environ, settings.pass_env),
        server_ports=ports.numbers,
        trace_of=traces.parent_of,
    )
    controller = Controller(
        store,
        engines,
        server=f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(3)}",
        compose=compose or launching,
        startable=launching.startable,
        buckets=buckets_of(folder),
        make_trial_job=TrialJobs(store, settings.running_s_default),
        quotas=settings.quotas,
        pace=Pace(grace_s=settings.grace_s, running_s_default=settings.running_s_default),
        budgets=settings.budgets,
        hang_restart=settings.hang_restart,
        clock=partial(_time_of, store),
        listener=counters,
    )
    leads = lambda: controller.leading  # noqa: E731 - read at each call
    read_accounts = cache(partial(make_accounts, store, engines, prices))
    logs = LogService(
        store,
        open_job_log(settings, engines),
        settle=lambda uid: read_accounts().settle(uid),
    )
    catalog = catalog_for(Dialect.AIPLATFORM_V1, None, (), None)
    plan_notes = PlanNotes(store=store, make=partial(make_submit_notes, store, catalog, prices))
    rules = SubmitRules(
        images=images,
        engines=engines,
        quotas=settings.quotas,
        project_jobs_max=settings.project_jobs_max,
        project_bytes=project_bytes,
        running_s_default=settings.running_s_default,
        noted=plan_notes.add,
    )
    jobs = JobService(store, rules, controller.wake, submitted=controller.look)
    permissions = Permissions(store.project)
    pipelines = PipelineService(store, rules, jobs, controller.look)
    table = _table(store, jobs, pipelines, LogEntries(logs, permissions))
    routes = Routes(table, absent_sentence)
    chain_services = ChainServices(
        routes=routes,
        permissions=permissions,
        recognise=access.caller,
        allowed_hosts=(settings.host, *settings.allowed_hosts),
        allowed_origins=settings.allowed_origins,
        body_bytes_max=settings.body_bytes_max,
        browsers=_browser_access(settings, sign_ins),
        audit=audit_log.add,
        watch=make_watch(settings, traces),
        answered=counters.answered,
        refused=counters.refused,
    )
    nodes = NodeService(
        store=store,
        notice_s=settings.notice_s,
        ordered=controller.look_at_nodes,
        gpus_now=nearest.gpus_now if isinstance(nearest, SupportsGpuStatus) else None,
        engines=engines,
    )
    read_progress = cache(partial(make_progress, store, engines, prices))
    streams = Streams(settings.streams_max)
    telemetry = make_telemetry(
        settings, store, counters, controller, nodes, streams, traces, read_progress, read_accounts
    )
    alerts = Alerts(
        store=store,
        gpus_now=nodes.gpus_now,
        disks={"data folder": folder},
        now=lambda: store.now().timestamp(),
    )
    attempts = AttemptService(store, engines)
    buckets = BucketService(store=store, has_folder=objects.buckets.has)
    native = LazyApp(
        partial(
            make_native,
            store,
            logs,
            nodes,
            attempts,
            buckets,
            streams,
            alerts=alerts,
            access=access,
            sign_ins=sign_ins,
            console=_console_state(settings, bundle),
            audit_log=audit_log,
            quotas=settings.quotas,
            dry_runs=DryRuns(jobs=jobs, engines=engines, preview=launching.preview),
            pipelines=pipelines,
            data_buckets=buckets_of(folder),
            remote_buckets=settings.buckets,
            prices=prices,
            metrics=telemetry.pages,
            count_console_stream=counters.add_console_stream,
            read_progress=read_progress,
            read_accounts=read_accounts,
        )
    )
    housekeeping = make_housekeeping(
        settings,
        store,
        engines,
        access,
        sign_ins,
        uploads,
        project_bytes,
        leads,
        counters.pruned_log,
    )
    housekeeping.add("alerts", alerts.look)
    http = make_app(
        chain_services,
        raw=storage,
        native=native,
        exchange=access.exchange,
        probes=Probes(
            is_healthy=lambda: store.waiting_count() >= 0,
            is_controlling=lambda: controller.is_running,
        ),
        console=bundle,
        more=metrics_routes(telemetry.pages, chain_services),
    )
    return Application(
        settings=settings,
        store=store,
        controller=controller,
        gateway=gateway,
        housekeeping=housekeeping,
        http=http,
        native_timer=_make_native_timer(native, store),
        table=table,
        chain_services=chain_services,
        audit_log=audit_log,
        learning=make_learning(
            store,
            engines,
            catalog,
            prices,
            plan_notes,
            {
                "use of machines": make_accounting(store, read_accounts, leads),
                "time of held GPUs": telemetry.count_held,
            },
        ),
        engines=engines,
        traces=traces,
        metrics=telemetry.pages,
    )


def _browser_access(settings: Settings, sign_ins: SignIns) -> BrowserAccess | None:
    """Return how browsers call with a sign-in; None if they need none or have no console."""
    if settings.anonymous or not settings.console.enabled:
        return None
    return BrowserAccess(recognise=sign_ins.recognise, plain_http=settings.console.plain_http)


def _console_state(settings: Settings, bundle: ConsoleBundle | None) -> ConsoleState:
    return ConsoleState(
        is_enabled=bundle is not None,
        is_anonymous=settings.anonymous,
        plain_http=settings.console.plain_http,
        revision=bundle.revision if bundle else "",
    )


def _images(settings: Settings, engines: Engines) -> ImagesByEngine:
    """Return the images of each engine, updated when the file changes.  Raises UsageFault."""
    make = partial(images_of, engines, have_tables=bool(settings.engines))
    first = make(settings.environments, settings.images)
    if (file := settings.config_file) is None:
        return first
    return RereadImages(first, file, lambda: make(*load_environments(file)))


def _engines(settings: Settings, engine: Engine | None) -> Engines:
    return engines_of(settings) if engine is None else Engines.from_engine(engine)


def _time_of(store: Store) -> datetime:
    """Return the machine's time, corrected by the clock skew that the store measures."""
    return datetime.now(UTC) - timedelta(seconds=store.clock_skew_s())


def _table(
    store: Store, jobs: JobService, pipelines: PipelineService, logs: LogEntries
) -> tuple[Method, ...]:
    handlers = Handlers(
        ml_jobs=JobHandlers(JobKind.ML_JOB, jobs),
        custom_jobs=JobHandlers(JobKind.CUSTOM_JOB, jobs),
        tuning_jobs=JobHandlers(JobKind.TUNING_JOB, jobs),
        pipelines=TrainingPipelines(pipelines),
        models=ModelHandlers(ModelService(store)),
        operations=Operations(OperationService(store)),
        logs=logs,
    )
    return google_table(handlers)


def _make_native_timer(native: LazyApp, store: Store) -> threading.Timer:
    def perform() -> None:
        native.made()
        with suppress(StoreFault):  # the housekeeping retries, and logs the failure
            store.keep_room()

    timer = threading.Timer(NATIVE_S, perform)
    timer.daemon = True
    return timer
