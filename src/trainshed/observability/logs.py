"""The log of the server itself, as text or as one JSON object a record; it has no secrets.

Records quote what callers and programs sent.  They are read on a terminal, so that nothing in them
is obeyed there, and no message makes a line that looks like a record of ours.
"""

import asyncio
import enum
import json
import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from trainshed.model.visible import visible, visible_line
from trainshed.observability.log_fields import FIELDS, fields_of_record

#: The logger of answered requests; only a JSON log has their records.
REQUESTS: Final = "trainshed.requests"


class ServerLogFormat(enum.Enum):
    """The forms of the server's log."""

    TEXT = "text"
    JSON = "json"


FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class VisibleFormatter(logging.Formatter):
    """A formatter that shows the hidden characters of strangers as their escapes."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The record in one line; a traceback comes below it."""
        return visible_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The record with its traceback."""
        return visible(super().format(record))


class JsonFormatter(logging.Formatter):
    """A formatter that writes a record as one line of JSON, in ASCII.

    The keys are ``ts`` (RFC 3339, in ns), ``level``, ``logger``, ``message``, those of
    ``log_fields.FIELDS`` that have a value, and ``error`` for an exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record in one line."""
        document: dict[str, object] = {
            "ts": _rfc3339(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = fields_of_record(record.args, getattr(record, "fields", {}))
        document |= {name: fields[name] for name in FIELDS if fields.get(name) not in (None, "")}
        if record.exc_info and record.exc_info[1] is not None:
            document["error"] = _describe_error(record.exc_info[1])
        return json.dumps(document, default=str)


def _rfc3339(record: logging.LogRecord) -> str:
    seconds = datetime.fromtimestamp(int(record.created), UTC)
    nanoseconds = int((record.created % 1) * 1e9)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def _describe_error(error: BaseException) -> Mapping[str, str]:
    """Return the type, the message and the stack of an exception."""
    stack = "".join(traceback.format_exception(error))
    return {"type": type(error).__qualname__, "message": str(error), "stack": stack}


#: What reports the end of uvicorn's calls; a filter does not pass to the loggers below.
_HTTP_LOGGERS = ("uvicorn.error", "uvicorn.error.requests")


class CutCallsFilter(logging.Filter):
    """Tells of the calls that uvicorn cuts off at its end in one line, without their traces."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the trace of a call that was cut off; reword the line that counts them."""
        error = record.exc_info[1] if record.exc_info else None
        if "graceful shutdown exceeded" in str(record.msg):
            record.msg = "%s call(s) that had not ended, such as log streams, were cut off"
        return not isinstance(error, asyncio.CancelledError)


def log_to_stderr(*, verbose: bool = False, form: ServerLogFormat = ServerLogFormat.TEXT) -> None:
    """Send the server's own records to stderr; ``verbose`` adds what only developers read."""
    is_json = form is ServerLogFormat.JSON
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if is_json else VisibleFormatter(FORMAT))
    root = logging.getLogger("trainshed")
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False
    logging.getLogger(REQUESTS).disabled = not is_json
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).filters[:] = [CutCallsFilter()]
    if logging.lastResort:  # what libraries log
        logging.lastResort.setFormatter(JsonFormatter() if is_json else VisibleFormatter())
