"""Decides what the launcher of an attempt does next: pure functions from facts to a decision.

``gang.RemoteGang`` and ``teardown.RemoteTeardown`` hold the facts and perform the decisions.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

_PING_S_MAX: Final = 5.0
#: The number of pings in the time after which a replica without progress counts as hung.
_PINGS_PER_HANG: Final = 20
_PING_S_MIN: Final = 0.1
#: Seconds in which a command must end after its wardens; also seconds between SIGTERM and SIGKILL.
COMMAND_LEAVE_S: Final = 10.0


class GangFacts(NamedTuple):
    """The state of an attempt, as its launcher knows it."""

    is_listening: bool = False
    """Whether the launcher listens for wardens and has run the commands that start them, if any."""
    are_connected: bool = False
    """Whether every warden has connected."""
    is_late: bool = False
    """Whether the time in which wardens must connect is over."""
    are_prepared: bool = False
    """Whether every warden has installed the packages of its replica and reserved its ports."""
    is_start_sent: bool = False
    """Whether the launcher has ordered every warden to start its replica."""
    have_started: bool = False
    """Whether every replica has started."""
    has_fault: bool = False
    """Whether the replicas cannot be started."""
    is_ending: bool = False
    """Whether the wardens have been ordered to end their replicas."""
    are_over: bool = False
    """Whether every warden has reported that no process is left, or is gone."""


class WardenState(NamedTuple):
    """The state of one warden, as the launcher knows it when an event occurs."""

    has_connected: bool = False
    is_over: bool = False
    """Whether the warden has reported that no process is left, or is gone."""
    has_exit: bool = False
    """Whether the launcher has the exit of the replica, from a message or from the folder."""
    is_ending: bool = False
    """Whether the wardens have been ordered to end their replicas."""


class LauncherStep(enum.Enum):
    """The next step of a launcher."""

    RUN_COMMANDS = "listen for wardens and run the commands that start them, if any"
    WAIT_FOR_WARDENS = "wait until every warden has connected"
    GIVE_UP = "report the wardens that have not connected in time"
    WAIT_FOR_PREPARATION = "wait until every warden has prepared its node"
    START_REPLICAS = "order every warden to start, with the addresses of all replicas"
    WAIT_FOR_STARTS = "wait until every replica has started"
    FORWARD = "forward output, heartbeats and exits"
    WAIT_FOR_TEARDOWN = "wait until the attempt, which cannot start, is torn down"
    WAIT_FOR_ENDS = "wait until no warden has a process"
    DISMISS = "tell every warden to exit"


class Event(enum.Enum):
    """An event that concerns one warden."""

    CLOSED = "the connection was closed"
    SILENT = "the warden has answered no ping for too long"
    COMMAND_ENDED = "the command that started the warden has ended"
    COMMAND_LONG_ENDED = "the command has ended, and the warden had time to close its connection"


class Consequence(enum.Enum):
    """The effect of an event on one warden."""

    NONE = "nothing changes"
    HANG_UP = "the launcher closes the connection, and then handles the event CLOSED"
    GONE = "the warden is gone, and nothing is lost"
    NEVER_CONNECTED = "the warden is gone, and its replica cannot be started"
    LOST = "the warden is gone, and the end of its replica is unknown"


class Pressure(enum.Enum):
    """A measure of the launcher against wardens that do not end in time."""

    KILL_REPLICAS = "order the wardens to kill their replicas"
    TERMINATE_COMMANDS = "send SIGTERM to the commands"
    KILL_COMMANDS = "send SIGKILL to the commands; without commands, leave the wardens"


#: The first step whose condition holds is the next one.
_STEPS: Final[Mapping[LauncherStep, Callable[[GangFacts], bool]]] = {
    LauncherStep.DISMISS: lambda facts: facts.is_ending and facts.are_over,
    LauncherStep.WAIT_FOR_ENDS: lambda facts: facts.is_ending,
    LauncherStep.WAIT_FOR_TEARDOWN: lambda facts: facts.has_fault,
    LauncherStep.RUN_COMMANDS: lambda facts: not facts.is_listening,
    LauncherStep.GIVE_UP: lambda facts: not facts.are_connected and facts.is_late,
    LauncherStep.WAIT_FOR_WARDENS: lambda facts: not facts.are_connected,
    LauncherStep.WAIT_FOR_PREPARATION: lambda facts: not facts.are_prepared,
    LauncherStep.START_REPLICAS: lambda facts: not facts.is_start_sent,
    LauncherStep.WAIT_FOR_STARTS: lambda facts: not facts.have_started,
    LauncherStep.FORWARD: lambda _: True,
}


def decide_step(facts: GangFacts) -> LauncherStep:
    """Decide the next step of the launcher."""
    return next(step for step, is_next in _STEPS.items() if is_next(facts))


def judge_event(event: Event, warden: WardenState) -> Consequence:
    """Decide the effect of an event on one warden."""
    if event is Event.COMMAND_ENDED:
        if warden.has_connected:
            return Consequence.NONE
        return Consequence.GONE if warden.is_ending else Consequence.NEVER_CONNECTED
    if event is Event.CLOSED:
        is_end_known = warden.is_over or warden.has_exit
        return Consequence.GONE if is_end_known else Consequence.LOST
    is_open = warden.has_connected and not warden.is_over
    return Consequence.HANG_UP if is_open else Consequence.NONE


def list_pressure(late_s: float) -> Sequence[Pressure]:
    """List the measures for replicas that should have ended ``late_s`` seconds ago."""
    if late_s > 2 * COMMAND_LEAVE_S:
        return tuple(Pressure)
    if late_s > COMMAND_LEAVE_S:
        return (Pressure.KILL_REPLICAS, Pressure.TERMINATE_COMMANDS)
    return (Pressure.KILL_REPLICAS,)


def choose_ping_s(hang_s: float | None) -> float:
    """Choose the seconds between two pings; ``hang_s`` as in ``HangRule.after_s``."""
    if hang_s is None:
        return _PING_S_MAX
    return max(_PING_S_MIN, min(_PING_S_MAX, hang_s / _PINGS_PER_HANG))
