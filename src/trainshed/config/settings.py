"""All that can be set, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.model.resources import FleetPolicy
from trainshed.placement.request import QuotaRule


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEnvironment:
    """A Python on this machine that jobs run in; ``python`` is its interpreter."""

    name: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMapping:
    """An image pattern (``*`` wildcards) or runtime version, and what stands in for it here.

    ``entrypoint`` starts containers that give no command.
    """

    environment: str
    image: str | None = None
    runtime_version: str | None = None
    entrypoint: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings.  ``policy`` None: best-effort where the machine has GPUs, else emulate."""

    data_dir: Path
    database: str | None = None
    """A SQLAlchemy URL; None is SQLite in the data directory."""
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int | None = None
    """None: no gRPC; 0 picks one."""
    anonymous: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Host names besides loopback and ``host`` that requests may be addressed to."""
    allowed_origins: tuple[str, ...] = ()
    policy: FleetPolicy | None = None
    slots: int | None = None
    """Replicas at once on this machine; None is 32, or 8 per core where that is more."""
    gpu_alias: Mapping[str, str] = field(default_factory=dict)
    quotas: tuple[QuotaRule, ...] = ()
    environments: tuple[LocalEnvironment, ...] = ()
    images: tuple[ImageMapping, ...] = ()
    log_bytes_max: int = 1 << 30
    """Kept log bytes per job."""
    log_days_max: float = 30.0
    grace_s: float = 10.0
    body_bytes_max: int = 8 << 20
    """The largest JSON body; uploads have no limit."""

    @property
    def store_url(self) -> str:
        """Where the store is."""
        return self.database or f"sqlite:///{self.data_dir / 'trainshed.db'}"
