"""The Python that the replicas of a job run in."""

from dataclasses import dataclass, field
from typing import TextIO


@dataclass(frozen=True)
class JobPython:
    """An interpreter, and the folders to put in front of its import path."""

    python: str
    python_path_entries: tuple[str, ...] = ()
    used: TextIO | None = field(default=None, compare=False, repr=False)
    """Those folders stay as long as a process has this file open (``prune.use``)."""
