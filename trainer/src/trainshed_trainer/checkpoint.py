"""Writes checkpoints atomically, for frameworks that have no function for this.

A replica may be killed at any instruction.  A file is therefore written under a temporary name,
synced to the disk and renamed: a later reader sees the old file or the new one.
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from pathlib import Path
from typing import BinaryIO, Callable

from trainshed_trainer.contract import TRAINSHED_BUCKETS
from trainshed_trainer.directories import directories_of
from trainshed_trainer.files import write_whole

#: The checkpoint directory if neither a variable nor ``--job-dir`` sets one.
FALLBACK = "checkpoints"
#: The folder of mounted buckets on Vertex AI: ``gs://bucket/a`` is the file ``/gcs/bucket/a``.
MOUNT = "/gcs"
URI = "gs://"
#: Names of unfinished files: those of this library, and those that other writers use.
UNFINISHED = re.compile(
    r"\.(?:partial|tmp|temp|part|incomplete)$|[._-]tmp(?:[._-]|$)", re.IGNORECASE
)
#: The first bytes of a zip archive; PyTorch, NumPy and Keras write zip archives.
ZIP = b"PK\x03\x04"


def save_atomically(path: str | os.PathLike[str], writer: Callable[[BinaryIO], object]) -> Path:
    """Write a file atomically; ``writer`` gets an open binary file.  Returns the path.

    Missing parent directories are created.  If ``writer`` raises, no new file is left and an
    existing file stays unchanged.
    """
    return write_whole(local_path(path), writer)


def latest_checkpoint(
    directory: str | os.PathLike[str] | None = None, pattern: str = "*"
) -> Path | None:
    """Find the newest complete checkpoint that matches a glob pattern, or None if there is none.

    The newest has the highest numbers in its name (``step-10`` is newer than ``step-9``); of equal
    names, the one written last.  A folder counts if its name contains a number.  Incomplete
    checkpoints are skipped: empty files and folders, hidden names, names that end in ``.partial``,
    ``.tmp`` or similar, folders that contain such a name, and truncated zip archives (PyTorch,
    NumPy, Keras).

    The default directory is AIP_CHECKPOINT_DIR, or ``checkpoints/`` below ``--job-dir``, or
    ``checkpoints`` in the working directory.  It need not exist.
    """
    candidates = []
    for path in checkpoint_directory(directory).glob(pattern):
        age = None if _has_unfinished_name(path) else _sort_key(path)
        if age is not None:
            candidates.append((age, path))
    newest_first = (path for _, path in sorted(candidates, reverse=True))
    return next((path for path in newest_first if _is_not_truncated(path)), None)


def checkpoint_directory(named: str | os.PathLike[str] | None = None) -> Path:
    """Return the directory of checkpoints as a path: the named one, or else the job's.

    Raises ValueError for a ``gs://`` URI whose bucket is not mounted.
    """
    own = directories_of(os.environ, sys.argv).checkpoint_dir
    return local_path(named or own or FALLBACK)


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return the local path of a ``gs://`` URI; any other path is returned unchanged.

    A job's programs see its buckets as folders, for code without a client of Cloud Storage.
    Raises ValueError for a bucket that is not mounted.
    """
    text = os.fspath(path)
    if not text.startswith(URI):
        return Path(text)
    bucket, _, name = text[len(URI) :].partition("/")
    parents = (os.environ.get(TRAINSHED_BUCKETS), MOUNT)
    folders = [Path(parent, bucket) for parent in parents if parent]
    mount = next((folder for folder in folders if folder.is_dir()), None)
    if mount is None:
        raise ValueError(f"cannot use {text} as a local path: {folders[-1]} is not mounted")
    return mount / name


def _has_unfinished_name(path: Path) -> bool:
    return path.name.startswith(".") or bool(UNFINISHED.search(path.name))


def _sort_key(path: Path) -> tuple[list[int], int] | None:
    """Return the sort key of a checkpoint; None if it is incomplete or was removed."""
    numbers = [int(digits) for digits in re.findall(r"[0-9]+", path.name)]
    try:
        status = path.stat()
        if path.is_dir():
            entries = list(path.iterdir()) if numbers else []
            is_complete = bool(entries) and not any(UNFINISHED.search(e.name) for e in entries)
        else:
            is_complete = path.is_file() and status.st_size > 0
    except FileNotFoundError:  # removed by a writer that keeps only the last few checkpoints
        return None
    return (numbers, status.st_mtime_ns) if is_complete else None


def _is_not_truncated(path: Path) -> bool:
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(ZIP)) != ZIP or zipfile.is_zipfile(file)
    except FileNotFoundError:
        return False
