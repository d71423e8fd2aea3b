"""A short name for the folder of an attempt's temporary files: a link in ``/tmp``.

The path of a socket has at most 107 bytes.  Programs make sockets below ``TMPDIR``, for example by
Python's multiprocessing, which PyTorch's DataLoader uses.  If a program cannot get its own
``/tmp``, ``TMPDIR`` is a folder of the attempt, and its path may be too long for a socket.

The name of the link is computed from the folder's path, so one process can make the link and
another can remove it.  If another file has this name, such as a link of another user, this module
does not change that file, and the program gets the long path.  The temporary files themselves are
in the attempt's folder and are removed with it.
"""
# the supervisor imports this module, which must need little memory

import os
from contextlib import suppress
from typing import Final

#: The size of sun_path in sockaddr_un, without the terminating byte.
SOCKET_NAME_BYTES_MAX: Final = 107
#: Length of the names that programs append; the longest known name is
#: ``/torch-shm-dir-XXXXXX/manager.sock``.
_APPENDED_BYTES: Final = 40
_FOLDER: Final = "/tmp"  # noqa: S108 - this module uses no file that exists already


def short_name(tmp: str) -> str:
    """Return the path of the link to a folder, whether or not the link exists."""
    import zlib  # noqa: PLC0415 - few supervisors need it

    path = os.fsencode(tmp)
    return f"{_FOLDER}/trainshed-{zlib.crc32(path):08x}{zlib.adler32(path):08x}"


def make_short_name(tmp: str) -> str:
    """Make the link if the folder's own path is too long; return the path for programs."""
    if not _is_long(tmp):
        return tmp
    link = short_name(tmp)
    with suppress(OSError):
        os.symlink(tmp, link)
    return link if _is_ours(link, tmp) else tmp


def keep_short_name(tmp: str) -> None:
    """Set the link's time to now: programs that clean ``/tmp`` remove old files."""
    if _is_long(tmp) and _is_ours(link := short_name(tmp), tmp):
        with suppress(OSError):
            os.utime(link, follow_symlinks=False)


def remove_short_name(tmp: str) -> None:
    """Remove the link if it exists."""
    if _is_long(tmp) and _is_ours(link := short_name(tmp), tmp):
        with suppress(OSError):
            os.unlink(link)


def _is_long(tmp: str) -> bool:
    return len(os.fsencode(tmp)) + _APPENDED_BYTES > SOCKET_NAME_BYTES_MAX


def _is_ours(link: str, tmp: str) -> bool:
    """Return whether the link exists, leads to the folder, and belongs to this user."""
    with suppress(OSError):
        return os.readlink(link) == tmp and os.lstat(link).st_uid == os.geteuid()
    return False
