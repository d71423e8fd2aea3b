"""The settings, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trainshed.engines.container_runtime import AUTO
from trainshed.engines.isolation.modes import AUTO as AUTO_MODE
from trainshed.engines.isolation.modes import DEFAULT, UIDS
from trainshed.engines.network.kinds import AUTO as AUTO_NETWORK
from trainshed.model.resources import FleetPolicy
from trainshed.model.restarts import Budgets
from trainshed.observability.logs import ServerLogFormat
from trainshed.placement.jobs import QuotaRule
from trainshed.service.starts.images import ImageMapping, LocalEnvironment
from trainshed.storage.buckets import GsPaths, RemoteBucket

#: Values of ``other_apis`` and ``public`` in ``[gateway]``.
REFUSE, PASS = "refuse", "pass"
#: Values of ``telemetry`` in ``[gateway]``; ``PASS`` is accepted too.
DROP, LOG = "drop", "log"


class IsolationSettings(NamedTuple):
    """The table ``[isolation]``; ``engines.isolation.modes`` has the modes."""

    mode: str = AUTO_MODE
    require: tuple[str, ...] = ()
    """The modes that are accepted; all if empty."""
    allow_root_jobs: bool = False
    uids: tuple[int, int] = UIDS
    """The first and the last uid; each project gets one uid, and the gid of this number."""
    container_read_only: bool = True
    """Whether the files of a container's image are read-only."""
    network: str = AUTO_NETWORK
    """One of ``engines.network.kinds.NETWORKS``."""
    seccomp: str = DEFAULT
    """``default``: refuse the system calls that no trainer needs; ``none``: refuse none."""
    seccomp_allow: tuple[str, ...] = ()
    """The families of ``CALL_FAMILIES`` whose system calls are allowed nevertheless."""
    refuse_ports: bool | None = None
    """Whether the mode *landlock* refuses the server's ports to jobs; None: if needed."""


class GatewaySettings(NamedTuple):
    """The table ``[gateway]``: the services of Google for replicas (decision 0040)."""

    enabled: bool = True
    port: int = 0
    """0: a free port, which stays the same after a restart."""
    other_apis: str = REFUSE
    """Requests to Google's other hosts: ``refuse`` or ``pass``."""
    public: str = PASS
    """Reads of other buckets: ``pass`` (public data at Google) or ``refuse``."""
    telemetry: str = DROP
    """Writes of programs to Cloud Logging: ``drop``, ``log`` or ``pass``."""
    gs_paths: GsPaths = GsPaths.URI
    """The form of ``--job-dir`` and ``AIP_*`` for programs with the gateway."""


class ConsoleSettings(NamedTuple):
    """The table ``[console]``: the web console at ``/console/`` (decision 0096)."""

    enabled: bool = True
    plain_http: bool = False
    """Whether browsers on other machines may sign in over plain HTTP; for a proxy with TLS."""


class OtelSettings(NamedTuple):
    """The table ``[otel]``: traces by OpenTelemetry (decision 0108)."""

    endpoint: str = ""
    """The URL that gets traces, with its path; empty: no traces."""
    to_replicas: bool = True
    """Whether programs of jobs get ``TRACEPARENT``."""


class LogSettings(NamedTuple):
    """The table ``[log]``: the server's own log."""

    format: ServerLogFormat = ServerLogFormat.TEXT


