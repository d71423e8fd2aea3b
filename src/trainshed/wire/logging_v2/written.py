"""``entries:write``: what a program writes to Cloud Logging, as texts with their severities.

An entry without a text is passed over.  A request that is not read as a whole is refused: an
answer of 200 would tell the program that its lines are in the log.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from trainshed.model.json_reader import BadJson, TooManyValues, read_json
from trainshed.model.severity import WORDS

#: google.logging.type.LogSeverity counts in hundreds.
_SEVERITIES: Final = (
    "DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY",
)  # fmt: skip
_HUNDRED: Final = 100
#: Lines of one request: a text of sixteen megabytes could have a line a byte.
LINES_MAX: Final = 50_000
#: An entry of a client about itself, once a process.
_DIAGNOSTIC: Final = "logging.googleapis.com/diagnostic"


class WrittenLine(NamedTuple):
    """One line and its severity."""

    text: str
    severity: str


class UnreadEntries(Exception):
    """The request has entries that cannot be read; the message has the reason."""


class TooManyEntries(UnreadEntries):
    """The request has too many entries; a smaller one is accepted."""

    def __init__(self, what: str) -> None:
        """``what`` names the exceeded limit."""
        super().__init__(f"{what}; write fewer entries in a request")


def lines_of_json(body: bytes) -> list[WrittenLine]:
    """Return the lines of a body of REST.  Raises UnreadEntries."""
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
