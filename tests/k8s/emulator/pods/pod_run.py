"""What a kubelet remembers of one pod, and what it asks of whatever runs containers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from k8s.emulator.pods.images import ContainerImage
from k8s.emulator.pods.pod_status import CREATING


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A volume in a container; ``sub_path`` lies in the volume."""

    volume: str
    path: str
    sub_path: str = ""
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class ContainerOrder:
    """All that the start of a container needs."""

    name: str
    image: ContainerImage
    argv: Sequence[str]
    env: Mapping[str, str]
    working_dir: str
    user: int
    group: int
    groups: Sequence[int]
    mounts: Sequence[VolumeMount]
    memory_bytes: int | None = None
    dropped: Sequence[str] = ()
    """Capabilities, or ``ALL``."""
    can_gain: bool = True
    """Whether programs may gain privileges, as by a set-user-id bit."""
    is_root_read_only: bool = False


class StartRefused(Exception):
    """A container cannot start; the text is the container runtime's."""


class VolumeRefused(Exception):
    """A pod's volume or a path in it cannot be had; the text is the kubelet's."""


class ContainerRuntime(Protocol):
    """Starts and ends containers.  Ends are told to ``on_exit(uid, container, code, is_oom)``."""

    def open_pod(self, pod) -> str:
        """Make a pod's network and volumes and return its address; VolumeRefused."""

    def start(self, pod, order: ContainerOrder) -> None:
        """Start a container; StartRefused, VolumeRefused."""

    def signal(self, uid: str, container: str, signum: int) -> None: ...

    def kill_pod(self, uid: str) -> None:
        """End all processes of a pod at once; nothing is told of them any more."""

    def is_open(self, uid: str) -> bool:
        """Whether the pod's processes were not killed behind the kubelet."""

    def close_pod(self, uid: str) -> None:
        """End what is left of a pod, and remove its folders with the logs."""

    def write_hosts(self, uid: str, text: str) -> None: ...


@dataclass(slots=True)
class ContainerRun:
    """One container: its state in the API, and when to try again what failed."""

    state: dict = field(default_factory=lambda: dict(CREATING))
    retry_at_s: float = 0.0
    pull_ends_at_s: float | None = None
    pulls: int = 0
    is_backing_off: bool = False
    is_killed: bool = False
    """The kubelet has told this one to end."""

    @property
    def is_running(self):
        return "running" in self.state

    @property
    def is_over(self):
        return "terminated" in self.state


@dataclass(slots=True)
class PodRun:
    uid: str
    node: str
    key: tuple[str, str]
    containers: dict[str, ContainerRun]
    is_accepted: bool = False
    address: str = ""
    open_at_s: float = 0.0
    """When its network is made."""
    start_at_s: float = 0.0
    """When its containers start."""
    final_at_s: float | None = None
    """When an ended pod reaches its last phase."""
    kill_at_s: float | None = None
    """When a pod that goes gets SIGKILL."""
    remove_at_s: float | None = None
    """When the kubelet removes an ended pod that goes."""

    @property
    def states(self):
        return {name: run.state for name, run in self.containers.items()}

    @property
    def has_ended(self):
        return all(run.is_over for run in self.containers.values())

    @property
    def has_begun(self):
        return any(run.is_running or run.is_over for run in self.containers.values())
