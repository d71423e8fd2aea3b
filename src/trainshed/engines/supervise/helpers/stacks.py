"""Reads the stacks of a replica's threads with py-spy, if it is installed."""

import os
from collections.abc import Callable
from typing import Final

from trainshed.engines.supervise.helpers.helper import Helper
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.watch.watch_hang import stacks_argv

_LIMIT_S: Final = 20.0
_LINES_MAX: Final = 400


class Stacks:
    """Starts py-spy for replicas, and kills the runs in progress when the attempt ends."""

    def __init__(self, loop: Loop, children: Children, descriptors: tuple[int, int]) -> None:
        self._loop = loop
        self._children = children
        self.cwd = "/"
        """The working folder of py-spy."""
        self._descriptors = descriptors
        self._running: set[Helper] = set()

    def read(self, pid: int, callback: Callable[[str], object]) -> bool:
        """Read the stacks of a process and pass them to ``callback`` later, one frame a line.

        Return False if py-spy is not installed.
        """
        argv = stacks_argv(pid)
        if argv is None:
            return False
        lines: list[str] = []

        def take_line(line: str, _stream: str) -> None:
            if len(lines) < _LINES_MAX:
                lines.append(line)

        def finish(_status: int) -> None:
            self._running.discard(helper)
            callback("\n".join(lines))

        helper = Helper(
            self._loop, self._children, self._descriptors, on_line=take_line, on_exit=finish
        )
        self._running.add(helper)
        helper.start(argv, dict(os.environ), self.cwd, limit_s=_LIMIT_S)
        return True

    def stop(self) -> None:
        """Kill every run of py-spy."""
        for helper in self._running:
            helper.kill()
