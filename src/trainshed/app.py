"""The one place that knows everything and wires it: store, engine, controller, API."""

import os
import resource
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.types import ASGIApp

from trainshed import __version__
from trainshed.api.call import Method, RawMethod, Routes
from trainshed.api.chain import ChainServices
from trainshed.api.handlers import (
    JobHandlers,
    LogEntries,
    ModelHandlers,
    Operations,
    TrainingPipelines,
)
from trainshed.api.not_here import absent_sentence
from trainshed.api.permissions import Permissions
from trainshed.api.rest import LazyApp, make_app
from trainshed.api.storage import storage_routes
from trainshed.api.table import Handlers, google_table
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.open import catalog_for
from trainshed.config import Settings, load_environments
from trainshed.config.engine import engines_of
from trainshed.config.settings import DROP, LOG, PASS, GatewaySettings
from trainshed.controller.loop import Controller
from trainshed.controller.perform import Compose
from trainshed.controller.worker import Pace
from trainshed.engines.base import Engine, NodeLocation
from trainshed.engines.several import Engines
from trainshed.files.server_files import BACKUP_FILE
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import UsageFault
from trainshed.model.roles import Dialect
from trainshed.placement.jobs import QuotaRule
from trainshed.service.auth import bucket_tokens
from trainshed.service.auth.access import Access
from trainshed.service.gateway.job_networks import SOCKETS_MAX, JobNetworks
from trainshed.service.gateway.listening import GatewayListener, Serving
from trainshed.service.gateway.places import HOSTS, NO_GATEWAY, OTHER_HOSTS, TELEMETRY_HOSTS
from trainshed.service.gateway.stored_attempts import AttemptOfPeer, AttemptsOfStore
from trainshed.service.gateway.telemetry import TASK, Telemetry, tell_in_story
from trainshed.service.gateway.tokens import AttemptTokens
from trainshed.service.jobs.job_service import JobService, OperationService
from trainshed.service.jobs.models import ModelService
from trainshed.service.jobs.pipelines import PipelineService
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.studies import TrialJobs
from trainshed.service.jobs.submission import SubmitRules
from trainshed.service.learning.plan_notes import PlanNotes, SubmittedJob
from trainshed.service.learning.turns import CpuBudget
from trainshed.service.log.pages import LogService
from trainshed.service.log.streams import Streams
from trainshed.service.nodes.fencing import AttemptService
from trainshed.service.nodes.node_service import NodeService
from trainshed.service.ports.listening import Listen, OwnPorts, ServerPorts
from trainshed.service.starts.engine_images import RereadImages, images_of
from trainshed.service.starts.images import ImagesByEngine
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.service.upkeep.audit_log import AuditLog, AuditRetention
from trainshed.service.upkeep.buckets import BucketService
from trainshed.service.upkeep.file_modes import PRIVATE_FOLDER, make_private
from trainshed.service.upkeep.housekeeping import (
    ClockWatch,
    DiskWatch,
    Expiry,
    Housekeeping,
    Retention,
)
from trainshed.service.upkeep.project_bytes import Measuring, ProjectBytes
from trainshed.storage.buckets import buckets_of
from trainshed.storage.log_files import JobLog
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store, open_store
from trainshed.store.records.jobs import JobKind

#: When what can wait is made ready: by then the server has answered that it is there.
NATIVE_S = 1.0
#: How often a server looks for jobs that teach, and for jobs that may be worth a note, in seconds.
_LEARN_EVERY_S = 2.0
#: Of the server's descriptors, sockets in networks of jobs have this part at most.
_SOCKETS_PART = 4
#: Share of a processor that jobs which teach may take.
_LEARN_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One server, ready to be started."""

    settings: Settings
    store: Store
    controller: Controller
    housekeeping: Housekeeping
    http: Starlette
    soon: threading.Timer
    """Makes the native API ready."""
    table: Sequence[Method]
    around: ChainServices
    audit_log: AuditLog
    learning: Housekeeping
    """Apart from the rest: users look at a job when it has ended."""
    engine: Engines
    gateway: GatewayListener | None
    """What replicas have of Google's; None: turned off, or the engine cannot tell who calls."""

    def start(self) -> None:
        """Begin to work.  Raises StoreFault."""
        if self.engine.traits.reach is NodeLocation.THIS_MACHINE:
            _check_machine(os.uname().nodename, self.store.servers())
        if self.gateway:
            self.gateway.open_again()
            self.housekeeping.add("the gateway's certificate", self.gateway.renew)
        self.controller.start()
        self.housekeeping.start()
        self.audit_log.start()
        self.learning.start()
        self.soon.start()

    def stop(self) -> None:
        """End in order: jobs run on, and the next server finds them."""
        self.soon.cancel()
        self.housekeeping.stop()
        self.learning.stop()
        self.audit_log.stop()
        try:
            self.controller.stop()
        finally:
            if self.gateway:
                self.gateway.close()
            self.engine.close()
            self.store.close()


