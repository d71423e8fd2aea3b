"""The one place that knows everything and wires it: store, engine, controller, API."""

import os
import secrets
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.types import ASGIApp

from trainshed import __version__
from trainshed.api.aiplatform_v1 import VertexJobs, VertexOperations
from trainshed.api.call import Method
from trainshed.api.chain import Surroundings
from trainshed.api.later import Later
from trainshed.api.logging_v2 import LogEntries
from trainshed.api.ml_v1 import MlJobs
from trainshed.api.permissions import Permissions
from trainshed.api.rest import make_app
from trainshed.api.routes import Routes
from trainshed.api.storage import storage_routes
from trainshed.api.table import Handlers, google_table
from trainshed.api.training_pipelines import TrainingPipelines
from trainshed.config import Settings
from trainshed.controller.loop import Controller
from trainshed.controller.pace import Pace
from trainshed.controller.perform import Compose
from trainshed.engines.base import Engine
from trainshed.engines.local.containers import detect
from trainshed.engines.local.containers.runtime import Found
from trainshed.engines.local.engine import LocalEngine
from trainshed.model.resources import ANY_GPU
from trainshed.service.access import Access
from trainshed.service.expiry import Expiry, remove_folder
from trainshed.service.housekeeping import ClockWatch, Housekeeping
from trainshed.service.images import Images
from trainshed.service.jobs import JobService
from trainshed.service.launching import Launching
from trainshed.service.logs import LogService
from trainshed.service.nodes import Nodes
from trainshed.service.operations import OperationService
from trainshed.service.pipelines import PipelineService
from trainshed.service.retention import Retention
from trainshed.service.story import Stories
from trainshed.service.submission import SubmitRules
from trainshed.service.trial_jobs import TrialJobs
from trainshed.storage.buckets import buckets_of, cache_dir
from trainshed.storage.log_files import JobLog
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads
from trainshed.store.base import StoreBase, StoreFault
from trainshed.store.opening import open_store
from trainshed.store.records import Kind

#: When the native API is made ready: by then the server has answered that it is there.
NATIVE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One server, ready to be started."""

    settings: Settings
    store: StoreBase
    controller: Controller
    housekeeping: Housekeeping
    http: Starlette
    soon: threading.Timer
    """Makes the native API ready."""
    table: Sequence[Method]
    around: Surroundings
    containers: Found
    """What runs the images of jobs, or why nothing does."""
    machine: str | None
    """Where all servers of the database must be; None for an engine that reaches many machines."""

    def start(self) -> None:
        """Begin to work.  Raises StoreFault."""
        if self.machine is not None:
            _check_machine(self.machine, self.store.servers())
        self.controller.start()
        self.housekeeping.start()
        self.soon.start()

    def stop(self) -> None:
        """End in order: jobs run on, and the next server finds them."""
        self.soon.cancel()
        self.housekeeping.stop()
        try:
            self.controller.stop()
        finally:
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
    settings: Settings, *, engine: Engine | None = None, compose: Compose | None = None
) -> Application:
    """Wire a server.  ``engine`` and ``compose`` are the local ones unless given.

    Raises StoreFault where the database cannot be used, UsageFault for settings that do not fit.
    """
    folder = settings.data_dir
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as beside:  # docker takes its time, and so does the database
        found = beside.submit(detect.find, settings.container_runtime, user=settings.container_user)
        store = open_store(settings.database or f"sqlite:///{folder / 'trainshed.db'}")
        containers = found.result()
    images = Images(settings.environments, settings.images, sys.executable, containers)
    jobs_dir = _closed(folder / "jobs")
    launching = Launching(store, images=images, buckets=buckets_of(folder), jobs_dir=jobs_dir)
    controller = Controller(
        store,
        engine or _local_engine(settings, jobs_dir, containers),
        server=f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(3)}",
        compose=compose or launching,
        make_trial_job=TrialJobs(store, settings.running_s_default),
        quotas=settings.quotas,
        pace=Pace(grace_s=settings.grace_s),
        budgets=settings.budgets,
        hang_restart=settings.hang_restart,
        clock=partial(_time_of, store),
    )
    logs = LogService(store, JobLog(jobs_dir))
    rules = SubmitRules(
        images=images, quotas=settings.quotas, running_s_default=settings.running_s_default
    )
    jobs = JobService(store, rules, controller.wake, submitted=controller.look)
    access = Access(store, anonymous=settings.anonymous, clock=time.time)
    permissions = Permissions(store.project)
    pipelines = PipelineService(store, rules, jobs, controller.look)
    table = _table(store, jobs, pipelines, LogEntries(logs, permissions))
    routes = Routes(table)
    around = Surroundings(
        routes=routes,
        permissions=permissions,
        recognise=access.caller,
        allowed_hosts=(settings.host, *settings.allowed_hosts),
        allowed_origins=settings.allowed_origins,
        body_bytes_max=settings.body_bytes_max,
    )
    objects = Objects(data_dir=folder)
    nodes = Nodes(store=store, notice_s=settings.notice_s, ordered=controller.look_at_nodes)
    native = Later(partial(_native, store, logs, nodes))
    http = make_app(
        around,
        raw=storage_routes(objects, Uploads(objects), store),
        native=native,
        exchange=access.exchange,
        is_healthy=lambda: store.waiting_count() >= 0,
    )
    return Application(
        settings=settings,
        store=store,
        controller=controller,
        housekeeping=_housekeeping(settings, store, jobs_dir),
        http=http,
        soon=_soon(native),
        table=table,
        around=around,
        containers=containers,
        machine=None if engine else os.uname().nodename,
    )


def _time_of(store: StoreBase) -> datetime:
    """The time by which the store stamps; unlike the machine's it never jumps."""
    return datetime.now(UTC) - timedelta(seconds=store.clock_skew_s())


