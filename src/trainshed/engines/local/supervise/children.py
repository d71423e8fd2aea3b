"""The children of the supervisor: its replicas, its helpers, and orphans that it was handed."""

import os
from collections.abc import Callable
from typing import NamedTuple


class Death(NamedTuple):
    """What the kernel tells of a child that has ended."""

    exit_code: int | None
    signal: int | None
    cpu_s: float
    max_rss_kib: int

    @property
    def status(self) -> int:
        """As ``os.waitstatus_to_exitcode`` gives it."""
        return -self.signal if self.signal is not None else self.exit_code or 0


class Children:
    """Who is told of the end of which child."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._owners: dict[int, Callable[[Death], object]] = {}
        self.any_left = False
        """Whether there was a child, also an orphan, when last looked."""

    def expect(self, pid: int, call: Callable[[Death], object]) -> None:
        """Call when this child has ended."""
        self._owners[pid] = call
        self.any_left = True

    def reap(self) -> None:
        """Collect every child that has ended, and tell their owners."""
        self.any_left = True
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.any_left = False
                return
            if pid == 0:
                return
            call = self._owners.pop(pid, None)
            if call is not None:
                code = os.waitstatus_to_exitcode(status)
                call(
                    Death(
                        exit_code=code if code >= 0 else None,
                        signal=-code if code < 0 else None,
                        cpu_s=used.ru_utime + used.ru_stime,
                        max_rss_kib=used.ru_maxrss,
                    )
                )
