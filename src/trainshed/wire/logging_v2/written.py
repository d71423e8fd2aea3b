"""``entries:write``: what a program writes to Cloud Logging, as texts with their severities.

Nothing is refused: who writes to a log does not look at the answer.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from trainshed.model.json_reader import BadJson, read_json
from trainshed.model.severity import WORDS

#: google.logging.type.LogSeverity counts in hundreds.
_SEVERITIES: Final = (
    "DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY",
)  # fmt: skip
_HUNDRED: Final = 100
#: What a client says of itself, once a process.
_DIAGNOSTIC: Final = "logging.googleapis.com/diagnostic"


class WrittenLine(NamedTuple):
    """One line, and how grave it is."""

    text: str
    severity: str


def lines_of_json(body: bytes) -> list[WrittenLine]:
    """The lines of a body of REST; of one that cannot be read, none."""
    try:
        found = read_json(body)
    except BadJson:
        return []
    return lines_of(found.get("entries") if isinstance(found, Mapping) else None)


def lines_of(entries: Any) -> list[WrittenLine]:
    """The lines of a list of LogEntries."""
    return list(_lines(entries if isinstance(entries, list) else ()))


def _lines(entries: Iterable[Any]) -> Iterator[WrittenLine]:
    for entry in entries:
        if isinstance(entry, Mapping):
            severity = _severity(entry.get("severity"))
            for text in _text(entry).splitlines():
                yield WrittenLine(text, severity)


def _text(entry: Mapping[str, Any]) -> str:
    payload = entry.get("jsonPayload")
    if not isinstance(payload, Mapping):
        text = entry.get("textPayload", "")
        return text if isinstance(text, str) else ""
    if _DIAGNOSTIC in payload:
        return ""
    message = payload.get("message")
    if isinstance(message, str) and len(payload) == 1:
        return message
    return json.dumps(payload, ensure_ascii=False)


def _severity(found: Any) -> str:
    if isinstance(found, int):
        found = _SEVERITIES[max(0, min(found // _HUNDRED, len(_SEVERITIES) - 1))]
    return WORDS.get(found.upper(), "INFO") if isinstance(found, str) else "INFO"
