"""The metrics of a tuning trial, in the file that Google's cloudml-hypertune writes.

Where it differs: the file is replaced as a whole, so that nobody reads half of it, and a restarted
trial goes on with what the file holds already.
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

#: The file of a trial to which nobody has named one.
DEFAULT_FILE = "/var/hypertune/output.metric"
#: How many reports the file keeps, as the service expects.
KEPT = 100
#: The other fields of a line; a metric of such a name would hide one.
RESERVED = ("checkpoint_path", "global_step", "timestamp", "trial")

_LOCK = threading.Lock()
_LINES: dict[Path, collections.deque[str]] = {}


def report_metric(
    tag: str, value: SupportsFloat, step: int | None = None, checkpoint_path: str = ""
) -> bool:
    """Report one value of a metric; say whether anybody wants to know.

    It is written to CLOUD_ML_HP_METRIC_FILE, or in a trial that names no file to
    ``/var/hypertune/output.metric``.  Outside of a trial nothing happens and the answer is False.
    ``tag`` is the metric's id in the job, ``value`` any number, ``step`` that of the training.
    Raises ValueError for a tag that is empty or named as another field of the report, OSError if
    the file cannot be written.
    """
    if not tag.strip() or tag in RESERVED:
        raise ValueError(f"{tag!r} cannot be a metric's tag; reserved are {', '.join(RESERVED)}")
    line = json.dumps(_report(tag, value, step, checkpoint_path), sort_keys=True)
    path = _file()
    if path is None:
        return False
    with _LOCK:
        lines = _lines(path)
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


def _file() -> Path | None:
    named = os.environ.get(contract.CLOUD_ML_HP_METRIC_FILE)
    is_trial = bool(os.environ.get(contract.CLOUD_ML_TRIAL_ID))
    return Path(named or DEFAULT_FILE) if named or is_trial else None


def _lines(path: Path) -> collections.deque[str]:
    """Give the last lines of a file; what was there before this process stays until it is old."""
    if path not in _LINES:
        try:
            before = path.read_text(encoding="utf-8").splitlines(keepends=True)
        except OSError:
            before = []
        whole = (line for line in before if line.endswith("}\n"))
        _LINES[path] = collections.deque(whole, maxlen=KEPT)
    return _LINES[path]
