"""Copies trees that programs may write to meanwhile, and says what was copied.

No link is followed, and each is copied as one; sockets, pipes and devices are left out.  A file
that grows is copied as long as it was when it was opened; one that goes is left out.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trainshed.files.beneath import NOT_A_FILE, Beneath, Kind

_PIECE_BYTES: Final = 1 << 20
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600
#: What opening says of a socket.
_NO_FILE: Final = (*NOT_A_FILE, errno.ENXIO)


class Copied(NamedTuple):
    """A file of a copy: its name below the root, its size, and its SHA-256 in hexadecimal."""

    name: str
    size: int
    digest: str


def copy_tree(
    source: Path, target: Path, wanted: Callable[[str, Kind], bool] = lambda *_: True
) -> Iterator[Copied]:
    """Copy what is wanted, judged by its name below the root; what is there already stays.

    Modes, times and, for root, owners are kept.  Raises OSError, also for what cannot be read.
    """
    folders: list[tuple[Path, os.stat_result]] = []
    target.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
    with Beneath(source) as there:
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            head = f"{folder}/" if folder else ""
            for leaf, kind in _entries(there, folder):
                name = head + leaf
                if not wanted(name, kind):
                    continue
                if kind is Kind.FOLDER:
                    waiting.append(name)
                    folders += _made(there, name, target / name)
                elif kind is Kind.OTHER:
                    _copy_link(there, name, target / name)
                elif (found := _copy_file(there, name, target / name)) is not None:
                    yield found
    for path, kept in reversed(folders):
        _keep(path, kept)


def copy_file(source: BinaryIO, target: BinaryIO) -> tuple[int, str]:
    """Copy as much as the file has now; its size, and its SHA-256 in hexadecimal."""
    digest, left = hashlib.sha256(), os.fstat(source.fileno()).st_size
    size = 0
    while left > size and (piece := source.read(min(_PIECE_BYTES, left - size))):
        digest.update(piece)
        target.write(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _entries(there: Beneath, folder: str) -> list[tuple[str, Kind]]:
    try:
        return sorted(there.entries(folder), key=lambda entry: entry[0])
    except OSError as error:
        if error.errno in NOT_A_FILE:
            return []
        raise


def _made(there: Beneath, name: str, target: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """A new folder, whose mode is set when all is in it."""
    if target.is_dir():
        return
    target.mkdir(_PRIVATE_FOLDER, parents=True)
    with suppress(FileNotFoundError):
        yield target, there.stat(name)


def _copy_link(there: Beneath, name: str, target: Path) -> None:
    with there.parent(name) as (folder, leaf):
        try:
            leads_to = os.readlink(leaf, dir_fd=folder)
        except OSError:  # a pipe, a socket, or gone
            return
    if not os.path.lexists(target):
        target.symlink_to(leads_to)


def _copy_file(there: Beneath, name: str, target: Path) -> Copied | None:
    if os.path.lexists(target):
        return None
    try:
        source = there.read(name)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with source, open(os.open(target, flags, _PRIVATE_FILE), "wb") as file:  # noqa: PTH123 - modes
        kept = os.fstat(source.fileno())
        found = copy_file(source, file)
    _keep(target, kept)
    return Copied(name, *found)


def _keep(path: Path, kept: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.chown(path, kept.st_uid, kept.st_gid)
    path.chmod(stat.S_IMODE(kept.st_mode))
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
