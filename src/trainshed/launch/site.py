"""The place where an attempt will run, as an argument of ``compose``.

The server, or a local run, makes one ``LaunchSite`` for an attempt.  Its paths are those that the
replicas see.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from trainshed.model.gateway import GatewaySight
from trainshed.model.launch_plan import Address, Environment, Owner
from trainshed.model.network import NetworkLayout
from trainshed.model.roles import Role

ReplicaKey = tuple[Role, int]


def keep_uri(uri: str) -> str:
    """Return the URI unchanged: the default of ``map_uri`` and ``path_of``."""
    return uri


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSite:
    """The interpreter of a replica that runs as a process of its machine."""

    python: str = ""
    """The interpreter; empty: the interpreter of the job's environment."""
    path: str | None = None
    """PATH if the job sets none; None: PATH of the starting process."""
    library: str | None = None
    """The folder of the trainer library; None: the interpreter has the library."""
    python_path: str = ""
    """PYTHONPATH before the library, if the job sets none."""
    hooks: str = ""
    """The folder that enables the hooks of a measured job; empty: no hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLimits:
    """The memory and the CPUs that a replica may use; no limit if None."""

    memory_bytes_max: int | None = None
    cpus_max: float | None = None


NO_PROGRAM_SITE: Final = ProgramSite()
NO_LIMITS: Final = MachineLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSite:
    """The addresses, folders, interpreters and limits of an attempt, and its project."""

    project: str
    project_number: str
    addresses: Mapping[ReplicaKey, Address]
    """The addresses of all replicas."""
    environment: Environment
    programs: Mapping[Role, ProgramSite] = field(default_factory=dict)
    """The interpreter of each role, reducers included."""
    entrypoints: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    """Commands of replicas whose container has no command."""
    images: Mapping[Role, str] = field(default_factory=dict)
    """Images that run in the place of the job's own."""
    in_containers: Collection[Role] = ()
    """The roles that run in their own images."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of all replicas except reducers; they replace variables of the job."""
    map_uri: Callable[[str], str] = keep_uri
    """Converts a directory of the job to the URI or path that programs get."""
    path_of: Callable[[str], str] = keep_uri
    """Converts a directory of the job to a path."""
    buckets: str | None = None
    """The folder of all buckets."""
    cwd: str | None = None
    gateway: GatewaySight | None = None
    """None: the replicas have no gateway."""
    layout: NetworkLayout | None = None
    """None: the replicas have the network of their machine."""
    has_names: bool = False
    """Whether replicas resolve the names of their peers."""
    metric_file: str | None = None
    """The metric file of the primary of a trial; other replicas get files in the same folder."""
    token_file: str | None = None
    """The file with the secret that the reducers and their workers share."""
    earlier: tuple[str, ...] = ()
    """The work folders of earlier attempts."""
    emulated: Collection[ReplicaKey] = ()
    """Replicas that get no GPUs."""
    limits: Mapping[ReplicaKey, MachineLimits] = field(default_factory=dict)
    gpus_per_replica: int = 0
    """GPUs of a training replica, in a job that names no machine types."""
    binds: tuple[tuple[str, str], ...] = ()
    """(folder of the machine, folder in the replica): mounts of every replica."""
    reads: tuple[str, ...] = ()
    """Interpreters and folders of the server that the programs of the job read."""
    shown: tuple[str, ...] = ()
    """Folders of the server that containers see too, read-only and at the same path."""
    traceparent: str = ""
    """The span of the attempt, in the form of W3C Trace Context; empty: no traces."""
    owner: Owner | None = None
    server_ports: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the log of the job that come before the notes of ``compose``."""
    warnings: tuple[str, ...] = ()
