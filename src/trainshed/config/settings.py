"""All that can be set, as values."""

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
from trainshed.placement.jobs import QuotaRule
from trainshed.service.starts.images import ImageMapping, LocalEnvironment
from trainshed.storage.buckets import GsPaths, RemoteBucket

#: ``other_apis`` and ``public`` of ``[gateway]``.
REFUSE, PASS = "refuse", "pass"
#: ``telemetry`` of ``[gateway]``; ``PASS`` besides.
DROP, LOG = "drop", "log"


class IsolationSettings(NamedTuple):
    """``[isolation]``; the modes are those of ``engines.isolation_modes``."""

    mode: str = AUTO_MODE
    require: tuple[str, ...] = ()
    """The modes that are accepted; all if empty."""
    allow_root_jobs: bool = False
    uids: tuple[int, int] = UIDS
    """The first and the last number of users and groups that projects get, one each."""
    container_read_only: bool = True
    """Whether an image's own files are closed for writing."""
    network: str = AUTO_NETWORK
    """One of ``engines.network.kinds.NETWORKS``."""
    seccomp: str = DEFAULT
    """Whether system calls that no trainer needs are refused: ``default`` or ``none``."""
    seccomp_allow: tuple[str, ...] = ()
    """The families of calls that are not refused, of ``CALL_FAMILIES``."""
    refuse_ports: bool | None = None
    """Whether *landlock* refuses ports of the server to jobs; None: on kernels where it must."""


