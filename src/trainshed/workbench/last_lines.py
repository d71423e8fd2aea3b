"""Stores the last lines of replicas, to show a failure and to read final figures."""

import json
import math
from collections import deque
from typing import Final

from trainshed.engines.base import Stream
from trainshed.model.launch_plan import ReplicaPlan

_KEPT: Final = 20
_LINE_MAX: Final = 1000


class LastLines:
    """Stores the last lines of all replicas and prints none."""

    def __init__(self) -> None:

        self.lines: deque[str] = deque(maxlen=_KEPT)
        self._objects: deque[str] = deque(maxlen=_KEPT)

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Store one line of a replica."""
        short = text[:_LINE_MAX]
        self.lines.append(f"{replica.task_name} | {short}")
        if stream == "stdout" and text.startswith("{"):
            self._objects.append(short)

    def note(self, text: str) -> None:
        """Ignore one line of the engine."""

    @property
    def seconds(self) -> float | None:
        """Return the duration in the last line of JSON that has one, or None."""
        times = (_seconds(text) for text in reversed(self._objects))
        return next((seconds for seconds in times if seconds), None)


def _seconds(text: str) -> float | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    seconds = document.get("seconds") if isinstance(document, dict) else None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    return float(seconds) if 0 < seconds < math.inf else None
