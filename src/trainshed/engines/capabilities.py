"""The optional calls to an engine, one small protocol for each capability.

An engine that has a capability implements the methods of its protocol.  A caller checks an engine
with ``isinstance``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from trainshed.engines.base import Endpoint, EngineFinding, JobListeners
from trainshed.engines.supervise.record.gpu_file import GpuFigures
from trainshed.files.beneath import PathBeneath
from trainshed.model.attempt import AttemptKey
from trainshed.model.gpus import GpuSample, NodeGpu
from trainshed.model.step_times import StepTimes
from trainshed.model.usage import UsageLine


@runtime_checkable
class SupportsGateway(Protocol):
    """Runs attempts that can call the gateway; without it the server has no gateway."""

    def attempt_at(self, remote: Endpoint, local: Endpoint) -> AttemptKey | None:
        """Return the attempt of the process at the remote end of a connection; None: no attempt."""

    def ask_listeners(self, key: AttemptKey) -> JobListeners | None:
        """Ask the supervisor of an attempt for its listening sockets; the caller closes them.

        None: the supervisor does not answer, or the attempt's network does not exist yet.
        """

    def on_network(self, callback: Callable[[AttemptKey], object]) -> None:
        """Call ``callback`` with each attempt that starts with its own network.

        The engine holds its lock during the call, so ``callback`` must not wait.
        """

    def add_lines(self, key: AttemptKey, task: str, lines: Sequence[tuple[str, str]]) -> bool:
        """Add lines to the log of a running attempt, as lines of the task with this name.

        ``lines`` are pairs of text and severity.  False: the engine cannot add them now, and the
        caller may try again.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNow:
    """A GPU of the answering server's machine as it is now."""

    gpu: NodeGpu
    attempt: AttemptKey | None = None
    """The attempt of this installation that has the GPU."""
    reading: GpuSample | None = None
    """The newest sample; None: no sample yet, or the driver hangs."""
    idle_s: float | None = None
    """For how many seconds the attempt has had the GPU without using it, without a break; None: no
    attempt has it, or its use is not measured.  An outage of the server of more than 30 s ends this
    time."""
    recent: Sequence[tuple[float, GpuFigures]] = ()
    """The figures of the last ten minutes, with their times in seconds since 1970."""
    xids: Mapping[int, int] = field(default_factory=dict)
    """The number of errors since the start of the server, by Xid."""
    driver: str = ""
    """The driver's version."""


@runtime_checkable
class SupportsGpuStatus(Protocol):
    def gpus_now(self) -> Sequence[GpuNow]:
        """Return the GPUs of the server's machine, from memory, without a call to the driver."""


@runtime_checkable
class SupportsProbe(Protocol):
    def probe(self) -> Iterator[EngineFinding]:
        """Run a small task on a node and yield its findings.

        The call takes minutes if no node is free.  Raises EngineFault or OSError.
        """


@runtime_checkable
class SupportsServerPaths(Protocol):
    def server_path(self, path: str) -> Path:
        """Return the server's path of a folder; ``path`` is as the replicas see it."""


@runtime_checkable
class SupportsWorkFolders(Protocol):
    """Keeps the working folders of attempts where the server can read them."""

    def work_folder(self, key: AttemptKey) -> PathBeneath:
        """Return the server's path of an attempt's working folder, in which its programs write."""


@runtime_checkable
class SupportsCommandCounts(Protocol):
    """Runs the commands of another system, such as Slurm."""

    def answered_s(self) -> float | None:
        """Return the time of the last answer, in seconds since 1970; None: no answer yet."""

    def count_commands(self) -> Mapping[tuple[str, bool], int]:
        """Return the number of commands by (name, whether the command succeeded)."""


@runtime_checkable
class SupportsVersions(Protocol):
    def list_versions(self, python: str) -> Mapping[str, str]:
        """Return the versions of the packages of an interpreter on the nodes, from memory.

        The keys are names of distributions, and ``python`` for the version of the interpreter.
        Empty: not known yet.
        """


@runtime_checkable
class SupportsSentTexts(Protocol):
    def read_sent(self, key: AttemptKey) -> Mapping[str, str]:
        """Return the texts that ``launch`` has sent, by name.

        Empty: ``launch`` has sent none, or they were removed.  Raises OSError.
        """


@runtime_checkable
class SupportsUsage(Protocol):
    """Measures the usage of replicas and GPUs while an attempt runs, and stores it."""

    def read_usage(
        self, key: AttemptKey, since_s: float = -math.inf, until_s: float = math.inf
    ) -> Sequence[UsageLine]:
        """Return the usage of an attempt so far, in the order of the times of the lines.

        ``since_s`` and ``until_s`` are the first and the last time, in seconds since 1970; the
        engine does not parse other lines.  Empty: nothing was measured, or the attempt is unknown.
        The lines are at most 64 MiB of JSON.  Raises OSError if they cannot be read now.
        """

    def read_newest_usage(self, key: AttemptKey, after_s: float = -math.inf) -> Sequence[UsageLine]:
        """Return the newest lines of ``read_usage`` after ``after_s``, at most 16 of them.

        It reads at most 64 KiB if the attempt is running.  Raises OSError.
        """

    def read_newest_steps(self, key: AttemptKey) -> Sequence[UsageLine]:
        """Return the newest lines of ``read_usage`` in which a replica reported steps, at most 16.

        It reads all lines, and parses only these.  Raises OSError.
        """


@runtime_checkable
class SupportsSteps(Protocol):
    """Runs programs that report their steps."""

    def read_steps(self, key: AttemptKey, task_name: str) -> StepTimes | None:
        """Return the step times that a replica has reported so far; None if there are none."""


@runtime_checkable
class SupportsFencing(Protocol):
    """Can lose contact with an attempt; then an administrator decides whether it still runs."""

    def fence(self, key: AttemptKey) -> None:
        """Record that no process of an attempt runs, as an administrator has confirmed.

        The phase of the attempt becomes LOST.  Raises EngineFault if the attempt is known to live.
        """
