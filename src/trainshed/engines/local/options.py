"""The server's settings for this machine; the defaults are those of tests and tools."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.engines.container_runtime import NONE, RuntimeChoice
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.network.choose import JobNetwork
from trainshed.engines.supervise.compose import GRACE_S
from trainshed.model.resources import FleetPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """The settings of the local engine."""

    name: str = "local"
    node_name: str | None = None
    """This machine's host name by default."""
    cache_dir: Path | None = None
    buckets: Path | None = None
    """The folder that programs see as ``gs://``; next to the folder of jobs by default."""

    policy: FleetPolicy | None = None
    """By default best effort where there are GPUs, and emulation where there are none."""
    slots: int | None = None
    gpu_alias: Mapping[str, str] = field(default_factory=dict)
    find_gpus: Callable[[], Sequence[GpuDevice]] | None = None
    """Lists the GPUs; by default from the driver."""
    fake_gpus: int = 0
    """The number of fake GPUs to use in place of the machine's."""
    gpu_wait_s: float = 60.0
    """How long an attempt waits for GPUs that other processes hold."""

    containers: RuntimeChoice = NONE
    isolation: Isolation | None = None
    """Isolates jobs from each other; None: no isolation."""
    network: JobNetwork = JobNetwork(is_own=False)  # noqa: RUF009 - a constant
    """Whether each attempt may have a network of its own."""
    pass_env: Sequence[str] | None = None
    """The names of server variables that programs get besides those that all get; by default all
    variables but its secrets."""

    hang_s: float | None = None
    """How long a replica may show no sign of progress before it counts as hung; None: for ever."""
    hang_stacks: bool = True
    """Whether the supervisor reads the stacks of a replica that hangs."""
    grace_s: float = GRACE_S
    """How long processes that outlive their job may take to end."""
    processes_max: int | None = None
    """How many processes and threads a replica may have."""

    package_bytes_max: int | None = None
    """The size that a package may unpack to."""
    relax_pins: bool = False
    """Whether to install the nearest version for a pin that cannot be met."""
    environments_bytes_max: int | None = None
    """Above this size, installed packages that no attempt reads are removed, the longest unused
    ones first."""
    log_bytes_per_s_max: int | None = None
    """Lines beyond this rate are dropped."""
    log_bytes_max: int | None = None
    """A longer log loses its oldest lines, and says so."""
