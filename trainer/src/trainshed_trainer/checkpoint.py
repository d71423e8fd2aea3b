"""Writes checkpoints atomically, for frameworks without a function for that.

A replica may be killed at any instruction.  A file is therefore written under another name, forced
to the disk and renamed: who reads the directory afterwards sees the old file or the new one.
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

#: Where checkpoints are when neither a variable nor ``--job-dir`` names a place.
FALLBACK = "checkpoints"
#: Where a bucket is mounted, as Vertex AI does it: ``gs://bucket/a`` is the file ``/gcs/bucket/a``.
MOUNT = "/gcs"
URI = "gs://"
#: How a name says that it is not finished: ours, and what other writers call theirs.
UNFINISHED = re.compile(
    r"\.(?:partial|tmp|temp|part|incomplete)$|[._-]tmp(?:[._-]|$)", re.IGNORECASE
)
#: How a zip archive begins; PyTorch, NumPy and Keras write them.
ZIP = b"PK\x03\x04"


def save_atomically(path: str | os.PathLike[str], writer: Callable[[BinaryIO], object]) -> Path:
    """Write a file so that it is whole or absent; ``writer`` is given an open binary file.

    Missing parent directories are made.  If ``writer`` raises, nothing is left and nothing is
    replaced.  Returns the path.
    """
    return write_whole(local_path(path), writer)


def latest_checkpoint(
    directory: str | os.PathLike[str] | None = None, pattern: str = "*"
) -> Path | None:
    """Find the newest whole checkpoint that matches a glob pattern, or None where there is none.

    The newest has the highest numbers in its name (``step-10`` is newer than ``step-9``); among
    equals, the one written last.  A folder counts if there is a number in its name.  Skipped is
    what is torn: empty files and folders, hidden names, names that end in ``.partial``, ``.tmp``
    or the like, folders that hold such a name, and zip archives (PyTorch, NumPy, Keras) without
    their end.

    Without a directory it is AIP_CHECKPOINT_DIR, or ``checkpoints/`` below ``--job-dir``, or
    ``checkpoints`` in the working directory.  One that does not exist holds nothing.
    """
    candidates = []
    for path in checkpoint_directory(directory).glob(pattern):
        age = None if _says_torn(path) else _age(path)
        if age is not None:
            candidates.append((age, path))
    newest_first = (path for _, path in sorted(candidates, reverse=True))
    return next((path for path in newest_first if _has_its_end(path)), None)


def checkpoint_directory(named: str | os.PathLike[str] | None = None) -> Path:
    """Give the directory of checkpoints as a path: the named one, or the job's own.

    Raises ValueError for a ``gs://`` URI whose bucket is not mounted.
    """
    own = directories_of(os.environ, sys.argv).checkpoint_dir
    return local_path(named or own or FALLBACK)


def local_path(path: str | os.PathLike[str]) -> Path:
    """Give the file or folder that a ``gs://`` URI means on this machine; other paths as they are.

    A job's buckets are folders that its programs see.  For what opens files by ``open`` and has no
    client of Cloud Storage.  Raises ValueError for a bucket that is not mounted.
    """
    text = os.fspath(path)
    if not text.startswith(URI):
        return Path(text)
    bucket, _, name = text[len(URI) :].partition("/")
    places = [Path(place, bucket) for place in (os.environ.get(TRAINSHED_BUCKETS), MOUNT) if place]
    mount = next((place for place in places if place.is_dir()), None)
    if mount is None:
        raise ValueError(f"{text} is no directory here: {places[-1]} is not mounted")
    return mount / name


def _says_torn(path: Path) -> bool:
    return path.name.startswith(".") or bool(UNFINISHED.search(path.name))


def _age(path: Path) -> tuple[list[int], int] | None:
    """Return the sort key of a checkpoint; None if it is invalid or gone."""
    numbers = [int(digits) for digits in re.findall(r"[0-9]+", path.name)]
    try:
        status = path.stat()
        if path.is_dir():
            inside = list(path.iterdir()) if numbers else []
            is_whole = bool(inside) and not any(UNFINISHED.search(entry.name) for entry in inside)
        else:
            is_whole = path.is_file() and status.st_size > 0
    except FileNotFoundError:  # cleaned away by a writer that keeps the last few
        return None
    return (numbers, status.st_mtime_ns) if is_whole else None


def _has_its_end(path: Path) -> bool:
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(ZIP)) != ZIP or zipfile.is_zipfile(file)
    except FileNotFoundError:
        return False
