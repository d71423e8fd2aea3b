"""A file system like those of fsspec, for a bucket in another folder of the server's machine.

The local file system of fsspec follows links as the server's user: a program that may write into
the folder could read the server's secrets by a link.  This file system follows no links and shows
only files and folders.  If projects have users, it accesses files as the user of the bucket's
project.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from trainshed.files.acting import acting_as
from trainshed.files.beneath import NOT_A_FILE, Beneath, FileKind
from trainshed.files.copies import copy_file
from trainshed.storage.object_files import IN_THE_WAY, RESERVED_PREFIX

#: Returns the id of the user that accesses a bucket's files; None for the server's user.
UserOf = Callable[[], int | None]

_KINDS = {FileKind.FILE: "file", FileKind.FOLDER: "directory"}


class FolderFiles:
    """The files of one folder; names are paths below it.

    Methods raise FileNotFoundError if a file does not exist, PermissionError if the access is
    refused, and another OSError if the disk fails.
    """

    async_impl = False

    def __init__(self, root: str, user_of: UserOf) -> None:
        self._root = root
        self._user_of = user_of

    def info(self, path: str) -> dict[str, Any]:
        """Return the properties of a file or folder."""
        with self._reading(path) as (files, name):
            status = files.stat(name)
        kind = _KINDS.get(_kind_of(status))
        if kind is None:
            raise FileNotFoundError(path)
        return _describe(path, kind, status)

    def ls(self, path: str, *, detail: bool) -> list[dict[str, Any]]:
        """Return the properties of each file and folder in a folder."""
        del detail  # fsspec's parameter; callers always need the details
        head = path.rstrip("/")
        with self._reading(path) as (files, name), files.folder(name) as folder:
            rows = []
            for leaf, kind in files.entries(name):
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
                    if kind in _KINDS and _kind_of(status) is kind:
                        rows.append(_describe(f"{head}/{leaf}", _KINDS[kind], status))
        return rows

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from ``start`` until before ``end``, or until its end."""
        with self._reading(path) as (files, name), files.read(name) as file:
            file.seek(start)
            return file.read(end - start)

    def put_file(self, local: str, path: str) -> None:
        """Copy a local file of the server to a path; a failed copy leaves no file."""
        with Path(local).open("rb") as source:
            self._store(source, path)

    def cp_file(self, path: str, to: str) -> None:
        """Copy a file within the folder."""
        with self._reading(path) as (files, name):
            source = files.read(name)
        with source:
            self._store(source, to)

    def rm_file(self, path: str) -> None:
        with self._reading(path) as (files, name), files.parent(name) as (folder, leaf):
            if _kind_of(os.stat(leaf, dir_fd=folder, follow_symlinks=False)) is not FileKind.FILE:
                raise FileNotFoundError(path)
            os.unlink(leaf, dir_fd=folder)

    def _store(self, source: BinaryIO, path: str) -> None:
        """Write a file under a temporary name, then rename it to the path."""
        draft = f"{RESERVED_PREFIX}{secrets.token_hex(8)}"
        with self._writing(path) as (files, name):
            files.make_folders(name.rpartition("/")[0])
            with files.parent(name) as (folder, leaf):
                _check_is_free(leaf, folder)
                try:
                    _write(source, draft, folder)
                    os.rename(draft, leaf, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(draft, dir_fd=folder)
                    raise

    @contextlib.contextmanager
    def _open_parent(self, path: str) -> Iterator[tuple[Beneath, str]]:
        """Yield the folder, opened as the server's user, and a path below it.

        The block runs as the user of the bucket's project.
        """
        try:
            files = Beneath(self._root)
        except OSError as error:
            raise OSError(f"the bucket's folder cannot be opened: {error.strerror}") from None
        user = self._user_of()
        with files, acting_as(user):
            try:
                yield files, path.strip("/")
            except PermissionError as error:
                if user is None or error.errno is None:
                    raise
                raise PermissionError(
                    f"user {user}, the system user of the bucket's project, has no permission in "
                    f"the bucket's folder: {error.strerror}"
                ) from None

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[tuple[Beneath, str]]:
        with self._open_parent(path) as opened:
            try:
                yield opened
            except OSError as error:
                if error.errno in NOT_A_FILE:
                    raise FileNotFoundError(path) from None
                raise

    @contextlib.contextmanager
    def _writing(self, path: str) -> Iterator[tuple[Beneath, str]]:
        with self._open_parent(path) as opened:
            try:
                yield opened
            except OSError as error:
                if error.errno in IN_THE_WAY:
                    raise PermissionError(IN_THE_WAY[error.errno]) from None
                raise


def _check_is_free(leaf: str, folder: int) -> None:
    """Raise PermissionError if the name is that of a folder or link, not of a file."""
    with contextlib.suppress(FileNotFoundError):
        if _kind_of(os.stat(leaf, dir_fd=folder, follow_symlinks=False)) is not FileKind.FILE:
            raise PermissionError("a folder, a link or something else has this name")


def _write(source: BinaryIO, draft: str, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o666, dir_fd=folder), "wb") as file:
        copy_file(source, file)
        file.flush()
        os.fsync(file.fileno())


def _kind_of(status: os.stat_result) -> FileKind:
    kinds = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.FOLDER}
    return kinds.get(stat.S_IFMT(status.st_mode), FileKind.OTHER)


def _describe(path: str, kind: str, status: os.stat_result) -> dict[str, Any]:
    """Return the properties of a file in the form of fsspec."""
    return {"name": path, "type": kind, "size": status.st_size, "mtime": status.st_mtime}