class MetricsSettings(NamedTuple):
    """The table ``[metrics]``: the pages for Prometheus (decision 0107)."""

    listen: tuple[str, int] | None = None
    """Host and port that serve the pages without a token; None: only the server's own port."""
    jobs: bool = False
    """Whether there is a page with metrics of each open job."""
    jobs_max: int = 1000
    """The most jobs of that page, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """One table ``[[engine]]``."""

    name: str
    kind: str
    """The kind's name in ``engines.registry``."""
    regions: tuple[str, ...] = ()
    """The regions whose jobs the engine gets; all if empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Default wishes of the engine's jobs; a job's own labels override them."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Paths of Python interpreters on the engine's nodes, by the names of environments."""
    options: Mapping[str, object] = field(default_factory=dict)
    """All other keys: the kind's own settings, unchecked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings.  ``policy`` None: best-effort where the machine has GPUs, else emulate."""

    data_dir: Path
    config_file: Path | None = field(default=None, compare=False)
    """The settings file; its environments are read again after a change.  It may be missing."""
    database: str | None = None
    """A SQLAlchemy URL; SQLite in the data directory if None."""
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int | None = None
    """None: no gRPC; 0: a free port."""
    https: bool | None = None
    """Whether HTTP uses TLS; None: only if ``host`` is not a loopback address."""
    tls_certificate: Path | None = None
    """The PEM file of the server's certificate and its chain; None: one of the own authority."""
    tls_key: Path | None = None
    """The PEM file of the certificate's key; None as ``tls_certificate``."""
    insecure_http: bool = False
    """Whether plain HTTP is allowed on an address that other machines can reach."""
    anonymous: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Host names besides loopback and ``host`` that requests may be addressed to."""
    allowed_origins: tuple[str, ...] = ()
    engine: str = "local"
    """The kind of the only engine (``engines.registry``); ignored if ``engines`` has tables."""
    engine_options: Mapping[str, object] = field(default_factory=dict)
    """The settings of an engine from another package."""
    engines: tuple[EngineSettings, ...] = ()
    """The engines, in the order in which they are offered jobs; empty: ``engine`` only."""
    start_engines: tuple[str, ...] = ()
    """The names of the ``engines`` that this server runs; all if empty."""
    policy: FleetPolicy | None = None
    slots: int | None = None
    """The most replicas at once on this machine; None: 32, or 8 per core if that is more."""
    gpu_alias: Mapping[str, str] = field(default_factory=dict)
    container_runtime: str = AUTO
    """``auto``: the first container runtime that answers when the server starts."""
    container_user: str | None = None
    """``UID[:GID]`` or ``image``; None: the server's user, or if this is root, another user."""
    isolation: IsolationSettings | None = field(default_factory=IsolationSettings)
    """The isolation of jobs on this machine; None for commands that start no job."""
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    otel: OtelSettings = field(default_factory=OtelSettings)
    log: LogSettings = field(default_factory=LogSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    buckets: Mapping[str, RemoteBucket] = field(default_factory=dict, repr=False)
    """Buckets in other storage services, with credentials."""
    pass_env: tuple[str, ...] = ()
    """Further variables of the server that jobs get; ``*`` in a name matches any text."""
    fake_gpus: int = 0
    """The number of simulated GPUs, instead of the machine's own."""
    prices_file: Path | None = None
    """The owner's prices, read again after a change; None: the catalog's lists alone."""
    gpu_wait_s: float = 60.0
    """Seconds that an attempt waits for GPUs in use by other processes before it is lost."""
    quotas: tuple[QuotaRule, ...] = ()
    environments: tuple[LocalEnvironment, ...] = ()
    images: tuple[ImageMapping, ...] = ()
    log_bytes_max: int = 1 << 30
    """The most log bytes that are kept for a job."""
    log_days_max: float = 30.0
    grace_s: float = 10.0
    notice_s: float = 120.0
    """Seconds of notice that replicas get before maintenance, if the order names no time."""
    restarts_infra: int = 3
    """The most restarts of a job after lost or hung attempts."""
    restarts_user: int = 0
    """The most restarts of a job after a signal ended its program."""
    hang_s: float | None = 1800.0
    """Seconds without progress after which a replica counts as hung; None: not checked."""
    hang_restart: bool = False
    """Whether a job that hangs is started again, within ``restarts_infra``."""
    hang_stacks: bool = True
    """Whether the stacks of a replica that hangs are written to the job's log."""
    usage_s: float = 10.0
    """Seconds between two samples of the usage of replicas; 0: no samples."""
    running_days_default: float = 7.0
    """The longest running time in days of a job that sets none; 0: no limit."""
    finished_days_max: float | None = None
    """Days for which a job is kept after its end; no limit if None."""
    failed_sign_ins_a_minute: int = 60
    """The most failures of one address, or of tokens with the same beginning; 0: no limit."""
    audit_rows_max: int = 100_000
    """The most entries in the audit log; at most a tenth of them for unauthenticated calls."""
    audit_days_max: float = 365.0
    body_bytes_max: int = 8 << 20
    """The largest JSON body; uploads have no limit."""

    processes_max: int | None = 16_384
    """Processes and threads of a replica, where the machine can limit them; no limit if None."""
    package_bytes_max: int | None = 4 << 30
    """The most bytes that a package of a job may have when unpacked; no limit if None."""
    relax_pins: bool = False
    """Whether a pin that the job's Python cannot install is replaced by the nearest version."""
    environments_bytes_max: int | None = 100 << 30
    """The most bytes of cached packages; the least recently used go first; no limit if None."""
    log_bytes_per_s_max: int | None = 16 << 20
    """The most log bytes of a job per second; more lines are dropped; no limit if None."""
    project_bytes_max: int | None = None
    """The most bytes of a project in its buckets and its jobs' folders; no limit if None."""
    project_jobs_max: int | None = 100_000
    """The most unfinished jobs of a project, including trials; no limit if None."""
    streams_max: int | None = 64
    """The most logs that one caller may stream at once; no limit if None."""

    @property
    def budgets(self) -> Budgets:
        """Return the restart budgets by cause; maintenance does not count."""
        return Budgets(infra=self.restarts_infra, user=self.restarts_user)

    @property
    def running_s_default(self) -> float | None:
        """Return the longest running time of a job that sets none; no limit if None."""
        return self.running_days_default * 86_400.0 or None

    @property
    def jobs_dir(self) -> Path:
        """Return the folder that contains the folders of attempts."""
        return self.data_dir / "jobs"

    @property
    def store_url(self) -> str:
        """Return the URL of the store's database."""
        return self.database or f"sqlite:///{self.store_file}"

    @property
    def store_file(self) -> Path:
        """Return the SQLite file of the store, used if ``database`` is None."""
        return self.data_dir / "trainshed.db"