def _check_machine(machine: str, servers: Sequence[str]) -> None:
    """Each would take the other's node for gone, and be given jobs that it cannot start."""
    elsewhere = {name.rsplit("-", 2)[0] for name in servers} - {machine}
    if elsewhere:
        raise StoreFault(
            f"a server on {min(elsewhere)} uses this database; servers that share one run on the "
            f"same machine, and this is {machine}"
        )


def build(
    settings: Settings,
    *,
    engine: Engine | None = None,
    compose: Compose | None = None,
    ports: ServerPorts | None = None,
) -> Application:
    """Wire a server.  ``engine`` is what the settings name, unless given.

    ``ports`` makes the listening sockets of the gateway, by default such as end with the server.

    Raises StoreFault where the database cannot be used, UsageFault for settings that do not fit.
    """
    folder = settings.data_dir
    ports = ports or OwnPorts()
    if (folder / BACKUP_FILE).exists():
        raise UsageFault(f"{folder} is a backup; trainshed restore {folder} puts it in place")
    make_private(folder)
    with ThreadPoolExecutor(1) as beside:  # an engine asks docker, which takes its time
        future = beside.submit(lambda: _engines(settings, engine))
        store = open_store(settings.database or f"sqlite:///{folder / 'trainshed.db'}")
        engines = future.result()
    engines.ask(store.engines_of)
    images = _images(settings, engines)
    settings.jobs_dir.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    objects = _objects(settings, partial(_user_of, store, engines.traits.uids))
    uploads = Uploads(objects)
    project_bytes = ProjectBytes(settings.project_bytes_max)
    storage = storage_routes(objects, uploads, store, project_bytes)
    access = Access(
        store,
        anonymous=settings.anonymous,
        clock=time.time,
        failures_a_minute=settings.failed_sign_ins_a_minute,
    )
    audit_log = AuditLog(store)
    gateway = _gateway(settings, store, engines, storage, access, audit_log, ports.listen)
    launching = Launching(
        store,
        engines,
        images=images,
        buckets=buckets_of(folder),
        library=folder / LIBRARY,
        open_gateway=gateway.open if gateway else NO_GATEWAY,
        gs_paths=settings.gateway.gs_paths,
        proxies=_select_env(os.environ, settings.pass_env),
        server_ports=ports.numbers,
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
        pace=Pace(grace_s=settings.grace_s),
        budgets=settings.budgets,
        hang_restart=settings.hang_restart,
        clock=partial(_time_of, store),
    )
    logs = LogService(store, _job_log(settings, engines))
    catalog = catalog_for(Dialect.AIPLATFORM_V1, None, (), None)
    plan_notes = PlanNotes(store=store, make=partial(_submit_notes, store, catalog))
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
    around = ChainServices(
        routes=routes,
        permissions=permissions,
        recognise=access.caller,
        allowed_hosts=(settings.host, *settings.allowed_hosts),
        allowed_origins=settings.allowed_origins,
        body_bytes_max=settings.body_bytes_max,
        audit=audit_log.add,
    )
    nodes = NodeService(
        store=store,
        notice_s=settings.notice_s,
        ordered=controller.look_at_nodes,
        gpus_now=engines.traits.gpus_now,
        engines=engines,
    )
    attempts = AttemptService(store, engines)
    buckets = BucketService(store=store, has_folder=objects.buckets.has)
    streams = Streams(settings.streams_max)
    native = LazyApp(
        partial(
            _native,
            store,
            logs,
            nodes,
            attempts,
            buckets,
            streams,
            access=access,
            audit_log=audit_log,
            quotas=settings.quotas,
        )
    )
    http = make_app(
        around,
        raw=storage,
        native=native,
        exchange=access.exchange,
        is_healthy=lambda: store.waiting_count() >= 0,
    )
    return Application(
        settings=settings,
        store=store,
        controller=controller,
        gateway=gateway,
        housekeeping=_housekeeping(settings, store, engines, access, uploads, project_bytes),
        http=http,
        soon=_soon(native, store),
        table=table,
        around=around,
        audit_log=audit_log,
        learning=_learning(store, catalog, plan_notes),
        engine=engines,
    )


