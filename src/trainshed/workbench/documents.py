"""Reads job files, or the standard input, as documents.

A syntax fault (exit code 2) has the line and the column in its message.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

from trainshed.model.faults import UsageFault
from trainshed.storage.folders import reason
from trainshed.wire.documents import JobDocument, read_documents

STDIN = "-"

#: The size limit of requests.
BYTES_MAX = 8 << 20


def read(path: str) -> tuple[JobDocument, ...]:
    """Return all documents of a file; ``-`` is the standard input.  Raises UsageFault."""
    return read_documents(read_text(path), path)


def read_one(path: str) -> JobDocument:
    """Return the only document of a file.  Raises UsageFault if there are several."""
    documents = read(path)
    if len(documents) > 1:
        raise UsageFault(f"{path} must have one document, got {len(documents)}")
    return documents[0]


def read_text(path: str | Path) -> str:
    """Return the text of a file; the string ``-`` is the standard input.  Raises UsageFault."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
        if len(raw) > BYTES_MAX:
            raise UsageFault(f"cannot read {path}: it is larger than {BYTES_MAX} bytes")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageFault(f"cannot read {path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageFault(f"cannot read {path}: byte {error.start} is not UTF-8 text") from error
