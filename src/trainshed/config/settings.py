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
from trainshed.placement.jobs import QuotaRule
from trainshed.service.starts.images import ImageMapping, LocalEnvironment
from trainshed.storage.buckets import GsPaths, RemoteBucket

#: ``other_apis`` and ``public`` of ``[gateway]``.
REFUSE, PASS = "refuse", "pass"
#: ``telemetry`` of ``[gateway]``; ``PASS`` is accepted too.
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
    """Whether *landlock* keeps jobs from ports of the server; None: on kernels that need it."""


class GatewaySettings(NamedTuple):
    """``[gateway]``: the services of Google for replicas (decision 0040)."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """One table ``[[engine]]``."""

    name: str
    kind: str
    """The kind's name in ``engines.registry``."""
    regions: tuple[str, ...] = ()
    """The regions whose jobs the engine gets; all if empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Default wishes of its jobs, which the jobs' own labels override."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Interpreters on its nodes by the names of environments."""
    options: Mapping[str, object] = field(default_factory=dict)
    """All other keys: the kind's own settings, unchecked."""


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
    """Whether plain HTTP is allowed on an address that other machines can reach."""
    anonymous: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Host names besides loopback and ``host`` that requests may be addressed to."""
    allowed_origins: tuple[str, ...] = ()
    engine: str = "local"
    """The name of what runs attempts (``engines.registry``), where ``engines`` has none."""
    engine_options: Mapping[str, object] = field(default_factory=dict)
    """The settings of an engine from another package."""
    engines: tuple[EngineSettings, ...] = ()
    """The engines, in the order in which they are offered jobs; empty: ``engine`` only."""
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
    """The isolation of jobs on this machine; None for commands that start no job."""
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    buckets: Mapping[str, RemoteBucket] = field(default_factory=dict, repr=False)
    """Buckets in other storage services, with credentials."""
    pass_env: tuple[str, ...] = ()
    """Names of the server's variables that jobs get besides the usual; ``*`` is anything."""
    fake_gpus: int = 0
    """The number of simulated GPUs, instead of the machine's own."""
    gpu_wait_s: float = 60.0
    """How long an attempt waits for GPUs that other processes use before it is lost."""
    quotas: tuple[QuotaRule, ...] = ()
    environments: tuple[LocalEnvironment, ...] = ()
    images: tuple[ImageMapping, ...] = ()
    log_bytes_max: int = 1 << 30
    """Kept log bytes per job."""
    log_days_max: float = 30.0
    grace_s: float = 10.0
    notice_s: float = 120.0
    """The notice of replicas before maintenance, if the order gives none."""
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
    """The longest running time of a job that sets none; 0: no limit."""
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
    """Whether a pin that the job's Python cannot install is replaced by the nearest version."""
    environments_bytes_max: int | None = 100 << 30
    """Size of cached packages; the longest unused ones are removed first; no limit if None."""
    log_bytes_per_s_max: int | None = 16 << 20
    """Log rate of a job per second; lines over it are dropped; no limit if None."""
    project_bytes_max: int | None = None
    """Bytes of a project in its buckets and its jobs' folders; no limit if None."""
    project_jobs_max: int | None = 100_000
    """Jobs of a project that are not over, trials among them; no limit if None."""
    streams_max: int | None = 64
    """Logs that one caller streams at once."""

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
