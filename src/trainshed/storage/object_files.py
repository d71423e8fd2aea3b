"""Finds and stores the files of objects, inside their bucket and atomically.

An object is a file of the same path in its bucket's folder, so that jobs open it without a client.
Cloud Storage accepts names that a folder cannot hold (``a//b``, ``..``, ``a`` beside ``a/b``); they
are refused, with the reason, instead of being stored under another name.

Objects are listed in the order of the storage API: by the bytes of their whole names.  A folder
sorts where its objects do, behind ``a-b`` and before ``a0``, which is why folders are sorted with
their slash.  Links are not objects and are not followed (files.beneath): a program that may write
to the bucket can point them anywhere at any moment.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from trainshed.files.beneath import NOT_A_FILE, Beneath, FileKind, give_mode
from trainshed.model.stored_objects import Conditions, StoredObject
from trainshed.storage.buckets import FILE_MODE, FOLDER_MODE

NAME_BYTES_MAX = 1024
"""Cloud Storage's own limit."""
PART_BYTES_MAX = 255
"""The longest file name that file systems allow."""

#: Our files in a bucket: unfinished ones, and tests of a folder (folders.py).
RESERVED_PREFIX = ".trainshed-"

_PIECE_BYTES = 1 << 20

#: Why a name cannot be used, by errno.
IN_THE_WAY = {
    errno.ELOOP: "a link is in the way",
    errno.ENOTDIR: "another object has the name of one of its folders",
    errno.EEXIST: "another object has the name of one of its folders",
    errno.EISDIR: "there are objects below it, so it is a folder",
    errno.ENOTEMPTY: "there are objects below it, so it is a folder",
    errno.ENOENT: "a folder of it was removed meanwhile",
    errno.ENAMETOOLONG: "the folders below it are nested too deeply for the server",
}


class NameRefused(Exception):
    """The name cannot be that of a file; the message has the reason."""


def check_name(name: str) -> None:
    """Raise NameRefused for a name that cannot be stored here."""
    if problem := _problem(name):
        excerpt = name if len(name) <= PART_BYTES_MAX else f"{name[:PART_BYTES_MAX]}..."
        raise NameRefused(f"Invalid object name {excerpt!r}: {problem}")


def is_object_name(name: str) -> bool:
    """Whether an object can have this name."""
    return not _problem(name)


def digest(name: str) -> str:
    """A text of fixed length that stands for a name of any shape."""
    return hashlib.sha256(name.encode()).hexdigest()


def _problem(name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if not 0 < size <= NAME_BYTES_MAX:
        return f"it must have 1 to {NAME_BYTES_MAX} bytes, got {size}"
    if {"\0", "\r", "\n"}.intersection(name):
        return "it must have no line end and no NUL character"
    return next(filter(None, map(_part_problem, name.removesuffix("/").split("/"))), "")


def _part_problem(part: str) -> str:
    if not part:
        return "objects are files here, so no part between slashes may be empty"
    if part in (".", ".."):
        return "objects are files here, so no part between slashes may be '.' or '..'"
    if len(part.encode()) > PART_BYTES_MAX:
        return f"objects are files here: at most {PART_BYTES_MAX} bytes between slashes"
    if part.startswith(RESERVED_PREFIX):
        return f"names that begin with {RESERVED_PREFIX} are reserved for unfinished files"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The range of names: with ``prefix``, from ``start`` on, before ``end`` if not empty.

    With ``folders`` (the delimiter ``/``) the list has a folder below the prefix in place of the
    objects in it.
    """

    prefix: str = ""
    start: bytes = b""
    end: bytes = b""
    folders: bool = False

    def may_hold(self, folder: str) -> bool:
        """Whether a folder (``a/b/``) can have names in range below it."""
        raw, prefix = folder.encode(), self.prefix
        after = raw[:-1] + b"0"  # the character behind the slash
        inside = folder.startswith(prefix) or prefix.startswith(folder)
        return inside and after > self.start and not (self.end and raw >= self.end)

    def wants(self, name: str) -> bool:
        """Whether a name is in range."""
        raw = name.encode()
        in_order = raw >= self.start and not (self.end and raw >= self.end)
        return in_order and name.startswith(self.prefix)

    def groups(self, folder: str) -> bool:
        """Whether the list has this folder in place of its objects."""
        return self.folders and folder.startswith(self.prefix) and folder != self.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One bucket's folder; ``is_placeholder`` says which folders are objects themselves."""

    root: Path
    is_placeholder: Callable[[str], bool]

    def names(self, bounds: Bounds, folder: str = "") -> Iterator[str]:
        """Yield the objects in range; with ``bounds.folders`` a folder in place of its objects."""
        if folder and bounds.wants(folder) and self.is_placeholder(folder):
            yield folder
        for name in self._entries(folder):
            if not name.endswith("/"):
                if bounds.wants(name):
                    yield name
            elif not bounds.may_hold(name):
                continue
            elif bounds.groups(name):
                below = self.names(replace(bounds, folders=False), name)
                if next(below, None) is not None:
                    yield name
            else:
                yield from self.names(bounds, name)

    def is_empty(self, folder: str = "") -> bool:
        """Whether there is no object in a folder, by default in the whole bucket."""
        return next(self.names(Bounds(), folder), None) is None

    def _entries(self, folder: str) -> list[str]:
        """Names of the files and folders in a folder, folders with their slash, in order."""
        try:
            with Beneath(self.root) as bucket:
                entries = bucket.entries(folder.rstrip("/"))
        except OSError as error:
            if error.errno not in (*NOT_A_FILE, errno.EACCES, errno.EPERM):
                raise
            return []  # it was removed, or the server may not read it
        ends = {FileKind.FILE: "", FileKind.FOLDER: "/"}
        names = (f"{folder}{name}{ends[kind]}" for name, kind in entries if kind in ends)
        return sorted(filter(is_object_name, names), key=os.fsencode)


class NoSuchObject(Exception):
    """There is no object of this name; the message names it."""


@contextlib.contextmanager
def none_means(name: str) -> Iterator[None]:
    """Raise NoSuchObject for a missing file, or one that is not a regular file."""
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_A_FILE:
            raise
        raise NoSuchObject(f"No such object: {name}") from None


@contextlib.contextmanager
def room(walk: Walk, bucket: Beneath, name: str) -> Iterator[tuple[int, str]]:
    """Return the folder of a new object, made if needed, and the name in it.

    Raises NameRefused if a file blocks the path; then nothing is made.  Empty folders of deleted
    objects are removed.
    """
    check_name(name)
    try:
        bucket.make_folders(name.rpartition("/")[0], FOLDER_MODE)
        with bucket.parent(name) as (folder, leaf):
            if not name.endswith("/"):
                _check_free(walk, bucket, name, folder)
            yield folder, leaf
    except OSError as error:
        if error.errno not in IN_THE_WAY:
            raise
        raise NameRefused(
            f"Invalid object name {name!r}: objects are files here, and {IN_THE_WAY[error.errno]}"
        ) from None


def _check_free(walk: Walk, bucket: Beneath, name: str, folder: int) -> None:
    try:
        leaf = name.rpartition("/")[2]
        there = os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(there):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    if stat.S_ISDIR(there) and not (walk.is_empty(f"{name}/") and _remove_empty(bucket, name)):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)


