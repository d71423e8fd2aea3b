"""Files and folders of a data directory that other users of the machine could open.

Only the server may open the directory and the folders in it.  There are two exceptions: jobs import
the trainer library, and the group of a bucket's jobs may open that bucket.  In older releases the
umask decided this.
"""

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainshed.engines.environments.replica_tools import FOLDER as REPLICA_TOOLS
from trainshed.files.server_files import ADMIN_FILE, DATABASE_FILE
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.storage.buckets import buckets_of

UMASK: Final = 0o077
"""The umask of a server and of the supervisors that it starts."""
PRIVATE_FOLDER: Final = 0o700

_OTHERS: Final = stat.S_IRWXO
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
#: Others may pass the folder of all buckets, and not list it: where it is on a shared file system,
#: a kubelet resolves the path of a bucket as root, which a file server may treat as any user.
_READ_OR_WRITE: Final = _GROUP_AND_OTHERS & ~(stat.S_IXGRP | stat.S_IXOTH)
#: Folders without secrets that replicas of every project read.
_SHOWN: Final = frozenset({LIBRARY, REPLICA_TOOLS})
_SECRETS: Final = (
    ADMIN_FILE,
    DATABASE_FILE,
    "tls/ca.key",
    "tls/server.key",
    "tls/gateway.key",
    "gateway-secret",
    "ports.json",
    "trainshed.db*",
)

_LOG = logging.getLogger(__name__)


def open_to_others(data_dir: Path) -> dict[Path, int]:
    """Return the paths that others could open, with the mode bits that allow it."""
    modes = {}
    for path, forbidden in _list_private(data_dir):
        with suppress(FileNotFoundError):
            if excess_bits := path.stat().st_mode & forbidden:
                modes[path] = excess_bits
    return modes


def make_private(data_dir: Path) -> None:
    """Make the directory, and remove other users' access to its content; log the paths.

    Logs also the paths whose mode cannot be changed: another user's, or shared ones (``/tmp``).
    """
    data_dir.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    modes = open_to_others(data_dir)
    closed = [path for path, excess_bits in modes.items() if _close(path, excess_bits)]
    if closed:
        _LOG.warning("removed other users' access to %s", _names(closed))
    if left := [path for path in modes if path not in closed]:
        _LOG.warning(
            "cannot remove other users' access to %s; change its mode or owner", _names(left)
        )


def _list_private(data_dir: Path) -> Iterator[tuple[Path, int]]:
    """Yield each path with the mode bits that it must not have."""
    entries = (path for path in sorted(data_dir.iterdir()) if path.name not in _SHOWN)
    folders = [path for path in entries if path.is_dir()]
    secrets = [path for name in _SECRETS for path in sorted(data_dir.glob(name))]
    buckets = buckets_of(data_dir).root
    for path in (data_dir, *folders, *secrets):
        yield path, _READ_OR_WRITE if path == buckets else _GROUP_AND_OTHERS
    with suppress(FileNotFoundError):
        yield from ((path, _OTHERS) for path in sorted(buckets.iterdir()))


def _close(path: Path, excess_bits: int) -> bool:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & stat.S_ISVTX:
        return False
    try:
        path.chmod(mode & ~excess_bits)
    except OSError:
        return False
    return True


def _names(paths: list[Path]) -> str:
    """Name the first path, and count the others."""
    rest = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    return f"{os.fspath(paths[0])}{rest}"
