"""Which object names can be files, and where those lie.

An object is a file of the same path in its bucket's folder, so that jobs open it without a client.
Cloud Storage takes names that no folder can hold (``a//b``, ``..``, ``a`` beside ``a/b``); they are
refused, with the reason, instead of being stored under another name.
"""

import hashlib
from pathlib import Path

NAME_BYTES_MAX = 1024
"""Cloud Storage's own limit."""
PART_BYTES_MAX = 255
"""What a file system takes between two slashes."""

#: Files of ours in somebody's bucket: half-written ones, and trials of a folder (folders.py).
RESERVED_PREFIX = ".trainshed-"


class NameRefused(Exception):
    """No file can have this name; the message says why."""


def check_name(name: str) -> None:
    """Raise NameRefused for a name that cannot be stored here."""
    if problem := _problem(name):
        shown = name if len(name) <= PART_BYTES_MAX else f"{name[:PART_BYTES_MAX]}..."
        raise NameRefused(f"Invalid object name {shown!r}: {problem}")


def is_object_name(name: str) -> bool:
    """Whether an object can have this name."""
    return not _problem(name)


def path_in(folder: Path, name: str) -> Path:
    """The file or folder of an object.  Raises NameRefused."""
    check_name(name)
    return folder.joinpath(*name.rstrip("/").split("/"))


def digest(name: str) -> str:
    """A text of fixed length that stands for a name of any shape."""
    return hashlib.sha256(name.encode()).hexdigest()


def _problem(name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if not 0 < size <= NAME_BYTES_MAX:
        return f"it has {size} bytes; 1 to {NAME_BYTES_MAX} are accepted"
    if {"\0", "\r", "\n"}.intersection(name):
        return "it has a line end or a NUL character"
    return next(filter(None, map(_part_problem, name.removesuffix("/").split("/"))), "")


def _part_problem(part: str) -> str:
    if not part:
        return "objects are files here, so no part between slashes may be empty"
    if part in (".", ".."):
        return "objects are files here, so no part between slashes may be '.' or '..'"
    if len(part.encode()) > PART_BYTES_MAX:
        return f"objects are files here: at most {PART_BYTES_MAX} bytes between slashes"
    if part.startswith(RESERVED_PREFIX):
        return f"names that begin with {RESERVED_PREFIX} are kept for unfinished files"
    return ""
