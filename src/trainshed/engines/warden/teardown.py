"""Ends a launcher's replicas: first by orders to their wardens, then by ending the commands."""

from typing import Final

from trainshed.engines.supervise.attempt import Ending, RemoteContext
from trainshed.engines.supervise.loop import Timer
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.replicas import Gang
from trainshed.engines.warden.gang import RemoteGang

#: How long a warden has to kill its replica itself before the launcher orders it to.
_SLACK_S: Final = 5.0
#: How long a command may take to end after its wardens.
_LEAVE_S: Final = 10.0


def make(context: RemoteContext) -> tuple[Gang, Ending]:
    """Make the replicas of an attempt that runs elsewhere (``supervise.attempt.Elsewhere``)."""
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
        self._has_left = False
        self.has_begun = False
        self.is_over = False
        gang.changed = self._leave

    def begin(self, order: Order) -> None:
        """Obey an order; one that leaves less time than there is left shortens it."""
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
        self._leave()

    def close(self) -> None:
        """Close the connections: nothing is left to be ended."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._gang.close()

    def _leave(self) -> None:
        """Let the wardens exit once none has a process; their commands end after them."""
        if self.has_begun and not self._has_left and self._gang.leave():
            self._has_left = True
            self._loop.after(_LEAVE_S, self._gang.steps.terminate)
            self._loop.after(2 * _LEAVE_S, self._gang.steps.kill)

    def _press(self) -> None:
        """Order wardens that are late to kill, again and again until they have or are gone."""
        self._gang.kill()
        late_s = self._loop.now() - self._kill_s
        if late_s > _LEAVE_S:
            self._gang.steps.terminate()
        if late_s > 2 * _LEAVE_S:
            self._gang.steps.kill()
        self._timer = self._loop.after(_SLACK_S, self._press)
