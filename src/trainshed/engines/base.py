"""The words that all engines share: how a replica ended, how a job ended, where output goes.

An engine gets a ``LaunchPlan`` and answers with an ``Outcome``.  What it cannot do at all it says
with ``EngineFault``; a program that fails is not a fault of the engine but an outcome.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role

Stream = Literal["stdout", "stderr"]

#: What a shell adds to the number of a signal to say "died of it".
SIGNAL_BASE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExit:
    """How one replica ended: by itself with a code, or of a signal; never both."""

    role: Role
    index: int
    task_name: str
    exit_code: int | None
    signal: int | None
    seconds: float
    """How long it ran."""
    stopped_by_us: bool
    """Whether the engine had asked it to end before it did."""

    @property
    def status(self) -> int:
        """The exit as one number, as a shell counts: the code, or 128 + the signal."""
        if self.signal is not None:
            return SIGNAL_BASE + self.signal
        return self.exit_code or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended.  ``replicas`` are in the order of the plan; ``message`` is one line."""

    exit_code: int
    replicas: tuple[ReplicaExit, ...]
    message: str


class OutputSink(Protocol):
    """Where an engine sends what replicas write and what it has to say itself."""

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take one line of a replica, without its newline."""

    def note(self, text: str) -> None:
        """Take one line of the engine itself."""
