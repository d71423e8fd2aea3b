"""Reads the result of a trainer: ``result.json`` in the job's output folder.

Neither dialect defines this file; Trainshed's examples write it.
"""

import json
from collections.abc import Mapping
from pathlib import Path

RESULT_FILE = "result.json"

#: The folders of the file below the output folder; AIP_MODEL_DIR is ``model``.
FOLDERS = ("", "model")

#: File systems keep the time of a change in coarse steps, so that the time can be before the start.
CLOCK_S = 0.05

#: Names of the metric to show first, in order of preference.
FAVOURITES = ("accuracy", "test_accuracy", "val_accuracy", "loss", "test_loss")


def metrics_of(output: Path | None, *, since: float) -> Mapping[str, float]:
    """Return the numbers in the result of a run that began at ``since`` (seconds since 1970).

    Empty when there is no result, or only one of an older run.
    """
    if output is None:
        return {}
    results = (_numbers(output / folder / RESULT_FILE, since) for folder in FOLDERS)
    return next(filter(None, results), {})


def _numbers(path: Path, since: float) -> Mapping[str, float]:
    try:
        if path.stat().st_mtime < since - CLOCK_S:
            return {}
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {key: value for key, value in document.items() if _is_number(value)}


def headline(metrics: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the metric for a table: a favourite, else the first; None without metrics."""
    names = [name for name in FAVOURITES if name in metrics] or list(metrics)
    return (names[0], metrics[names[0]]) if names else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
