"""What is left to do when no process of an attempt lives: containers, devices, the last line.

The programs that do it are the engine's own; none of them can keep an attempt from ending.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trainshed.engines.local.supervise.children import Children
from trainshed.engines.local.supervise.helper import Helper
from trainshed.engines.local.supervise.loop import Loop
from trainshed.engines.local.supervise.spec import AttemptSpec

#: Removing a container takes seconds; waiting for devices limits itself.
_CLEANUP_S_MAX: Final = 60.0
_AFTER_S_MAX: Final = 300.0


class Closing:
    """The programs that are run after the last process: first all that clean up, then one more."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        cwd: str,
        note: Callable[[str, str], object],
        descriptors: tuple[int, int],
    ) -> None:
        """Nothing is run yet; ``note`` gets a sentence and its severity."""
        self._loop = loop
        self._children = children
        self._cwd = cwd
        self._note = note
        self._descriptors = descriptors
        self._running = 0
        self._steps: list[Callable[[], object]] | None = None

    def advance(self, spec: AttemptSpec) -> bool:
        """Run what is to be run; True when all of it has ended.  To be called until then."""
        if self._steps is None:
            self._steps = [lambda: self._clean_up(spec), lambda: self._wait(spec)]
        while not self._running and self._steps:
            self._steps.pop(0)()
        return not self._running

    def _clean_up(self, spec: AttemptSpec) -> None:
        wanted = {argv: replica.env for replica in spec.replicas for argv in replica.cleanup}
        for argv, env in wanted.items():  # what replicas have in common is run once
            self._run(argv, env, _CLEANUP_S_MAX, lambda *_: None, self._cleaned_up)

    def _wait(self, spec: AttemptSpec) -> None:
        if spec.after is not None:
            env = dict(os.environ)
            self._run(spec.after, env, _AFTER_S_MAX, self._waiting, self._ended)

    def _cleaned_up(self, status: int) -> None:
        if status:
            self._note("Containers of the job may be left: not all could be removed.", "WARNING")
        self._ended(status)

    def _waiting(self, line: str, _stream: str) -> None:
        self._note(line, "INFO")

    def _run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        limit_s: float,
        heard: Callable[[str, str], object],
        ended: Callable[[int], object],
    ) -> None:
        self._running += 1
        helper = Helper(
            self._loop,
            self._children,
            heard=heard,
            ended=ended,
            descriptors=self._descriptors,
        )
        helper.start(argv, env, self._cwd, limit_s=limit_s)

    def _ended(self, _status: int) -> None:
        self._running -= 1
