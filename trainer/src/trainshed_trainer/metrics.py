"""Writes the metrics of a tuning trial to the file that Google's cloudml-hypertune writes.

Two things differ: the file is replaced atomically, so that a reader never gets a part of it, and a
restarted trial keeps the lines that the file already has.
"""

from __future__ import annotations

import collections
import json
import os
import threading
import time
from pathlib import Path
from typing import Any, SupportsFloat

from trainshed_trainer import contract
from trainshed_trainer.files import write_whole

#: The file that is written when CLOUD_ML_HP_METRIC_FILE is not set.
DEFAULT_FILE = "/var/hypertune/output.metric"
#: Most reports in the file, as the service expects.
LINES_MAX = 100
#: The other fields of a line; a metric with one of these names would overwrite that field.
RESERVED = ("checkpoint_path", "global_step", "timestamp", "trial")

_LOCK = threading.Lock()
_LINES: dict[Path, collections.deque[str]] = {}


def report_metric(
    tag: str, value: SupportsFloat, step: int | None = None, checkpoint_path: str = ""
) -> bool:
    """Report one value of a metric; return whether the value was written.

    The value is written to CLOUD_ML_HP_METRIC_FILE, or to ``/var/hypertune/output.metric`` in a
    trial without that variable.  Outside of a trial nothing is written and the result is False.
    ``tag`` is the metric's id in the job, ``value`` any number, ``step`` the training step.
    Raises ValueError for a tag that is empty or equals another field of the report, and OSError if
    the file cannot be written.
    """
    if not tag.strip() or tag in RESERVED:
        raise ValueError(
            f"tag must be the metric's id in the job, got {tag!r} (reserved: {', '.join(RESERVED)})"
        )
    line = json.dumps(_report(tag, value, step, checkpoint_path), sort_keys=True)
    path = _metric_file()
    if path is None:
        return False
    with _LOCK:
        lines = _read_last_lines(path)
        lines.append(line + "\n")
        content = "".join(lines).encode()
        write_whole(path, lambda out: out.write(content))
    return True


def _report(tag: str, value: SupportsFloat, step: int | None, checkpoint: str) -> dict[str, Any]:
    return {
        tag: str(float(value)),
        "global_step": str(int(step or 0)),
        "checkpoint_path": checkpoint,
        "timestamp": time.time(),
        "trial": os.environ.get(contract.CLOUD_ML_TRIAL_ID, "0"),
    }


def _metric_file() -> Path | None:
    path = os.environ.get(contract.CLOUD_ML_HP_METRIC_FILE)
    is_trial = bool(os.environ.get(contract.CLOUD_ML_TRIAL_ID))
    return Path(path or DEFAULT_FILE) if path or is_trial else None


def _read_last_lines(path: Path) -> collections.deque[str]:
    """Return the last lines of a file, including those that an earlier process has written."""
    if path not in _LINES:
        try:
            old_lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        except OSError:
            old_lines = []
        complete_lines = (line for line in old_lines if line.endswith("}\n"))
        _LINES[path] = collections.deque(complete_lines, maxlen=LINES_MAX)
    return _LINES[path]
