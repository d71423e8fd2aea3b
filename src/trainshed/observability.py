"""Logs of the server itself, for the rim: one line a record, never a secret.

Records quote what callers and programs sent.  They are read on a terminal, so that nothing in them
is obeyed there, and no message makes a line that looks like a record of ours.
"""

import asyncio
import logging
import sys

from trainshed.model.visible import visible, visible_line

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class VisibleFormatter(logging.Formatter):
    """A formatter that shows the hidden characters of strangers as their escapes."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """The record in one line; a traceback comes below it."""
        return visible_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The record with its traceback."""
        return visible(super().format(record))


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


def log_to_stderr(*, verbose: bool = False) -> None:
    """Send the server's own records to stderr; ``verbose`` adds what only developers read."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter(FORMAT))
    root = logging.getLogger("trainshed")
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).filters[:] = [CutCallsFilter()]
    if logging.lastResort:
        logging.lastResort.setFormatter(VisibleFormatter())  # what libraries have to say