def _images(settings: Settings, engines: Engines) -> ImagesByEngine:
    """The tables, which follow the settings file.  Raises UsageFault."""
    make = partial(images_of, engines, have_tables=bool(settings.engines))
    first = make(settings.environments, settings.images)
    if (file := settings.config_file) is None:
        return first
    return RereadImages(first, file, lambda: make(*load_environments(file)))


def _engines(settings: Settings, engine: Engine | None) -> Engines:
    return engines_of(settings) if engine is None else Engines.of(engine)


def _gateway(  # noqa: PLR0913, PLR0917 - what it answers with
    settings: Settings,
    store: Store,
    engine: Engines,
    storage: Sequence[RawMethod],
    access: Access,
    audit_log: AuditLog,
    listen: Listen,
) -> GatewayListener | None:
    attempt_at = engine.traits.attempt_at
    if not settings.gateway.enabled or attempt_at is None:
        return None

    attempts = AttemptsOfStore(store)
    telemetry = _telemetry(settings, store, engine)

    def make() -> Serving:
        # most of it is needed only when a program connects
        from trainshed.api.gateway.app import without_jobs  # noqa: PLC0415
        from trainshed.api.gateway.make import make_gateway  # noqa: PLC0415
        from trainshed.api.gateway.public import Public, by_proxies  # noqa: PLC0415

        proxies = _select_env(os.environ, settings.pass_env)
        return make_gateway(
            settings.data_dir,
            rows=without_jobs(storage),
            tokens=AttemptTokens.of(settings.data_dir),
            attempt_at=AttemptOfPeer(store, engine, attempt_at),
            find=attempts,
            is_remembered=attempts.is_remembered,
            recognise=lambda text, peer: access.caller(text, loopback=False, address=peer),
            of_address=access.of_address,
            exchange=access.exchange,
            audit=audit_log.add,
            telemetry=telemetry,
            public=Public(by_proxies(proxies)) if settings.gateway.public == PASS else None,
            passes_on=settings.gateway.other_apis == PASS,
            proxies=proxies,
        )

    return GatewayListener(
        settings.data_dir,
        make,
        port=settings.gateway.port,
        hosts=filter(None, (engine.traits.bridge,)),
        names=_names(settings.gateway),
        listen=listen,
        networks=_networks(store, engine),
    )


