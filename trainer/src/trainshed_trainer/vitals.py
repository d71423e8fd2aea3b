"""The sign of life of a replica: a file whose time of change says when it last got on.

It costs next to nothing and never fails: a training must not end for want of this file.
"""

from __future__ import annotations

import json
import operator
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainshed_trainer import contract
from trainshed_trainer.files import write_whole
from trainshed_trainer.steps import step_times

#: The file changes no more often than this, in seconds.
THROTTLE_S = 1.0

_LOCK = threading.Lock()
_WRITTEN: dict[Path, float] = {}


def heartbeat() -> bool:
    """Say that this replica gets on; what it last said of its progress stays.

    Call it as often as you like: the file changes at most once a second.  Says whether it changed;
    outside of Trainshed it never does.
    """
    path = _due()
    return path is not None and _succeeds(_touch, path)


def progress(step: int | None = None, total: int | None = None, **values: Any) -> bool:
    """Say how far this replica has come: at which step of how many, and any values beside.

    Throttled as ``heartbeat`` is, except for the last step.  Values should be JSON's own; other
    numbers become floats, anything else text.  Called after each step it also tells how long steps
    take (``steps``).  Says whether the file was written.
    """
    if step is not None:
        _note(step)
    with suppress(Exception):  # whatever a program takes for a step or a value
        path = _due(is_last=step is not None and bool(step == total))
        if path is None:
            return False
        position = {"step": step, "total": total}
        document = {key: value for key, value in position.items() if value is not None}
        text = json.dumps({**values, **document}, default=_plain)
        return _succeeds(_write, path, text.encode())
    return False


def _note(step: Any) -> None:
    """Tell how long it took, where hooks of its framework do not."""
    times = step_times()
    if times is None or times.is_hooked:
        return
    with suppress(Exception):  # what is no whole number is no count of steps
        times.note(operator.index(step))


def _due(*, is_last: bool = False) -> Path | None:
    """Give the file if it may be changed now, and take the turn."""
    named = os.environ.get(contract.TRAINSHED_PROGRESS_FILE)
    if not named:
        return None
    path, now = Path(named), time.monotonic()
    with _LOCK:
        before = _WRITTEN.get(path)
        if before is not None and now - before < THROTTLE_S and not is_last:
            return None
        _WRITTEN[path] = now
    return path


def _succeeds(act: Any, *args: Any) -> bool:
    try:
        act(*args)
    except OSError:
        return False
    return True


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda out: out.write(content), durable=False)


def _plain(value: Any) -> float | str:
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
