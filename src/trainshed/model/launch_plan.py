"""The launch plan: all that an engine needs to start one attempt, as a printable value.

``launch.compose`` writes it, an engine reads it, ``--dry-run`` prints it.  Nothing in it depends on
how the engine works: a replica is a command, its environment and the devices it must have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Optional

from trainshed.model.attempt import MetricsPlan
from trainshed.model.network import NetworkLayout
from trainshed.model.roles import Role

#: The variables that hide the GPUs of a machine from a program.
NO_GPUS: Final[Mapping[str, str]] = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


@dataclass(frozen=True)
class Address:
    """The address at which its peers reach a replica."""

    host: str
    port: int
    """The cluster port: TF_CONFIG and CLUSTER_SPEC carry it."""
    rendezvous_port: int
    """The port of MASTER_ADDR and of JAX's coordinator; used on the primary only."""

    @property
    def text(self) -> str:
        """The address as cluster descriptions write it: ``host:port``."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Owner:
    """The project of a job."""

    project: str
    number: int
    """A number from 0 that never changes; the id of the project's system user derives from it."""


@dataclass(frozen=True)
class Environment:
    """The Python environment that the replicas' packages are installed into.

    ``packages`` are local files or folders (sdist, wheel, source tree).  If empty, the program runs
    in the interpreter's own environment and nothing is installed.  ``ignored`` are folders that are
    not part of a source tree although they may be in it, such as the job's own output.  ``buckets``
    is the folder of all buckets: other users write below it, so a package there is read without
    following links.
    """

    python: str
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    buckets: Optional[str] = None


@dataclass(frozen=True)
class ReplicaPlan:
    """One process to start.

    ``task_name`` is the replica's name in its dialect (``master-replica-0``, ``workerpool1-3``).
    An ``argv`` whose first word is the literal ``python`` runs in the job's environment.
    """

    role: Role
    index: int
    task_name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    gpu_count: int = 0
    gpu_type: str | None = None
    memory_bytes_max: int | None = None
    """Enforced where the kernel allows; no limit if None."""
    cpus_max: float | None = None
    processes_max: int | None = None
    """Processes and threads together, as the kernel counts them; no limit if None."""
    python: str = ""
    """The interpreter of its environment; empty: the job's interpreter."""
    container: "ContainerPlan | None" = None
    """Set for a replica that runs in a container; ``argv`` is then ignored."""


@dataclass(frozen=True)
class ContainerPlan:
    """The program of a replica in its image (docs/sources/vertex.md 7.1 and 8).

    ``command`` replaces the image's ENTRYPOINT, ``args`` its CMD; None keeps the image's own.
    """

    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NetworkPlan:
    """The network of an attempt that has one of its own."""

    layout: NetworkLayout
    addresses: tuple[str, ...]
    """The address of each replica, in the order of the replicas."""
    listeners: tuple[tuple[str, int], ...] = ()
    """(address, port) of the gateway in this network."""


@dataclass(frozen=True)
class LaunchPlan:
    """One attempt of a job: all replicas, or none, are started.

    The first replica is the primary; its exit decides the job.  ``unset_env`` are names that must
    not leak from the launcher's own environment into a replica.
    """

    job_id: str
    attempt: int
    replicas: tuple[ReplicaPlan, ...]
    environment: Environment
    cwd: str | None = None
    unset_env: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Requests of the job that the engine does not meet, a sentence each."""
    warnings: tuple[str, ...] = ()
    """Notes that change the results or the speed of the job."""
    hosts: tuple[tuple[str, str], ...] = ()
    """(address, name): names that every replica can resolve, as Google forms them."""
    binds: tuple[tuple[str, str], ...] = ()
    """(folder of the machine, folder in the replica): mounts of every replica."""
    checkpoints: tuple[str, ...] = ()
    """Folders in which a program may find checkpoints of earlier attempts."""
    metrics: MetricsPlan | None = None
    """Set for a trial."""
    title: str = ""
    """The job's display name; with ``creator`` for people who look at the engine's own queue."""
    creator: str = ""
    owner: Owner | None = None
    """The job's project; empty for a local run."""
    reads: tuple[str, ...] = ()
    """Interpreters and folders of the server that the programs of the job read."""
    shown: tuple[str, ...] = ()
    """Folders of the server that containers see too, at the same path and read-only."""
    network: NetworkPlan | None = None
    """None: the replicas have the network of the machine."""
    server_ports: tuple[int, ...] = ()
    """TCP ports at which the server listens."""

    @property
    def primary(self) -> ReplicaPlan:
        """The replica whose exit decides the job."""
        return self.replicas[0]
