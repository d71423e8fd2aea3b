"""What an engine may offer besides the port: one small protocol for each capability.

An engine that has a capability implements its methods; callers ask with ``isinstance``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from trainshed.engines.base import Endpoint, EngineFinding, JobListeners
from trainshed.model.attempt import AttemptKey
from trainshed.model.gpus import GpuSample, NodeGpu


@runtime_checkable
class SupportsGateway(Protocol):
    """Runs attempts that can call the gateway; without it the server has no gateway."""

    def attempt_at(self, theirs: Endpoint, ours: Endpoint) -> AttemptKey | None:
        """Find the attempt with the process at the remote end of a connection."""

    def ask_listeners(self, key: AttemptKey) -> JobListeners | None:
        """Ask the supervisor of an attempt for its sockets, which the caller closes.

        None: it does not answer, or its network is not made yet.
        """

    def on_network(self, begun: Callable[[AttemptKey], object]) -> None:
        """Call ``begun`` with each attempt that begins in a network of its own.

        The engine has its lock then: ``begun`` must not wait.
        """

    def add_lines(self, key: AttemptKey, task: str, lines: Sequence[tuple[str, str]]) -> bool:
        """Add texts with their severities to the log of an attempt that runs, as those of a task.

        False: not now; the caller may give them again.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNow:
    """A GPU of the answering server's machine as it is now."""

    gpu: NodeGpu
    attempt: AttemptKey | None = None
    """Who of this installation has it."""
    reading: GpuSample | None = None
    xids: Mapping[int, int] = field(default_factory=dict)
    """How often each Xid was seen since the server started."""
    driver: str = ""
    """The driver's version."""


@runtime_checkable
class SupportsGpuStatus(Protocol):
    def gpus_now(self) -> Sequence[GpuNow]:
        """The server's own GPUs as last seen, with their newest figures; asks no driver."""


@runtime_checkable
class SupportsProbe(Protocol):
    def probe(self) -> Iterator[EngineFinding]:
        """Run a small task on a node and yield its findings; minutes where no node is free.

        Raises EngineFault or OSError.
        """


@runtime_checkable
class SupportsServerPaths(Protocol):
    def server_path(self, path: str) -> Path:
        """The server's path of a folder that a ``FilesystemView`` names as replicas see it."""


@runtime_checkable
class SupportsCommandCounts(Protocol):
    """Asks another system by commands."""

    def answered_s(self) -> float | None:
        """When the other system answered last, in seconds since 1970; None: never yet."""

    def count_commands(self) -> Mapping[tuple[str, bool], int]:
        """Count the commands by name, and by whether they have done what they were to."""


@runtime_checkable
class SupportsVersions(Protocol):
    def list_versions(self, python: str) -> Mapping[str, str]:
        """What an interpreter on its nodes has, from memory: versions by distribution.

        Its own version is under ``python``; empty: not known yet.
        """


@runtime_checkable
class SupportsSentTexts(Protocol):
    def read_sent(self, key: AttemptKey) -> Mapping[str, str]:
        """What ``launch`` has sent, by name; empty: nothing, or it was removed.  Raises OSError."""


@runtime_checkable
class SupportsFencing(Protocol):
    """Can lose contact with an attempt, and then depends on an administrator."""

    def fence(self, key: AttemptKey) -> None:
        """Take an administrator's confirmation that no process of an attempt runs: it is LOST.

        Raises EngineFault for one that is known to live.
        """