def _networks(store: Store, engine: Engines) -> JobNetworks | None:
    """What brings the gateway's sockets in the networks of jobs; None: jobs have none."""
    ask = engine.traits.ask_listeners
    if ask is None:
        return None

    def living() -> list[AttemptKey]:
        return [AttemptKey(row.uid, row.attempt) for row in store.holding()]

    traits = engine.traits
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return JobNetworks(
        ask,
        traits.on_network,
        living,
        are_begun=traits.has_networks,
        sockets_max=min(SOCKETS_MAX, descriptors // _SOCKETS_PART),
    )


def _objects(settings: Settings, user_of: Callable[[str], int | None]) -> Objects:
    """Raises UsageFault for a bucket that nothing here can reach."""
    if not settings.buckets:
        return Objects(data_dir=settings.data_dir)
    # most servers have none: they do without
    from trainshed.storage.remote import remotes_of  # noqa: PLC0415
    from trainshed.storage.remote_objects import ObjectsWithRemotes  # noqa: PLC0415

    remotes = remotes_of(settings.buckets, user_of)
    return ObjectsWithRemotes(data_dir=settings.data_dir, remotes=remotes)


def _user_of(store: Store, uids: tuple[int, int] | None, bucket: str) -> int | None:
    """The user of a bucket's project; None where projects have none, or it is of no project.

    Raises PermissionError where the range has no number left: the server does not act instead.
    """
    if uids is None or (row := store.bucket(bucket)) is None:
        return None
    user = uids[0] + store.owner_number(row[0])
    if user > uids[1]:
        raise PermissionError(f"[isolation] uids has no number left for the project {row[0]}")
    return user


def _telemetry(settings: Settings, store: Store, engine: Engines) -> Telemetry | None:
    """What takes logs and metrics; None: they are Google's.  Raises UsageFault."""
    if settings.gateway.telemetry == PASS:
        return None
    add = engine.traits.add_lines
    if settings.gateway.telemetry != LOG:
        return Telemetry(tell_in_story(store))
    if add is None:
        message = (
            f'gateway.telemetry is "{LOG}", and the engine {engine.name} adds no lines to logs'
        )
        raise UsageFault(f'{message}; accepted: "{DROP}" or "{PASS}"')
    return Telemetry(tell_in_story(store), lambda key, lines: add(key, TASK, lines))


def _names(settings: GatewaySettings) -> Sequence[str]:
    """Google's names that are to lead to the gateway, where jobs have a hosts file."""
    telemetry = () if settings.telemetry == PASS else TELEMETRY_HOSTS
    return (*HOSTS, *telemetry, *(() if settings.other_apis == PASS else OTHER_HOSTS))


def _select_env(environ: Mapping[str, str], patterns: Sequence[str]) -> Mapping[str, str]:
    """The variables that jobs get besides the usual."""
    return {
        name: text
        for name, text in environ.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _time_of(store: Store) -> datetime:
    """The time by which the store stamps; unlike the machine's it never jumps."""
    return datetime.now(UTC) - timedelta(seconds=store.clock_skew_s())


def _jobs_dirs(settings: Settings, engines: Engines) -> tuple[Path, ...]:
    """Where folders of jobs are: the server's own, and those of engines that have others."""
    return tuple(dict.fromkeys([settings.jobs_dir, *engines.jobs]))


def _job_log(settings: Settings, engines: Engines) -> JobLog:
    own, *also = _jobs_dirs(settings, engines)
    return JobLog(own, tuple(also))


def _housekeeping(  # noqa: PLR0913, PLR0917 - all that is tidied
    settings: Settings,
    store: Store,
    engine: Engines,
    access: Access,
    uploads: Uploads,
    project_bytes: ProjectBytes,
) -> Housekeeping:
    retention = Retention(
        store=store,
        job_log=_job_log(settings, engine),
        bytes_max=settings.log_bytes_max,
        days_max=settings.log_days_max,
        moment_before=store.moment_before,
    )
    expiry = Expiry(store=store, remove=engine.forget, days_max=settings.finished_days_max)
    measuring = Measuring(
        store=store,
        buckets=buckets_of(settings.data_dir).root,
        jobs=_jobs_dirs(settings, engine),
        uploads=uploads,
        project_bytes=project_bytes,
    )
    audit = AuditRetention(
        store=store, rows_max=settings.audit_rows_max, days_max=settings.audit_days_max
    )
    return Housekeeping(
        {
            "what projects have": measuring.look,
            "old logs": retention.tidy,
            "old jobs": expiry.tidy,
            "the clock": ClockWatch(store.clock_skew_s).look,
            "the last use of tokens": access.note_use,
            "tokens for buckets": partial(bucket_tokens.forget_ended, store),
            "the audit log": audit.tidy,
            "room for the ends of jobs": store.keep_room,
            "the disk": DiskWatch(settings.data_dir).look,
        }
    )


def _learning(store: Store, catalog: Catalog, plan_notes: PlanNotes) -> Housekeeping:
    chores: dict[str, Callable[[], object]] = {
        "what jobs teach": partial(_learn, store, catalog, CpuBudget(share=_LEARN_SHARE)),
        "notes of plans": plan_notes.write,
    }
    return Housekeeping(chores, every_s=_LEARN_EVERY_S)


def _learn(store: Store, catalog: Catalog, turns: CpuBudget) -> None:
    if not turns.is_resting and store.unscored(1):
        # many servers run no job that says what its steps took
        from trainshed.service.learning.from_jobs import Learning  # noqa: PLC0415

        Learning(store=store, catalog=catalog, turns=turns).learn()


def _submit_notes(store: Store, catalog: Catalog) -> Callable[[SubmittedJob], None]:
    # the same
    from trainshed.service.learning.submit_notes import SubmitNotes  # noqa: PLC0415

    return SubmitNotes(store=store, catalog=catalog).look


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


def _soon(native: LazyApp, store: Store) -> threading.Timer:
    def perform() -> None:
        native.made()
        with suppress(StoreFault):  # the housekeeping tries again, and says so
            store.keep_room()

    timer = threading.Timer(NATIVE_S, perform)
    timer.daemon = True
    return timer


def _native(  # noqa: PLR0913, PLR0917 - all that its routes ask
    store: Store,
    logs: LogService,
    nodes: NodeService,
    attempts: AttemptService,
    buckets: BucketService,
    streams: Streams,
    *,
    access: Access,
    audit_log: AuditLog,
    quotas: Sequence[QuotaRule],
) -> ASGIApp:
    # a fifth of the server's start: Google's clients are answered meanwhile
    from trainshed.api.native import Native, native_app  # noqa: PLC0415
    from trainshed.service.nodes.metrics import ServerMetrics  # noqa: PLC0415

    native = Native(
        store=store,
        stories=Stories(store),
        logs=logs,
        metrics=ServerMetrics(store, nodes.gpus_now, nodes.engines).text,
        nodes=nodes,
        attempts=attempts,
        buckets=buckets,
        streams=streams,
        access=access,
        audit_log=audit_log,
        quotas=quotas,
    )
    return native_app(native, __version__)
