"""Runs the commands with which a launcher starts wardens, such as one ``srun`` for all nodes."""

import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from trainshed.engines.supervise.helpers.helper import Helper
from trainshed.engines.supervise.loop import Children, Loop
from trainshed.engines.supervise.record.spec import StepRule

#: Parts of the line that srun prints for a step that Slurm kills for its memory (OverMemoryKill).
_OVER_MEMORY: Final = " exceeded memory limit ("
_KILLED: Final = "), being killed"
_LAST_LINES: Final = 3
_LAST_LINES_LENGTH: Final = 1000


class SrunSteps:
    """The step commands of an attempt, and how they ended."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        descriptors: tuple[int, int],
        on_end: Callable[[StepRule], object],
    ) -> None:
        """Call ``on_end`` with each step whose command has ended."""
        self._loop = loop
        self._children = children
        self._descriptors = descriptors
        self._on_end = on_end
        self._running: dict[StepRule, Helper] = {}
        self._last_lines: dict[StepRule, deque[str]] = {}
        self._statuses: dict[StepRule, int] = {}
        self.out_of_memory = ""
        """Slurm's words if it has killed a step for its memory; else empty."""

    @property
    def are_over(self) -> bool:
        """Whether no command runs."""
        return not self._running

    def start(self, steps: Sequence[StepRule], env: Mapping[str, str], cwd: str) -> None:
        """Run the commands of all steps, with ``env`` added to the environment of this process."""
        for step in steps:
            self._last_lines[step] = deque(maxlen=_LAST_LINES)
            helper = self._running[step] = Helper(
                self._loop,
                self._children,
                self._descriptors,
                on_line=partial(self._take_line, step),
                on_exit=partial(self._handle_exit, step),
            )
            helper.start(step.argv, {**os.environ, **env}, cwd)

    def end_words(self, step: StepRule) -> str:
        """Describe how the command of a step ended, with its last lines."""
        status = self._statuses.get(step, 0)
        how = f"status {status}" if status >= 0 else f"signal {-status}"
        last_lines = " / ".join(self._last_lines[step])[-_LAST_LINES_LENGTH:]
        return f"the command that starts the wardens ended with {how}" + (
            f": {last_lines}" if last_lines else ""
        )

    def terminate(self) -> None:
        """Send SIGTERM to every command."""
        for helper in self._running.values():
            helper.terminate()

    def kill(self) -> None:
        """Kill every command."""
        for helper in self._running.values():
            helper.kill()

    def _take_line(self, step: StepRule, line: str, _stream: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
        if _OVER_MEMORY in line and line.endswith(_KILLED):
            self.out_of_memory = line.rpartition("error: ")[2]
        if line.strip():
            self._last_lines[step].append(line.strip())

    def _handle_exit(self, step: StepRule, status: int) -> None:
        self._statuses[step] = status
        del self._running[step]
        self._on_end(step)
