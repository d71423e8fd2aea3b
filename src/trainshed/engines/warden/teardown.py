"""Ends a launcher's replicas: first by orders to their wardens, then by ending the commands.

``launcher_steps`` decides when wardens may exit, and what is done about wardens that are late.
"""

from typing import Final

from trainshed.engines.supervise.attempt import Ending, RemoteContext
from trainshed.engines.supervise.loop import Timer
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.replicas import Gang
from trainshed.engines.warden.gang import RemoteGang
from trainshed.engines.warden.launcher_steps import COMMAND_LEAVE_S, Pressure, list_pressure

#: How long a warden has to kill its replica itself before the launcher orders it to.
_SLACK_S: Final = 5.0


def make(context: RemoteContext) -> tuple[Gang, Ending]:
    """Make the replicas of an attempt that runs elsewhere (``supervise.attempt.RemoteFactory``)."""
    rule = context.spec.remote
    if rule is None:
        raise ValueError("the plan names no commands that start wardens")
    gang = RemoteGang(context, rule)
    return gang, RemoteTeardown(context, gang)


class RemoteTeardown:
    """Ends all wardens after the first order; ``begin`` may be called again with a shorter time."""

    def __init__(self, context: RemoteContext, gang: RemoteGang) -> None:
        """End nothing yet."""
        self._loop = context.loop
        self._gang = gang
        self._timer: Timer | None = None
        self._kill_s = 0.0
        self._has_dismissed = False
        self.has_begun = False
        self.is_over = False
        gang.changed = self._dismiss
        self._means = {
            Pressure.KILL_REPLICAS: gang.kill,
            Pressure.TERMINATE_COMMANDS: gang.steps.terminate,
            Pressure.KILL_COMMANDS: gang.steps.kill,
        }

    def begin(self, order: Order) -> None:
        """Obey an order; a later one counts only if it leaves less time than is left."""
        kill_s = self._loop.now() + max(0.0, order.grace_s)
        if self.is_over or (self.has_begun and self._kill_s <= kill_s):
            return
        self.has_begun = True
        self._kill_s = kill_s
        self._gang.stop(order)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.at(kill_s + _SLACK_S, self._press)
        if any(warden.channel is None for warden in self._gang.wardens):
            self._gang.steps.terminate()  # wardens that have not connected need not start
        self._dismiss()

    def close(self) -> None:
        """Close the connections; every process of the attempt has ended."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._gang.close()

    def _dismiss(self) -> None:
        """Tell the wardens to exit once none has a process; then end their commands."""
        if self.has_begun and not self._has_dismissed and self._gang.leave():
            self._has_dismissed = True
            self._loop.after(COMMAND_LEAVE_S, self._gang.steps.terminate)
            self._loop.after(2 * COMMAND_LEAVE_S, self._gang.steps.kill)

    def _press(self) -> None:
        """Put pressure on wardens that are late, again and again until they have ended."""
        for pressure in list_pressure(self._loop.now() - self._kill_s):
            self._means[pressure]()
        self._timer = self._loop.after(_SLACK_S, self._press)
