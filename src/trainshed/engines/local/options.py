"""The server's settings for this machine; only tests and tools use the defaults."""

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
    """The name of this machine's node; None: the host name."""
    cache_dir: Path | None = None
    buckets: Path | None = None
    """The folder with the content of ``gs://``; None: next to the folder of jobs."""

    policy: FleetPolicy | None = None
    """None: best effort on a machine with GPUs, emulation on a machine without GPUs."""
    slots: int | None = None
    gpu_alias: Mapping[str, str] = field(default_factory=dict)
    find_gpus: Callable[[], Sequence[GpuDevice]] | None = None
    """A function that lists the GPUs; None: the driver lists them."""
    fake_gpus: int = 0
    """The number of fake GPUs to use in place of the machine's."""
    gpu_wait_s: float = 60.0
    """The time that an attempt waits for GPUs that other processes hold, in seconds."""

    containers: RuntimeChoice = NONE
    isolation: Isolation | None = None
    """The isolation of jobs; None: no isolation."""
    network: JobNetwork = JobNetwork(is_own=False)  # noqa: RUF009 - a constant
    """Whether each attempt may have a network of its own."""
    pass_env: Sequence[str] | None = None
    """The names of the server's variables that programs get besides the usual variables.

    None: all of the server's variables except its secrets."""

    hang_s: float | None = None
    """The seconds without progress after which a replica counts as hung; None: no limit."""
    hang_stacks: bool = True
    """Whether the supervisor reads the stacks of a replica that hangs."""
    usage_s: float = 10.0
    """The seconds between two samples of the usage of replicas; 0: no samples."""
    grace_s: float = GRACE_S
    """The time that processes get to end after their job is over, in seconds."""
    processes_max: int | None = None
    """The maximum number of processes and threads of a replica; None: no limit."""

    package_bytes_max: int | None = None
    """The maximum size of an unpacked package; None: no limit."""
    relax_pins: bool = False
    """Whether to install the nearest version for a pin that cannot be met."""
    environments_bytes_max: int | None = None
    """The size above which unused installed packages are removed, the least recently used first."""
    log_bytes_per_s_max: int | None = None
    """The maximum rate of a job's log; lines above it are dropped."""
    log_bytes_max: int | None = None
    """The maximum size of a log; a longer log loses its oldest lines, with a note in the log."""
