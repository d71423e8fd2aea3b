"""Opens files below a folder to which other users write, without leaving it or following links.

A path may name another file between its check and its use.  So a name is resolved once, by the
kernel in one call (``openat2``, Linux 5.6), or part by part if that call is missing or forbidden;
all operations use the resulting descriptor.
"""

import contextlib
import ctypes
import enum
import errno
import functools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple

#: The errors for a name without a regular file: missing, another kind, or a link.
NOT_A_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENAMETOOLONG)

#: A call that resolves (folder's descriptor, name, flags, mode) to a new descriptor.
Resolve = Callable[[int, str, int, int], int]

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY
#: Opening a named pipe would block; for files and folders the flag has no effect.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_FILE_MODE: Final = 0o666
_FOLDER_MODE: Final = 0o777

# from linux/openat2.h
_OPENAT2: Final = 437
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
#: The kernel gives up while a program renames folders; then the parts are opened one by one.
_TRIES_MAX: Final = 16


class PathBeneath(NamedTuple):
    """A file or folder; other users write below ``root``, so that part of its path has no links."""

    root: str | os.PathLike[str]
    name: str = ""

    @classmethod
    def of(cls, path: str, roots: Iterable[str]) -> "PathBeneath":
        """Return a folder; users write below those in ``roots``, others are their own root."""
        for root in filter(None, roots):
            parts = [*filter(None, path[len(root) :].split("/"))]
            if parts and path.startswith(f"{root}/"):
                return cls(f"{root}/{parts[0]}", "/".join(parts[1:]))
        return cls(path)

    @classmethod
    def of_file(cls, path: str, roots: Iterable[str] = ()) -> "PathBeneath":
        """Return a file; outside of ``roots`` it is a name in its folder."""
        folder, _, name = path.rpartition("/")
        return cls.of(folder, roots).below(name)

    @property
    def path(self) -> str:
        root = os.fspath(self.root)
        return f"{root}/{self.name}" if self.name else root

    def below(self, name: str) -> "PathBeneath":
        """What lies in it."""
        return self._replace(name=f"{self.name}/{name}" if self.name else name)


