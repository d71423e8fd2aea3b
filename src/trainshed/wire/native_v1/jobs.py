"""Why a job waits, and the lines of its log, as the native API tells them."""

from typing import Any

from trainshed.model.explanation import Explanation
from trainshed.model.log_line import LogLine
from trainshed.wire.times import timestamp


def explanation_json(found: Explanation, position: int | None) -> dict[str, Any]:
    """An explanation as the native API shows it; the next job's position is 1."""
    shown: dict[str, Any] = {
        "reason": found.reason.value,
        "message": found.message,
        "blockers": list(found.blockers),
        "queuePosition": position,
    }
    if change := found.change:
        shown["change"] = {
            "field": change.field,
            "role": change.role,
            "asked": change.asked,
            "accepted": change.accepted,
            "text": change.text,
        }
    return {name: value for name, value in shown.items() if value is not None}


def line_json(line: LogLine) -> dict[str, Any]:
    """A line of a log; the stream has one such object a line."""
    found = {
        "time": timestamp(line.stamp_ns),
        "task": line.task_name,
        "severity": line.severity,
        "message": line.text,
    }
    return {**found, "trial": line.trial} if line.trial else found
