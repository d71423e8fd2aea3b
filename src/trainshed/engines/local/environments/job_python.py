"""What the replicas of a job run in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPython:
    """An interpreter, and what to put in front of its import path."""

    python: str
    python_path_entries: tuple[str, ...] = ()
