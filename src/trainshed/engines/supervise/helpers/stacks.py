"""Asks py-spy, where it is installed, what the threads of a replica do."""

import os
from collections.abc import Callable
from typing import Final

from trainshed.engines.supervise.helpers.helper import Helper
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.watch.watch_hang import stacks_argv

_LIMIT_S: Final = 20.0
_LINES_MAX: Final = 400


class Stacks:
    """Looks under way; each ends by itself, or with the attempt."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        descriptors: tuple[int, int],
    ) -> None:
        """``loop`` runs the programs that read stacks."""
        self._loop = loop
        self._children = children
        self.cwd = "/"
        """The working folder of the programs that read stacks."""
        self._descriptors = descriptors
        self._running: set[Helper] = set()

    def look(self, pid: int, tell: Callable[[str], object]) -> bool:
        """Report the stack of a process later, one frame a line; False: stacks cannot be read."""
        argv = stacks_argv(pid)
        if argv is None:
            return False
        lines: list[str] = []

        def heard(line: str, _stream: str) -> None:
            if len(lines) < _LINES_MAX:
                lines.append(line)

        def ended(_status: int) -> None:
            self._running.discard(helper)
            tell("\n".join(lines))

        helper = Helper(
            self._loop, self._children, heard=heard, ended=ended, descriptors=self._descriptors
        )
        self._running.add(helper)
        helper.start(argv, dict(os.environ), self.cwd, limit_s=_LIMIT_S)
        return True

    def stop(self) -> None:
        """End every look that is under way."""
        for helper in self._running:
            helper.kill()
