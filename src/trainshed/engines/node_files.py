"""Stores files and folders for nodes, completely or not at all.

Servers store the same files again at each start, perhaps at the same time, while nodes use them.
So a stored file that has the right content is left alone.
"""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.record.folder import sync_folder
from trainshed.files.beneath import NOT_A_FILE, Beneath, give_mode
from trainshed.files.trees import remove_tree

#: Mode of a stored folder and of everything in it: programs of nodes may run as any user.
_PUBLIC: Final = 0o755
_PRIVATE_FOLDER: Final = 0o700
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
#: Tries to store a folder, while other servers store or replace it.
_TRIES_MAX: Final = 4


def keep_file(path: str, data: bytes, mode: int) -> None:
    """Store a file durably, unless it has this content.  Raises OSError."""
    if _is_stored(path, data):
        if mode & ~os.lstat(path).st_mode:
            os.chmod(path, mode)
        return
    draft = _name_draft(path)
    with open(os.open(draft, _NEW_FILE, mode), "wb") as file:
        give_mode(file.fileno(), mode)  # whatever the umask is
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_folder(os.path.dirname(path))


def _is_stored(path: str, data: bytes) -> bool:
    try:
        if stat.S_ISREG(os.lstat(path).st_mode):
            with open(path, "rb") as file:
                return file.read(len(data) + 1) == data
    except FileNotFoundError:
        pass
    return False


def keep_folder(path: str, files: Mapping[str, bytes]) -> None:
    """Store a folder, unless it has these files with this content.  Raises OSError.

    ``files`` has the content of each file by its path in the folder.  All users can read and
    execute the files.  A folder that differs is replaced as a whole.
    """
    if _has_files(path, files):
        return
    draft = _name_draft(path)
    try:
        _write_folder(draft, files)
        for _ in range(_TRIES_MAX):
            if _rename_new(draft, path) or _has_files(path, files):
                sync_folder(os.path.dirname(path))
                return
            _remove(path)
        raise OSError(errno.EEXIST, "another process replaces the folder again and again", path)
    finally:
        with suppress(FileNotFoundError):
            remove_tree(draft)


def _has_files(path: str, files: Mapping[str, bytes]) -> bool:
    """Return whether a folder has these files; it follows no link below the folder's parent."""
    above, _, name = path.rpartition("/")
    try:
        with Beneath(above) as parent:
            for file_name, data in files.items():
                with parent.read(f"{name}/{file_name}") as file:
                    if file.read(len(data) + 1) != data:
                        return False
    except OSError as error:
        if error.errno in NOT_A_FILE:
            return False
        raise
    return True


def _write_folder(path: str, files: Mapping[str, bytes]) -> None:
    """Write a new folder; a crash of the machine may damage it, which the next start repairs."""
    os.mkdir(path, _PRIVATE_FOLDER)
    with Beneath(path) as folder:
        for name, data in files.items():
            folder.make_folders(os.path.dirname(name), _PUBLIC)
            with open(folder.open(name, _NEW_FILE, _PUBLIC), "wb") as file:
                give_mode(file.fileno(), _PUBLIC)
                file.write(data)
    os.chmod(path, _PUBLIC)


def _rename_new(draft: str, path: str) -> bool:
    """Rename a complete folder to its path; return False if the path exists."""
    try:
        os.rename(draft, path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise
    return True


def _remove(path: str) -> None:
    """Remove a file or folder from its path at once, then its content."""
    removed = _name_draft(path)
    with suppress(FileNotFoundError):  # another process has removed it
        os.rename(path, removed)
        if stat.S_ISDIR(os.lstat(removed).st_mode):
            remove_tree(removed)
        else:
            os.unlink(removed)


def _name_draft(path: str) -> str:
    return f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
