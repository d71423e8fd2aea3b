"""Brings the replicas to an end: notice and SIGTERM, a time of grace, SIGKILL until none lives.

SIGTERM goes first to the main process of a replica, then to the processes that outlive it, and to
all processes before the grace is over.

Some processes survive SIGKILL, such as one that waits for a dead disk.  The supervisor tries again
and says so in the log; the attempt does not end before these processes do.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from trainshed.engines.processes import tree
from trainshed.engines.supervise.loop import Loop, Timer
from trainshed.engines.supervise.record.folder import AttemptFolder, Order, write_json
from trainshed.engines.supervise.replicas import Replicas
from trainshed.files.beneath import Beneath, PathBeneath

#: Containers run as another user; the mode of the attempt's folder keeps all other users out.
_READABLE: Final = 0o644
#: The last share of the grace, in which all processes of a replica get SIGTERM.
_LAST_SHARE: Final = 0.2
_LAST_S_MAX: Final = 5.0
_FIRST_PAUSE_S: Final = 0.01
_PAUSE_S_MAX: Final = 1.0
#: Seconds after the first SIGKILL until a line names the processes that still live.
_UNKILLABLE_S: Final = 10.0


class Teardown:
    """Ends the replicas, from the first order to stop to the last process."""

    def __init__(
        self,
        loop: Loop,
        folder: AttemptFolder,
        replicas: Replicas,
        note: Callable[[str, str], object],
    ) -> None:
        """``note`` is called with a sentence and its severity."""
        self._loop = loop
        self._folder = folder
        self._replicas = replicas
        self._note = note
        self._timer: Timer | None = None
        self._last_call: Timer | None = None
        self._kills_since_s: float | None = None
        self._is_reported = False
        self.is_over = False
        """Whether nothing is left to be ended."""

    @property
    def has_begun(self) -> bool:
        """Whether replicas have been asked to end."""
        return self._timer is not None

    def begin(self, order: Order) -> None:
        """Obey an order; one that leaves less time than there is left shortens it."""
        if self.is_over:
            return
        grace_s = max(0.0, order.grace_s)
        is_milder = self._timer and self._timer.at_s <= self._loop.now() + grace_s
        if self._kills_since_s is not None or is_milder:
            return
        is_first = self._timer is None
        self._call_off()
        self._give_notice(order)
        if is_first:
            self._replicas.terminate()
        kill_s = self._loop.now() + grace_s  # the notice took a while on a slow disk
        last_s = min(_LAST_S_MAX, _LAST_SHARE * order.grace_s)
        self._timer = self._loop.at(kill_s, self._kill)
        self._last_call = self._loop.at(kill_s - last_s, self._replicas.terminate_all)

    def _give_notice(self, order: Order) -> None:
        until = time.time() + max(0.0, order.grace_s)
        words = {"reason": order.reason, "message": order.message, "until": until}
        place = PathBeneath.of_file(self._folder.notice, (self._folder.job,))
        with (
            suppress(OSError),  # there is still the signal
            Beneath(place.root) as own,
            own.parent(place.name) as (shared, name),  # programs may have put anything there
        ):
            write_json(f"/proc/self/fd/{shared}/{name}", words, mode=_READABLE)

    def _kill(self) -> None:
        now = self._loop.now()
        if self._kills_since_s is None:
            self._kills_since_s = now
        self._replicas.kill()
        pressing_s = now - self._kills_since_s
        if pressing_s >= _UNKILLABLE_S and not self._is_reported:
            self._is_reported = True
            self._tell_of_unkillable()
        pause_s = min(_PAUSE_S_MAX, max(_FIRST_PAUSE_S, pressing_s))
        self._timer = self._loop.after(pause_s, self._kill)

    def _tell_of_unkillable(self) -> None:
        pids = tree.living(pid for _, pid in tree.descendants(os.getpid()))
        self._note(
            f"Could not be killed so far, still trying: process {', '.join(map(str, pids))}.",
            "WARNING",
        )

    def close(self) -> None:
        """Nothing is left to be ended."""
        self.is_over = True
        self._call_off()
        self._replicas.close()

    def _call_off(self) -> None:
        for timer in (self._timer, self._last_call):
            if timer is not None:
                timer.cancel()
