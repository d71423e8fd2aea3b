"""Opens files below a folder to which other users write, without leaving it or following links.

Another user may replace a file between the check of its path and its use.  So a name is resolved
once, by the kernel in one call (``openat2``, Linux 5.6), or part by part if that call is missing or
forbidden.  All operations use the resulting descriptor.
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

#: The errors for a name that is not a regular file: missing, another kind of file, or a link.
NOT_A_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENAMETOOLONG)

#: Opens (a folder's descriptor, a name below it, flags, mode); returns the new descriptor.
Resolve = Callable[[int, str, int, int], int]

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY
#: Opening a named pipe would block; for files and folders the flag has no effect.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_FILE_MODE: Final = 0o666
_FOLDER_MODE: Final = 0o777

# from linux/openat2.h
_OPENAT2: Final = 437
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
#: Tries of openat2, which fails while a program renames folders; then the parts are opened in turn.
_TRIES_MAX: Final = 16


class PathBeneath(NamedTuple):
    """A path in two parts: ``root``, and ``name`` below it, where other users may write.

    ``name`` is resolved without links.
    """

    root: str | os.PathLike[str]
    name: str = ""

    @classmethod
    def of(cls, path: str, roots: Iterable[str]) -> "PathBeneath":
        """Split the path of a folder.

        Other users write below the folders in ``roots``; a path outside of them has no name part.
        """
        for root in filter(None, roots):
            parts = [*filter(None, path[len(root) :].split("/"))]
            if parts and path.startswith(f"{root}/"):
                return cls(f"{root}/{parts[0]}", "/".join(parts[1:]))
        return cls(path)

    @classmethod
    def of_file(cls, path: str, roots: Iterable[str] = ()) -> "PathBeneath":
        """Split the path of a file; outside of ``roots`` its root is its folder."""
        folder, _, name = path.rpartition("/")
        return cls.of(folder, roots).below(name)

    @property
    def path(self) -> str:
        root = os.fspath(self.root)
        return f"{root}/{self.name}" if self.name else root

    def below(self, name: str) -> "PathBeneath":
        """Return the path of a file or folder below this one."""
        return self._replace(name=f"{self.name}/{name}" if self.name else name)


class FileKind(enum.Enum):
    """The kinds of entries in a folder."""

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
    """An open folder; a name is a path below it, and "" is the folder itself.

    The path of the folder may have links, because its creator is trusted.  Every call raises
    OSError, with ELOOP if a part of the name is a link.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Open a folder.  Raises OSError if it does not exist."""
        self._root = os.open(root, _FOLDER | os.O_CLOEXEC)

    def __enter__(self) -> "Beneath":  # noqa: PYI034 - Python 3.9 has no Self
        """Return the folder; the end of the block closes it."""
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
            raise OSError(errno.EINVAL, "a name must have no part that is empty, '.' or '..'", name)
        mode = mode if flags & os.O_CREAT else 0
        resolve = _resolve() if "/" in name else _open_part
        return resolve(self._root, name or ".", flags | os.O_CLOEXEC, mode)

    def read(self, name: str) -> BinaryIO:
        """Open a regular file for reading.  Raises OSError with EINVAL for another kind of file."""
        descriptor = self.open(name, _READ)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", name)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file; a link is not followed."""
        with self.parent(name) as (folder, leaf):
            return os.stat(leaf, dir_fd=folder, follow_symlinks=False)

    @contextlib.contextmanager
    def folder(self, name: str = "") -> Iterator[int]:
        """Yield a folder's descriptor, and close it at the end."""
        descriptor = self.open(name, _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def parent(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of a name's folder, and the last part of the name."""
        above, _, leaf = name.rpartition("/")
        with self.folder(above) as descriptor:
            yield descriptor, leaf or "."

    def entries(self, name: str = "", most: int | None = None) -> list[tuple[str, FileKind]]:
        """Return at most ``most`` entries of a folder, in no order; None for all."""
        descriptor = self.open(name, _READ | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as entries:
                return [(entry.name, _kind(entry)) for entry in islice(entries, most)]
        finally:
            os.close(descriptor)

    def walk(
        self, name: str, entries_max: int, enters: Callable[[str], bool] = bool
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield each folder of a tree with the names in it that are not folders.

        ``enters`` selects folders by their last part.  Skips folders that cannot be read.  Raises
        OSError (E2BIG) after ``entries_max`` entries.
        """
        waiting, remaining = [name], entries_max
        while waiting:
            folder = waiting.pop()
            try:
                entries = self.entries(folder, remaining + 1)
            except OSError:
                continue
            remaining -= len(entries)
            if remaining < 0:
                raise OSError(
                    errno.E2BIG, f"the folder tree must have at most {entries_max} entries", folder
                )
            folder_names = (
                entry for entry, kind in entries if kind is FileKind.FOLDER and enters(entry)
            )
            head = f"{folder}/" if folder else ""
            waiting += sorted((head + entry for entry in folder_names), reverse=True)
            yield folder, [entry for entry, kind in entries if kind is not FileKind.FOLDER]

    def make_folders(self, name: str, mode: int | None = None) -> None:
        """Make a folder and its missing parents; makes none if a part of the name is no folder.

        New folders have ``mode`` independent of the umask, or by the umask if it is None.  They
        have the group of a parent with the set-gid bit.
        """
        parts = name.split("/") if name else []
        missing = len(parts)
        while missing and not self._is_folder("/".join(parts[:missing])):
            missing -= 1
        for end in range(missing + 1, len(parts) + 1):
            self._make("/".join(parts[:end]), mode)

    def _make(self, name: str, mode: int | None) -> None:
        """Make one folder, and set its mode independent of the umask."""
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
        """Whether the folder exists.  Raises OSError if the name is not a folder."""
        try:
            with self.folder(name):
                return True
        except FileNotFoundError:
            return False


def give_mode(descriptor: int, mode: int) -> None:
    """Set the mode of a file or folder; does nothing if another user owns it."""
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid():
        os.fchmod(descriptor, mode | status.st_mode & stat.S_ISGID)


def _kind(entry: os.DirEntry[str]) -> FileKind:
    if entry.is_dir(follow_symlinks=False):
        return FileKind.FOLDER
    return FileKind.FILE if entry.is_file(follow_symlinks=False) else FileKind.OTHER


@functools.cache
def _resolve() -> Resolve:
    """Return ``by_kernel`` if the kernel supports and allows openat2, else ``by_parts``."""
    root = os.open("/", _FOLDER | os.O_CLOEXEC)
    try:
        os.close(by_kernel(root, ".", _FOLDER | os.O_CLOEXEC, 0))
    except OSError:
        return by_parts
    finally:
        os.close(root)
    return by_kernel


def by_kernel(root: int, name: str, flags: int, mode: int) -> int:
    """Open a name below a folder with openat2; return the descriptor.  Raises OSError."""
    arguments = _How(flags, mode, _NO_MAGIC_LINKS | _NO_LINKS | _BENEATH)
    path = ctypes.c_char_p(os.fsencode(name))
    for _ in range(_TRIES_MAX):
        descriptor = _syscall()(
            ctypes.c_long(_OPENAT2), ctypes.c_int(root), path, ctypes.byref(arguments),
            ctypes.c_size_t(ctypes.sizeof(arguments)),
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
    """Open each folder of a name in turn, then its last part; return the descriptor."""
    *folders, leaf = name.split("/")
    with contextlib.ExitStack() as stack:
        folder = root
        for part in folders:
            folder = _open_part(folder, part, _FOLDER | os.O_CLOEXEC, 0)
            stack.callback(os.close, folder)
        return _open_part(folder, leaf, flags, mode)


def _open_part(folder: int, part: str, flags: int, mode: int) -> int:
    """Open a name without slashes; O_NOFOLLOW prevents that a link is followed."""
    try:
        descriptor = os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from None
        raise
    return descriptor
