"""Ends a launcher's replicas: first by orders to their wardens, then by ending the commands.

If the cluster has started the wardens, there are no commands.  The end of a connection then shows
that its warden has exited, and a launcher that ends a connection makes the warden exit.
``launcher_steps`` decides when wardens may exit, and how late wardens are forced to end.
"""

from typing import Final

from trainshed.engines.supervise.attempt import Ending, RemoteContext
from trainshed.engines.supervise.loop import Timer
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.replicas import Gang
from trainshed.engines.warden.gang import RemoteGang
from trainshed.engines.warden.launcher_steps import COMMAND_LEAVE_S, Pressure, list_pressure

#: Seconds after the grace period in which a warden may kill its replica before the launcher orders
#: the kill.  Later, seconds between two further attempts to end late wardens.
_SLACK_S: Final = 5.0
#: Seconds in which a warden without a command must exit after the order to do so.
_EXIT_S: Final = 5.0


def make(context: RemoteContext) -> tuple[Gang, Ending]:
    """Make the gang and the teardown of an attempt on other machines (``RemoteFactory``)."""
    rule = context.spec.remote
    if rule is None:
        raise ValueError("the plan has no rules for replicas on other machines")
    gang = RemoteGang(context, rule)
    return gang, RemoteTeardown(context, gang)


class RemoteTeardown:
    """Ends all wardens after the first order; ``begin`` may be called again with a shorter time."""

    def __init__(self, context: RemoteContext, gang: RemoteGang) -> None:
        """Create the teardown; ``begin`` starts it."""
        self._loop = context.loop
        self._gang = gang
        self._timer: Timer | None = None
        self._kill_s = 0.0
        self._has_dismissed = False
        self.has_begun = False
        self.is_over = False
        gang.changed = self._dismiss
        self._pressure_actions = {
            Pressure.KILL_REPLICAS: gang.kill,
            Pressure.TERMINATE_COMMANDS: gang.steps.terminate,
            Pressure.KILL_COMMANDS: self._leave_late_wardens,
        }

    @property
    def may_close(self) -> bool:
        """Whether every warden has exited.

        With commands this is True: the caller waits for the commands, which wait for the wardens.
        """
        return self._gang.has_commands or (self._has_dismissed and self._gang.are_gone)

    def begin(self, order: Order) -> None:
        """Obey a stop order; a later order counts only if it ends the replicas earlier."""
        kill_s = self._loop.now() + max(0.0, order.grace_s)
        if self.is_over or (self.has_begun and self._kill_s <= kill_s):
            return
        self.has_begun = True
        self._kill_s = kill_s
        self._gang.stop(order)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.at(kill_s + _SLACK_S, self._end_late_wardens)
        if any(warden.channel is None for warden in self._gang.wardens):
            self._gang.steps.terminate()  # wardens that have not connected need not start
            self._gang.refuse_missing()
        self._dismiss()

    def close(self) -> None:
        """Close the connections, after every process of the attempt has ended."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._gang.close()

    def _dismiss(self) -> None:
        """Order all wardens to exit once none has a process; then end their commands."""
        if self.has_begun and not self._has_dismissed and self._gang.leave():
            self._has_dismissed = True
            self._loop.after(COMMAND_LEAVE_S, self._gang.steps.terminate)
            self._loop.after(2 * COMMAND_LEAVE_S, self._gang.steps.kill)
            if not self._gang.has_commands:
                self._loop.after(_EXIT_S, self._gang.hang_up)

    def _leave_late_wardens(self) -> None:
        """Kill the commands of late wardens, or end their connections if there are no commands."""
        if self._gang.has_commands:
            self._gang.steps.kill()
        else:
            self._gang.hang_up()

    def _end_late_wardens(self) -> None:
        """Force late wardens to end; repeat this until all have ended."""
        for pressure in list_pressure(self._loop.now() - self._kill_s):
            self._pressure_actions[pressure]()
        self._timer = self._loop.after(_SLACK_S, self._end_late_wardens)
