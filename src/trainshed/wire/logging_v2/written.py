"""Parses ``entries:write``, the log entries of programs, into lines with severities.

An entry without a text is skipped.  A request with an unreadable part is refused, because a
response of 200 means that all its lines are in the log.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from trainshed.model.json_reader import BadJson, TooManyValues, read_json
from trainshed.model.severity import WORDS

#: The names of google.logging.type.LogSeverity; its numbers are multiples of a hundred.
_SEVERITIES: Final = (
    "DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY",
)  # fmt: skip
_HUNDRED: Final = 100
#: The most lines of one request: a text of 16 MiB could have a line per byte.
LINES_MAX: Final = 50_000
#: The key of an entry that a client library writes about itself, once per process.
_DIAGNOSTIC: Final = "logging.googleapis.com/diagnostic"


class WrittenLine(NamedTuple):
    """One line and its severity."""

    text: str
    severity: str


class UnreadEntries(Exception):
    """The request has entries that cannot be read; the message has the reason."""


class TooManyEntries(UnreadEntries):
    """The request has too many entries or lines; the client must split it."""

    def __init__(self, reason: str) -> None:
        """``reason`` is a sentence with the exceeded limit."""
        super().__init__(f"{reason}; write fewer entries in a request")


def lines_of_json(body: bytes) -> list[WrittenLine]:
    """Return the lines of a JSON body.  Raises UnreadEntries."""
    try:
        document = read_json(body)
    except TooManyValues as error:
        raise TooManyEntries(str(error)) from None
    except BadJson as error:
        raise UnreadEntries(f"The body must be JSON: {error}") from None
    return lines_of(document.get("entries") if isinstance(document, Mapping) else None)


def lines_of(entries: Any) -> list[WrittenLine]:
    """Return the lines of a list of LogEntries.  Raises TooManyEntries."""
    lines = list(islice(_lines(entries if isinstance(entries, list) else ()), LINES_MAX + 1))
    if len(lines) > LINES_MAX:
        raise TooManyEntries(f"The request has more than {LINES_MAX} lines")
    return lines


def _lines(entries: Iterable[Any]) -> Iterator[WrittenLine]:
    for entry in entries:
        if isinstance(entry, Mapping):
            severity = _severity(entry.get("severity"))
            for text in _text(entry).splitlines():
                yield WrittenLine(text, severity)


def _text(entry: Mapping[str, Any]) -> str:
    """Return the text of an entry: its message, or its payload as JSON; empty without one."""
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


def _severity(severity: Any) -> str:
    if isinstance(severity, int):
        severity = _SEVERITIES[max(0, min(severity // _HUNDRED, len(_SEVERITIES) - 1))]
    return WORDS.get(severity.upper(), "INFO") if isinstance(severity, str) else "INFO"