def _remove_empty(bucket: Beneath, folder: str) -> bool:
    """Remove a tree of empty folders; False, and nothing is removed, where it holds a file."""
    try:
        for path in reversed(list(_empty_folders(bucket, folder))):
            with bucket.parent(path) as (above, leaf):
                os.rmdir(leaf, dir_fd=above)
    except (FileExistsError, OSError) as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOTDIR, errno.ENOENT, errno.ELOOP):
            raise
        return False
    return True


def _empty_folders(bucket: Beneath, folder: str) -> Iterator[str]:
    """Yield a folder and those below it, each before its content.  Raises OSError for a file."""
    waiting = [folder]
    while waiting:
        yield (path := waiting.pop())
        for name, kind in bucket.entries(path):
            if kind is not FileKind.FOLDER:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
            waiting.append(f"{path}/{name}")


def place(source: Beneath, file: str, end: tuple[int, str], mtime_ns: int) -> os.stat_result:
    """Move a finished file into a folder, under a name; for good when this returns.

    What it is then.
    """
    with source.read(file) as written, source.parent(file) as start:
        os.utime(written.fileno(), ns=(mtime_ns, mtime_ns))
        _share(written.fileno(), end[0])
        os.fsync(written.fileno())
        try:
            os.rename(start[1], end[1], src_dir_fd=start[0], dst_dir_fd=end[0])
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return _copy(written, start, end)  # the bucket is on another file system
        _sync(end[0])
        return os.fstat(written.fileno())


def _copy(written: BinaryIO, start: tuple[int, str], end: tuple[int, str]) -> os.stat_result:
    folder, leaf = end
    near = f"{RESERVED_PREFIX}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(near, flags, 0o666, dir_fd=folder), "wb") as copy:
        try:
            shutil.copyfileobj(written, copy, _PIECE_BYTES)
            copy.flush()
            mtime_ns = os.fstat(written.fileno()).st_mtime_ns
            os.utime(copy.fileno(), ns=(mtime_ns, mtime_ns))
            _share(copy.fileno(), folder)
            os.fsync(copy.fileno())
            os.rename(near, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(near, dir_fd=folder)
            raise
        _sync(folder)
        os.unlink(start[1], dir_fd=start[0])
        return os.fstat(copy.fileno())


def _share(file: int, folder: int) -> None:
    """Give a file that was made privately elsewhere to the group of its folder."""
    group = os.fstat(folder).st_gid
    if os.fstat(file).st_gid != group:
        with contextlib.suppress(PermissionError):  # a job's own file, which is moved
            os.fchown(file, -1, group)
    give_mode(file, FILE_MODE)


def _sync(folder: int) -> None:
    """An O_PATH descriptor cannot be synced itself."""
    opened = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextlib.contextmanager
def locked(folder: Path, *names: str) -> Iterator[None]:
    """Keep every other thread and server away from these names."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        for key in sorted({digest(name)[:2] for name in names}):
            held.enter_context(exclusive((folder / key).open("ab")))
        yield


@contextlib.contextmanager
def exclusive(file: BinaryIO) -> Iterator[BinaryIO]:
    """Hold an open file's lock; its closing gives it back."""
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


class ConditionFailed(Exception):
    """A condition of the caller does not hold; the message names it."""


def check_conditions(conditions: Conditions, stored: StoredObject | None) -> None:
    """Raise ConditionFailed, or NoSuchObject for another revision."""
    generation = stored.generation if stored else 0
    metageneration = stored.metageneration if stored else 0
    if conditions.revision not in (None, generation):
        raise NoSuchObject(f"No such object: its generation is not {conditions.revision}")
    failed = {
        "ifGenerationMatch": conditions.generation not in (None, generation),
        "ifGenerationNotMatch": conditions.generation_not == generation,
        "ifMetagenerationMatch": conditions.metageneration not in (None, metageneration),
        "ifMetagenerationNotMatch": conditions.metageneration_not == metageneration,
    }
    if missed := [name for name, has in failed.items() if has]:
        raise ConditionFailed(
            "At least one of the pre-conditions you specified did not hold: "
            f"{', '.join(missed)}; the object's generation is {generation}, "
            f"its metageneration {metageneration}."
        )
