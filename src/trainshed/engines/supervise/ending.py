"""Ends the replicas: notice and SIGTERM, a grace period, then SIGKILL until no process lives.

The supervisor sends SIGTERM first to the main process of each replica.  After the end of that
process, the supervisor sends SIGTERM to the processes that the replica has left.  Shortly before
the grace period ends, it sends SIGTERM to all other processes.

Some processes survive SIGKILL for some time, for example during a read from a failed disk.  The
supervisor then logs a warning and sends SIGKILL again; the attempt ends only after these processes.
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

#: The mode of the notice, which containers of another user read.  Other users of the machine cannot
#: open the attempt's folder.
_READABLE: Final = 0o644
#: The last part of the grace period: at its start, all processes of a replica get SIGTERM.
_LAST_SHARE: Final = 0.2
_LAST_S_MAX: Final = 5.0
_FIRST_PAUSE_S: Final = 0.01
_PAUSE_S_MAX: Final = 1.0
#: Seconds from the first SIGKILL to the log line that names the processes that still live.
_UNKILLABLE_S: Final = 10.0


class Teardown:
    """Ends all processes of the replicas; the first call of ``begin`` starts this."""

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
        self._kill_timer: Timer | None = None
        self._terminate_timer: Timer | None = None
        self._kills_since_s: float | None = None
        self._is_reported = False
        self.is_over = False
        """Whether every process has ended."""

    @property
    def has_begun(self) -> bool:
        """Whether the replicas have received a request to end."""
        return self._kill_timer is not None

    @property
    def may_close(self) -> bool:
        """Always True: the caller lists all processes of the replicas itself."""
        return True

    def begin(self, order: Order) -> None:
        """Begin to end the replicas; a later order can only shorten the remaining time."""
        if self.is_over:
            return
        grace_s = max(0.0, order.grace_s)
        leaves_more_time = self._kill_timer and self._kill_timer.at_s <= self._loop.now() + grace_s
        if self._kills_since_s is not None or leaves_more_time:
            return
        is_first = self._kill_timer is None
        self._cancel_timers()
        self._give_notice(order)
        if is_first:
            self._replicas.terminate()
        kill_s = self._loop.now() + grace_s  # read the clock again: writing the notice takes time
        last_s = min(_LAST_S_MAX, _LAST_SHARE * order.grace_s)
        self._kill_timer = self._loop.at(kill_s, self._kill)
        self._terminate_timer = self._loop.at(kill_s - last_s, self._replicas.terminate_all)

    def _give_notice(self, order: Order) -> None:
        """Write the notice file with the reason of the stop and the end of the grace period."""
        until = time.time() + max(0.0, order.grace_s)
        notice = {"reason": order.reason, "message": order.message, "until": until}
        path = PathBeneath.of_file(self._folder.notice, (self._folder.job,))
        with (
            suppress(OSError),  # the replicas still get the signal
            Beneath(path.root) as root,
            root.parent(path.name) as (shared, name),  # programs may have replaced it by a link
        ):
            write_json(f"/proc/self/fd/{shared}/{name}", notice, mode=_READABLE)

    def _kill(self) -> None:
        """SIGKILL every process of the replicas, and repeat this until ``close``."""
        now = self._loop.now()
        if self._kills_since_s is None:
            self._kills_since_s = now
        self._replicas.kill()
        elapsed_s = now - self._kills_since_s
        if elapsed_s >= _UNKILLABLE_S and not self._is_reported:
            self._is_reported = True
            self._report_unkillable()
        pause_s = min(_PAUSE_S_MAX, max(_FIRST_PAUSE_S, elapsed_s))
        self._kill_timer = self._loop.after(pause_s, self._kill)

    def _report_unkillable(self) -> None:
        living = tree.living(pid for _, pid in tree.descendants(os.getpid()))
        pids = ", ".join(map(str, living))
        self._note(f"Cannot kill the processes {pids} yet; trying again until they end.", "WARNING")

    def close(self) -> None:
        """Stop all timers; the caller has seen that every process has ended."""
        self.is_over = True
        self._cancel_timers()
        self._replicas.close()

    def _cancel_timers(self) -> None:
        for timer in (self._kill_timer, self._terminate_timer):
            if timer is not None:
                timer.cancel()
