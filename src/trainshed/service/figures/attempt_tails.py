"""Remembers the newest figures of attempts, and reads only the lines of usage after them.

A thousand jobs are read every ten seconds, and a line of 8 GPUs takes 0.1 ms to parse.
"""

from dataclasses import dataclass, field

from trainshed.engines.capabilities import SupportsUsage
from trainshed.model.attempt import AttemptKey
from trainshed.service.figures.newest_figures import (
    SAMPLE_AGE_S_MAX,
    LineFigures,
    NewestFigures,
    newest_figures,
    summarize_line,
)

#: The lines of an attempt that count.
_LINES_MAX = 16


@dataclass(slots=True)
class AttemptTail:
    """The newest lines of one attempt.  For one thread at a time."""

    lines: list[LineFigures] = field(default_factory=list)
    _figures: NewestFigures = field(default_factory=NewestFigures)
    _last_step: NewestFigures | None = None
    """The newest figures with a step; None until they were searched."""

    def follow(self, engine: SupportsUsage, key: AttemptKey, now_s: float) -> None:
        """Read the lines since the last call; all of the newest after a gap.  Raises OSError."""
        last_s = self.lines[-1].at if self.lines else 0.0
        if not 0 <= now_s - last_s <= SAMPLE_AGE_S_MAX:  # the first call, or a clock was set
            self.lines, last_s = [], 0.0
        added = engine.read_newest_usage(key, last_s) if last_s else engine.read_newest_usage(key)
        self.lines = [*self.lines, *map(summarize_line, added)][-_LINES_MAX:]
        self._figures = newest_figures(self.lines, now_s)
        if self._figures.step is not None:
            self._last_step = self._figures
        elif self._last_step is None:
            self._last_step = _search_last_step(engine, key, now_s)

    def figures(self, now_s: float) -> NewestFigures:
        """Return the figures as of the last call of ``follow``.

        The last step is that of older lines if the newest have none.
        """
        figures, last = self._figures, self._last_step
        if self.lines and now_s - self.lines[-1].at > SAMPLE_AGE_S_MAX:
            figures = figures._replace(gpu_use=None)
        if figures.step is not None or last is None:
            return figures
        reported_s = figures.reported_s or last.reported_s
        return figures._replace(step=last.step, total=last.total, reported_s=reported_s)


def _search_last_step(engine: SupportsUsage, key: AttemptKey, now_s: float) -> NewestFigures:
    """Return the figures of the newest lines with a step.  Raises OSError."""
    return newest_figures([*map(summarize_line, engine.read_newest_steps(key))], now_s)
