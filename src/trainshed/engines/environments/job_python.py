"""The Python interpreter of a job's replicas."""

from dataclasses import dataclass, field
from typing import TextIO


@dataclass(frozen=True)
class JobPython:
    """An interpreter, and the folders to put in front of its import path."""

    python: str
    python_path_entries: tuple[str, ...] = ()
    used: TextIO | None = field(default=None, compare=False, repr=False)
    """The folders are not removed while a process has this file open (``prune.use``)."""