class FileKind(enum.Enum):
    """The kinds of files in a folder."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A link, a named pipe, a socket, a device."""


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class Beneath:
    """An open folder; names below it are parts separated by slashes, "" is the folder itself.

    The folder's own path may have links, because its creator is trusted.  Every call raises
    OSError, with ELOOP if a part of the name is a link.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Open a folder.  Raises OSError if it does not exist."""
        self._root = os.open(root, _FOLDER | os.O_CLOEXEC)

    def __enter__(self) -> "Beneath":  # noqa: PYI034 - Python 3.9 has no Self
        """Close it at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._root)

    def open(self, name: str, flags: int, mode: int = _FILE_MODE) -> int:
        """Return the descriptor of a file or folder; child processes do not inherit it."""
        if name and not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise OSError(errno.EINVAL, "a name has no part that is empty, '.' or '..'", name)
        mode = mode if flags & os.O_CREAT else 0
        resolve = _resolve() if "/" in name else _open_part
        return resolve(self._root, name or ".", flags | os.O_CLOEXEC, mode)

    def read(self, name: str) -> BinaryIO:
        """Return a regular file's bytes; EINVAL for anything else."""
        descriptor = self.open(name, _READ)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", name)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file, also of a link."""
        with self.parent(name) as (folder, leaf):
            return os.stat(leaf, dir_fd=folder, follow_symlinks=False)

    @contextlib.contextmanager
    def folder(self, name: str = "") -> Iterator[int]:
        """Return a folder's descriptor, for calls that need one."""
        descriptor = self.open(name, _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def parent(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield the folder of a name, and its last part."""
        above, _, leaf = name.rpartition("/")
        with self.folder(above) as descriptor:
            yield descriptor, leaf or "."

    def entries(self, name: str = "", most: int | None = None) -> list[tuple[str, FileKind]]:
        """Return the entries of a folder in no order, at most so many."""
        descriptor = self.open(name, _READ | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as entries:
                return [(entry.name, _kind(entry)) for entry in islice(entries, most)]
        finally:
            os.close(descriptor)

    def walk(
        self, name: str, entries_max: int, enters: Callable[[str], bool] = bool
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield each folder with the names in it that are not folders; ``enters`` selects folders.

        It skips folders that cannot be read.  Raises OSError (E2BIG) after so many entries.
        """
        waiting, left = [name], entries_max
        while waiting:
            folder = waiting.pop()
            try:
                entries = self.entries(folder, left + 1)
            except OSError:
                continue
            left -= len(entries)
            if left < 0:
                raise OSError(errno.E2BIG, "there is too much to look at all", folder)
            below = (entry for entry, kind in entries if kind is FileKind.FOLDER and enters(entry))
            head = f"{folder}/" if folder else ""
            waiting += sorted((head + entry for entry in below), reverse=True)
            yield folder, [entry for entry, kind in entries if kind is not FileKind.FOLDER]

    def make_folders(self, name: str, mode: int | None = None) -> None:
        """Make a folder and those above it, or none if a part is not a folder.

        They have ``mode`` independent of the umask, and the group of the folder above if that
        passes it on.
        """
        parts = name.split("/") if name else []
        missing = len(parts)
        while missing and not self._is_folder("/".join(parts[:missing])):
            missing -= 1
        for end in range(missing + 1, len(parts) + 1):
            self._make("/".join(parts[:end]), mode)

    def _make(self, name: str, mode: int | None) -> None:
        with self.parent(name) as (folder, leaf):
            try:
                os.mkdir(leaf, _FOLDER_MODE if mode is None else mode, dir_fd=folder)
            except FileExistsError:
                return  # another process made it first
        if mode is not None:
            descriptor = self.open(name, _READ | os.O_DIRECTORY)
            try:
                give_mode(descriptor, mode)
            finally:
                os.close(descriptor)

    def _is_folder(self, name: str) -> bool:
        """Whether the folder exists.  Raises OSError if the name is something else."""
        try:
            with self.folder(name):
                return True
        except FileNotFoundError:
            return False


def give_mode(descriptor: int, mode: int) -> None:
    """Set the mode of a file or folder of the own user; other users' files do not change."""
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid():
        os.fchmod(descriptor, mode | status.st_mode & stat.S_ISGID)


def _kind(entry: os.DirEntry[str]) -> FileKind:
    if entry.is_dir(follow_symlinks=False):
        return FileKind.FOLDER
    return FileKind.FILE if entry.is_file(follow_symlinks=False) else FileKind.OTHER


@functools.cache
def _resolve() -> Resolve:
    """Use the kernel's call if it is allowed; old kernels and strict containers have none."""
    root = os.open("/", _FOLDER | os.O_CLOEXEC)
    try:
        os.close(by_kernel(root, ".", _FOLDER | os.O_CLOEXEC, 0))
    except OSError:
        return by_parts
    finally:
        os.close(root)
    return by_kernel


def by_kernel(root: int, name: str, flags: int, mode: int) -> int:
    """Resolve a name in one call, by openat2."""
    how = _How(flags, mode, _NO_MAGIC_LINKS | _NO_LINKS | _BENEATH)
    path = ctypes.c_char_p(os.fsencode(name))
    for _ in range(_TRIES_MAX):
        descriptor = _syscall()(
            ctypes.c_long(_OPENAT2), ctypes.c_int(root), path, ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )  # fmt: skip
        if descriptor >= 0:
            return int(descriptor)
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), name)
    return by_parts(root, name, flags, mode)


@functools.cache
def _syscall() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function


def by_parts(root: int, name: str, flags: int, mode: int) -> int:
    """Open folder after folder, each in the one before."""
    *folders, leaf = name.split("/")
    with contextlib.ExitStack() as stack:
        folder = root
        for part in folders:
            folder = _open_part(folder, part, _FOLDER | os.O_CLOEXEC, 0)
            stack.callback(os.close, folder)
        return _open_part(folder, leaf, flags, mode)


def _open_part(folder: int, part: str, flags: int, mode: int) -> int:
    """Open one part; O_NOFOLLOW is enough for it."""
    try:
        descriptor = os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from None
        raise
    return descriptor
