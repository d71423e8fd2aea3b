"""The port of engines: what the controller asks of whatever runs attempts.

An engine gets a ``LaunchPlan`` and answers with the values of ``model.attempt``.  What it cannot do
at all it says with ``EngineFault``; a program that fails is not a fault of the engine but an
outcome.
"""

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

from trainshed.model.attempt import AttemptKey, Measured, Observation
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.resources import Node, Seat
from trainshed.model.stopping import StopOrder

Stream = Literal["stdout", "stderr"]


class OutputSink(Protocol):
    """Where an engine sends what replicas write and what it has to say itself."""

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take one line of a replica, without its newline."""

    def note(self, text: str) -> None:
        """Take one line of the engine itself."""


class Engine(Protocol):
    """What the controller asks of an engine.  Every call is safe to repeat and thread-safe."""

    name: str

    def nodes(self) -> Sequence[Node]:
        """The fleet as it is now."""

    def launch(self, key: AttemptKey, plan: LaunchPlan, seats: Sequence[Seat]) -> None:
        """Start an attempt and return at once.  Raises EngineFault when that is impossible."""

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """End an attempt and return at once; one that never started will not start any more.

        Its replicas are given notice first.  May be repeated; an order never gets milder.
        """

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """What is known of these attempts; reading only, cheap, and never blocking for long."""

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """What the trial of an attempt has reported behind a mark; 0 is the beginning.

        Reading only.  Of an attempt that is not known there is nothing, and the mark stays.
        Raises OSError when that cannot be read now.
        """
