"""Reads what a trial has reported from the folder of its attempt, as its supervisor wrote it."""

import json
from contextlib import suppress
from pathlib import Path

from trainshed.engines.local.attempts.folder import AttemptFolder
from trainshed.engines.local.supervise.reports import decode
from trainshed.model.attempt import Measured, Report


def measured(folder: AttemptFolder, after: int) -> Measured:
    """The reports behind a mark, which is a place in the file.  Raises OSError.

    A line without its end is not there yet; what is no report is passed over.
    """
    data = _read_on(folder.reports, after)
    whole, newline, _ = data.rpartition(b"\n")
    return Measured(
        mark=after + len(whole) + len(newline),
        reports=tuple(_reports(whole)),
        found=_found(folder.found),
    )


def _read_on(path: str, after: int) -> bytes:
    try:
        with Path(path).open("rb", buffering=0) as file:
            file.seek(after)
            return file.read()
    except FileNotFoundError:
        return b""


def _reports(data: bytes) -> list[Report]:
    found = []
    for line in filter(None, data.split(b"\n")):
        with suppress(ValueError):
            found.append(decode(line))
    return found


def _found(path: str) -> str:
    try:
        return str(json.loads(Path(path).read_bytes()))
    except (OSError, ValueError):
        return ""