def _closed(folder: Path) -> Path:
    """A folder that is the server's alone: what lies in it are jobs' environments and programs."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    return folder


def _housekeeping(settings: Settings, store: StoreBase, jobs_dir: Path) -> Housekeeping:
    retention = Retention(
        store=store,
        job_log=JobLog(jobs_dir),
        bytes_max=settings.log_bytes_max,
        days_max=settings.log_days_max,
        clock=lambda: store.now().timestamp(),
    )
    expiry = Expiry(
        store=store,
        remove=partial(remove_folder, jobs_dir),
        days_max=settings.finished_days_max,
        clock=store.now,
    )
    return Housekeeping(
        {
            "old logs": retention.tidy,
            "old jobs": expiry.tidy,
            "the clock": ClockWatch(store.clock_skew_s).look,
        }
    )


def _local_engine(settings: Settings, jobs_dir: Path, containers: Found) -> LocalEngine:
    return LocalEngine(
        jobs_dir,
        cache_dir=cache_dir(os.environ),
        policy=settings.policy,
        slots=settings.slots,
        gpu_alias=_gpu_alias(settings),
        fake_gpus=settings.fake_gpus,
        gpu_wait_s=settings.gpu_wait_s,
        runtime=containers.runtime,
        hang_s=settings.hang_s,
        hang_stacks=settings.hang_stacks,
        grace_s=settings.grace_s,
    )


def _gpu_alias(settings: Settings) -> Mapping[str, str]:
    """Fake GPUs are of every type."""
    if not settings.fake_gpus:
        return settings.gpu_alias
    from trainshed.catalog.accelerators import known_accelerators  # noqa: PLC0415 - rarely needed

    names = (name for each in known_accelerators() for name in each.enum_by_product.values())
    return {**dict.fromkeys(names, ANY_GPU), **settings.gpu_alias}


def _table(
    store: StoreBase, jobs: JobService, pipelines: PipelineService, logs: LogEntries
) -> tuple[Method, ...]:
    handlers = Handlers(
        ml_jobs=MlJobs(jobs),
        custom_jobs=VertexJobs(Kind.CUSTOM_JOB, jobs),
        tuning_jobs=VertexJobs(Kind.TUNING_JOB, jobs),
        pipelines=TrainingPipelines(pipelines),
        operations=VertexOperations(OperationService(store)),
        logs=logs,
    )
    return google_table(handlers)


def _soon(native: Later) -> threading.Timer:
    timer = threading.Timer(NATIVE_S, native.made)
    timer.daemon = True
    return timer


def _native(store: StoreBase, logs: LogService, nodes: Nodes) -> ASGIApp:
    # a fifth of the server's start: Google's clients are answered meanwhile
    from trainshed.api.native import Native, native_app  # noqa: PLC0415
    from trainshed.service.metrics import Metrics  # noqa: PLC0415

    native = Native(
        store=store,
        stories=Stories(store),
        logs=logs,
        metrics=Metrics(store).text,
        nodes=nodes,
    )
    return native_app(native, __version__)