class GatewaySettings(NamedTuple):
    """``[gateway]``: what replicas find of Google's (decision 0040)."""

    enabled: bool = True
    port: int = 0
    """0: one that is free, the same again after a restart."""
    other_apis: str = REFUSE
    """What becomes of Google's other hosts: ``refuse`` or ``pass``."""
    public: str = PASS
    """What becomes of buckets that are none of a job's: ``pass`` what is public, or ``refuse``."""
    telemetry: str = DROP
    """What becomes of what programs send to Cloud Logging: ``drop``, ``log`` or ``pass``."""
    gs_paths: GsPaths = GsPaths.URI
    """What a program gets as ``--job-dir`` and ``AIP_*``, where it has the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """One table ``[[engine]]``."""

    name: str
    kind: str
    """What ``engines.registry`` knows it by."""
    regions: tuple[str, ...] = ()
    """The regions whose jobs it gets; all if empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Wishes that its jobs have unless their own labels say otherwise."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Interpreters on its nodes by the names of environments."""
    options: Mapping[str, object] = field(default_factory=dict)
    """All other keys: the kind's own settings, not yet looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings.  ``policy`` None: best-effort where the machine has GPUs, else emulate."""

    data_dir: Path
    config_file: Path | None = field(default=None, compare=False)
    """The file whose environments are read again when it has changed; it need not be there."""
    database: str | None = None
    """A SQLAlchemy URL; SQLite in the data directory if None."""
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int | None = None
    """None: no gRPC; 0 picks one."""
    https: bool | None = None
    """Whether HTTP is over TLS; if None, where ``host`` is not loopback."""
    insecure_http: bool = False
    """Whether plain HTTP is meant where other machines reach it."""
    anonymous: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Host names besides loopback and ``host`` that requests may be addressed to."""
    allowed_origins: tuple[str, ...] = ()
    engine: str = "local"
    """The name of what runs attempts (``engines.registry``), where ``engines`` has none."""
    engine_options: Mapping[str, object] = field(default_factory=dict)
    """The own settings of an engine that another package brings."""
    engines: tuple[EngineSettings, ...] = ()
    """What runs attempts, in the order in which jobs are offered; none: ``engine`` alone."""
    start_engines: tuple[str, ...] = ()
    """The names of those of ``engines`` that this server runs; all if empty."""
    policy: FleetPolicy | None = None
    slots: int | None = None
    """Replicas at once on this machine; if None: 32, or 8 per core where that is more."""
    gpu_alias: Mapping[str, str] = field(default_factory=dict)
    container_runtime: str = AUTO
    """``auto``: the first that answers when the server starts."""
    container_user: str | None = None
    """UID[:GID] or ``image``; None: the server's, or an unprivileged one where that is root."""
    isolation: IsolationSettings | None = field(default_factory=IsolationSettings)
    """How programs of jobs are kept apart on this machine; None for who starts none."""
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    buckets: Mapping[str, RemoteBucket] = field(default_factory=dict, repr=False)
    """Buckets that are kept elsewhere, with credentials."""
    pass_env: tuple[str, ...] = ()
    """Names of the server's variables that jobs get besides the usual; ``*`` is anything."""
    fake_gpus: int = 0
    """So many GPUs that exist in name only, in the place of the machine's own."""
    gpu_wait_s: float = 60.0
    """How long an attempt waits for GPUs that others hold before it is lost."""
    quotas: tuple[QuotaRule, ...] = ()
    environments: tuple[LocalEnvironment, ...] = ()
    images: tuple[ImageMapping, ...] = ()
    log_bytes_max: int = 1 << 30
    """Kept log bytes per job."""
    log_days_max: float = 30.0
    grace_s: float = 10.0
    notice_s: float = 120.0
    """What replicas get before their node's maintenance, where it says nothing of it."""
    restarts_infra: int = 3
    """How often a job whose attempt was lost, or hung, is started again."""
    restarts_user: int = 0
    """How often a job whose program was ended by a signal is started again."""
    hang_s: float | None = 1800.0
    """Seconds without progress after which a replica counts as hung; None: not checked."""
    hang_restart: bool = False
    """Whether a job that hangs is started again, within ``restarts_infra``."""
    hang_stacks: bool = True
    """Whether the stacks of a replica that hangs are written to the job's log."""
    running_days_default: float = 7.0
    """How long a job may run that says nothing of it; 0 is no limit."""
    finished_days_max: float | None = None
    """How long a job is kept after its end; for ever if None."""
    failed_sign_ins_a_minute: int = 60
    """Of an address, or with tokens that begin alike; 0 is no bound."""
    audit_rows_max: int = 100_000
    """Kept entries of the audit log; a tenth as many of unauthenticated calls."""
    audit_days_max: float = 365.0
    body_bytes_max: int = 8 << 20
    """The largest JSON body; uploads have no limit."""

    processes_max: int | None = 16_384
    """Processes and threads of a replica, where the machine can limit them; no limit if None."""
    package_bytes_max: int | None = 4 << 30
    """The most that a package of a job may unpack to; no limit if None."""
    relax_pins: bool = False
    """Whether the nearest version is taken for a pin that the Python of its job cannot have."""
    environments_bytes_max: int | None = 100 << 30
    """Kept packages that no attempt reads go, the longest unused first; no limit if None."""
    log_bytes_per_s_max: int | None = 16 << 20
    """What a job writes to its log each second; lines beyond are dropped; no limit if None."""
    project_bytes_max: int | None = None
    """What a project has in its buckets and in the folders of its jobs; no limit if None."""
    project_jobs_max: int | None = 100_000
    """Jobs of a project that are not over, trials among them; no limit if None."""
    streams_max: int | None = 64
    """Logs that one caller streams at once."""

    @property
    def budgets(self) -> Budgets:
        """How many restarts a job has, by cause; maintenance uses up none of them."""
        return Budgets(infra=self.restarts_infra, user=self.restarts_user)

    @property
    def running_s_default(self) -> float | None:
        """How long a job may run that says nothing of it; no limit if None."""
        return self.running_days_default * 86_400.0 or None

    @property
    def jobs_dir(self) -> Path:
        """Where the folders of attempts are."""
        return self.data_dir / "jobs"

    @property
    def store_url(self) -> str:
        """Where the store is."""
        return self.database or f"sqlite:///{self.store_file}"

    @property
    def store_file(self) -> Path:
        """The file of the store where no other database is given."""
        return self.data_dir / "trainshed.db"
