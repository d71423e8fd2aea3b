"""Writes a replica's progress to a file, whose modification time is the replica's heartbeat.

A call is cheap and never raises: a failure to write this file must not end a training.
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

#: Seconds between two writes of the file.
THROTTLE_S = 1.0

_LOCK = threading.Lock()
_WRITTEN_AT: dict[Path, float] = {}


def heartbeat() -> bool:
    """Report that this replica is alive, without a change of the progress reported before.

    The file changes at most once a second, so call this function as often as you like.  Returns
    whether the file was changed; always False outside of Trainshed.
    """
    path = _claim_write()
    return path is not None and _succeeds(_touch, path)


def progress(step: int | None = None, total: int | None = None, **values: Any) -> bool:
    """Report the progress of this replica: the step, the total of steps, and further values.

    The file is written at most once a second, as with ``heartbeat``, and always at the last step.
    Values should be JSON types; other numbers become floats, and any other value becomes text.
    Called after every step, it also records the durations of the steps (``steps``); the value
    ``saving_s`` is how many seconds the replica saved checkpoints since the last call.  Returns
    whether the file was written.
    """
    if step is not None:
        _record_step(step, values.get("saving_s"))
    with suppress(Exception):  # a program may pass any object as a step or a value
        path = _claim_write(is_last=step is not None and bool(step == total))
        if path is None:
            return False
        position = {"step": step, "total": total}
        document = {key: value for key, value in position.items() if value is not None}
        text = json.dumps({**values, **document}, default=_to_json_value)
        return _succeeds(_write, path, text.encode())
    return False


def _record_step(step: Any, saving_s: Any) -> None:
    """Record the number of a step, and its duration unless hooks of the framework do."""
    times = step_times()
    if times is None:
        return
    with suppress(Exception):  # a step that is not an integer is not counted
        number = operator.index(step)
        with suppress(TypeError, ValueError, OverflowError):  # a step counts without it, too
            times.add_saving(0.0 if saving_s is None else float(saving_s))
        times.number(number)
        if not times.is_hooked:
            times.note(number)


def _claim_write(*, is_last: bool = False) -> Path | None:
    """Return the file if it may be written now, and start the wait before the next write."""
    text = os.environ.get(contract.TRAINSHED_PROGRESS_FILE)
    if not text:
        return None
    path, now = Path(text), time.monotonic()
    with _LOCK:
        written_at = _WRITTEN_AT.get(path)
        if written_at is not None and now - written_at < THROTTLE_S and not is_last:
            return None
        _WRITTEN_AT[path] = now
    return path


def _succeeds(action: Any, *args: Any) -> bool:
    try:
        action(*args)
    except OSError:
        return False
    return True


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _write(path: Path, content: bytes) -> None:
    write_whole(path, lambda out: out.write(content), durable=False)


def _to_json_value(value: Any) -> float | str:
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
