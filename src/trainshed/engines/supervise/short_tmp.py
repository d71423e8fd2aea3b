"""A short name for the folder of an attempt's temporary files: a link in ``/tmp``.

The name of a socket has 107 bytes at most, and programs make sockets below ``TMPDIR``: Python's
multiprocessing, and with it PyTorch's DataLoader.  Where ``/tmp`` cannot be replaced for a program,
``TMPDIR`` is a folder of the attempt, whose name may be too long for that.

The link's name follows from the folder's, so that it is made and removed by processes that need not
tell each other.  What lies there and is not our link, such as another user's, is left alone, and
the long name is used.  The files themselves lie in the attempt's folder, and go with it.
"""
# the supervisor of an attempt imports this, and must stay small

import os
import zlib
from contextlib import suppress
from typing import Final

#: sun_path of sockaddr_un, without the byte that ends it.
SOCKET_NAME_BYTES_MAX: Final = 107
#: What programs append: ``/torch-shm-dir-XXXXXX/manager.sock`` is the longest that is known.
_APPENDED_BYTES: Final = 40
_FOLDER: Final = "/tmp"  # noqa: S108 - what lies there already is not used


def short_name(tmp: str) -> str:
    """The name of the link to a folder, whether it is there or not."""
    path = os.fsencode(tmp)
    return f"{_FOLDER}/trainshed-{zlib.crc32(path):08x}{zlib.adler32(path):08x}"


def make_short_name(tmp: str) -> str:
    """Make the link if the folder's own name is too long; the name that programs shall use."""
    if len(os.fsencode(tmp)) + _APPENDED_BYTES <= SOCKET_NAME_BYTES_MAX:
        return tmp
    link = short_name(tmp)
    with suppress(OSError):
        os.symlink(tmp, link)
    return link if _is_ours(link, tmp) else tmp


def keep_short_name(tmp: str) -> None:
    """Have the link look as new: programs that clear up ``/tmp`` remove what is old."""
    link = short_name(tmp)
    if _is_ours(link, tmp):
        with suppress(OSError):
            os.utime(link, follow_symlinks=False)


def remove_short_name(tmp: str) -> None:
    """Remove the link if there is one."""
    link = short_name(tmp)
    if _is_ours(link, tmp):
        with suppress(OSError):
            os.unlink(link)


def _is_ours(link: str, tmp: str) -> bool:
    with suppress(OSError):
        return os.readlink(link) == tmp and os.lstat(link).st_uid == os.geteuid()
    return False
