"""Finds the living attempts of a data directory by their folders."""
# the holder of ports imports this module and must stay small

import os
from collections.abc import Iterator
from contextlib import suppress

from trainshed.engines.supervise.record.folder import AttemptFolder


def living_attempt(jobs: str, first: str = "") -> str:
    """Return the folder of an attempt with a supervisor, preferably ``first``; empty if none."""
    for folder in (first, *attempt_folders(jobs)):
        with suppress(OSError):
            if folder and AttemptFolder(folder).is_held():
                return folder
    return ""


def attempt_folders(jobs: str) -> Iterator[str]:
    """Yield the folders of all attempts below the folder of all jobs."""
    for job in _names(jobs):
        for attempt in _names(f"{jobs}/{job}"):
            yield f"{jobs}/{job}/{attempt}"


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208 - pathlib costs a process a megabyte
    return []
