"""Finds and stores the files of objects, inside their bucket and atomically.

An object is a file with the same path in its bucket's folder, so that jobs need no client for it.
Cloud Storage accepts names that a folder cannot contain (``a//b``, ``..``, or both ``a`` and
``a/b``).  The server refuses such names with the reason, and stores nothing under another name.

Objects are listed in the order of the storage API: by the bytes of their whole names.  Folders are
sorted with their slash, so that ``a/`` is after ``a-b`` and before ``a0``, as its objects are.

Links are not objects and are not followed (files.beneath), because a program that may write to the
bucket can make them lead to any file.
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
"""The longest object name in bytes, as in Cloud Storage."""
PART_BYTES_MAX = 255
"""The longest file name in bytes that file systems allow."""

#: The names of the server's own files in a bucket: unfinished files, and probes (folders.py).
RESERVED_PREFIX = ".trainshed-"

_PIECE_BYTES = 1 << 20

#: Why a file cannot have the name of an object, by errno.
IN_THE_WAY = {
    errno.ELOOP: "a link is in the way",
    errno.ENOTDIR: "another object has the name of one of its folders",
    errno.EEXIST: "another object has the name of one of its folders",
    errno.EISDIR: "a folder with objects has this name",
    errno.ENOTEMPTY: "a folder with objects has this name",
    errno.ENOENT: "one of its folders was removed meanwhile; try again",
    errno.ENAMETOOLONG: "its folders are nested too deeply for the server",
}


class NameRefused(Exception):
    """An object's name cannot be the path of a file; the message says why."""


def check_name(name: str) -> None:
    """Raise NameRefused if an object cannot have this name."""
    if problem := _problem(name):
        excerpt = name if len(name) <= PART_BYTES_MAX else f"{name[:PART_BYTES_MAX]}..."
        raise NameRefused(f"Invalid object name {excerpt!r}: {problem}")


def is_object_name(name: str) -> bool:
    """Whether an object can have this name."""
    return not _problem(name)


def digest(name: str) -> str:
    """Return the SHA-256 of a name in hexadecimal, which can be a file name."""
    return hashlib.sha256(name.encode()).hexdigest()


def _problem(name: str) -> str:
    """Return why an object cannot have this name; empty if it can."""
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
    """Return why a name cannot have this part between slashes; empty if it can."""
    if not part:
        return "objects are files on this server, so no part between slashes may be empty"
    if part in (".", ".."):
        return "objects are files on this server, so no part between slashes may be '.' or '..'"
    if len(part.encode()) > PART_BYTES_MAX:
        return f"a part between slashes must have at most {PART_BYTES_MAX} bytes"
    if part.startswith(RESERVED_PREFIX):
        return f"names that begin with {RESERVED_PREFIX} are reserved for unfinished files"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A range of names: with ``prefix``, from ``start`` until before ``end``; empty means any.

    With ``folders`` (the delimiter ``/``) a list contains folders below the prefix instead of the
    objects in them.
    """

    prefix: str = ""
    start: bytes = b""
    end: bytes = b""
    folders: bool = False

    def may_hold(self, folder: str) -> bool:
        """Whether a folder (``a/b/``) can contain names in the range."""
        raw, prefix = folder.encode(), self.prefix
        after = raw[:-1] + b"0"  # "0" is the character after "/"
        inside = folder.startswith(prefix) or prefix.startswith(folder)
        return inside and after > self.start and not (self.end and raw >= self.end)

    def wants(self, name: str) -> bool:
        """Whether a name is in the range."""
        raw = name.encode()
        in_order = raw >= self.start and not (self.end and raw >= self.end)
        return in_order and name.startswith(self.prefix)

    def groups(self, folder: str) -> bool:
        """Whether a list contains this folder instead of its objects."""
        return self.folders and folder.startswith(self.prefix) and folder != self.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Lists the objects of one bucket; ``is_placeholder`` says whether a folder is an object."""

    root: Path
    is_placeholder: Callable[[str], bool]

    def names(self, bounds: Bounds, folder: str = "") -> Iterator[str]:
        """Yield the names in range; with ``bounds.folders`` folders instead of their objects."""
        if folder and bounds.wants(folder) and self.is_placeholder(folder):
            yield folder
        for name in self._entries(folder):
            if not name.endswith("/"):
                if bounds.wants(name):
                    yield name
            elif not bounds.may_hold(name):
                continue
            elif bounds.groups(name):
                objects_in_folder = self.names(replace(bounds, folders=False), name)
                if next(objects_in_folder, None) is not None:
                    yield name
            else:
                yield from self.names(bounds, name)

    def is_empty(self, folder: str = "") -> bool:
        """Whether a folder, by default the whole bucket, contains no object."""
        return next(self.names(Bounds(), folder), None) is None

    def _entries(self, folder: str) -> list[str]:
        """Return the sorted names of files and folders in a folder; folders end with a slash."""
        try:
            with Beneath(self.root) as bucket:
                entries = bucket.entries(folder.rstrip("/"))
        except OSError as error:
            if error.errno not in (*NOT_A_FILE, errno.EACCES, errno.EPERM):
                raise
            return []  # the folder was removed, or the server may not read it
        ends = {FileKind.FILE: "", FileKind.FOLDER: "/"}
        names = (f"{folder}{name}{ends[kind]}" for name, kind in entries if kind in ends)
        return sorted(filter(is_object_name, names), key=os.fsencode)


class NoSuchObject(Exception):
    """No object has this name; the message contains the name."""


@contextlib.contextmanager
def missing_is_no_object(name: str) -> Iterator[None]:
    """Convert an error for a missing file, or one that is not a regular file, to NoSuchObject."""
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_A_FILE:
            raise
        raise NoSuchObject(f"No such object: {name}") from None


@contextlib.contextmanager
def object_folder(walk: Walk, bucket: Beneath, name: str) -> Iterator[tuple[int, str]]:
    """Yield the folder of a new object, made if needed, and the file name in it.

    Raises NameRefused if a file or link has the name of a folder in the path; then no folder is
    made.  Removes empty folders with the object's name.
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
        reason = f"objects are files on this server, and {IN_THE_WAY[error.errno]}"
        raise NameRefused(f"Invalid object name {name!r}: {reason}") from None


def _check_free(walk: Walk, bucket: Beneath, name: str, folder: int) -> None:
    """Raise OSError if a link, or a folder with objects, has the name."""
    try:
        leaf = name.rpartition("/")[2]
        mode = os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    if stat.S_ISDIR(mode) and not (walk.is_empty(f"{name}/") and _remove_empty(bucket, name)):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)


def _remove_empty(bucket: Beneath, folder: str) -> bool:
    """Remove a tree of empty folders; return False and remove nothing if it contains a file."""
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
    """Yield a folder and all folders below it, parents first.  Raises OSError for a file."""
    waiting = [folder]
    while waiting:
        yield (path := waiting.pop())
        for name, kind in bucket.entries(path):
            if kind is not FileKind.FOLDER:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
            waiting.append(f"{path}/{name}")


def move_into(source: Beneath, file: str, target: tuple[int, str], mtime_ns: int) -> os.stat_result:
    """Move a finished file to ``target``, a folder and a name in it, and flush it to the disk.

    ``mtime_ns`` becomes its modification time.  Returns the status of the moved file.
    """
    with source.read(file) as written, source.parent(file) as origin:
        os.utime(written.fileno(), ns=(mtime_ns, mtime_ns))
        _share(written.fileno(), target[0])
        os.fsync(written.fileno())
        try:
            os.rename(origin[1], target[1], src_dir_fd=origin[0], dst_dir_fd=target[0])
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return _copy(written, origin, target)  # the bucket is on another file system
        _sync(target[0])
        return os.fstat(written.fileno())


def _copy(written: BinaryIO, origin: tuple[int, str], target: tuple[int, str]) -> os.stat_result:
    """Copy a file to another file system and remove the original; return its status."""
    folder, leaf = target
    draft = f"{RESERVED_PREFIX}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o666, dir_fd=folder), "wb") as copy:
        try:
            shutil.copyfileobj(written, copy, _PIECE_BYTES)
            copy.flush()
            mtime_ns = os.fstat(written.fileno()).st_mtime_ns
            os.utime(copy.fileno(), ns=(mtime_ns, mtime_ns))
            _share(copy.fileno(), folder)
            os.fsync(copy.fileno())
            os.rename(draft, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
            raise
        _sync(folder)
        os.unlink(origin[1], dir_fd=origin[0])
        return os.fstat(copy.fileno())


def _share(file: int, folder: int) -> None:
    """Give a file the group of its folder and the mode of files in buckets."""
    group = os.fstat(folder).st_gid
    if os.fstat(file).st_gid != group:
        with contextlib.suppress(PermissionError):  # a job's file, of another user
            os.fchown(file, -1, group)
    give_mode(file, FILE_MODE)


def _sync(folder: int) -> None:
    """Flush a folder to the disk; opens it again, because fsync refuses an O_PATH descriptor."""
    opened = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextlib.contextmanager
def locked(folder: Path, *names: str) -> Iterator[None]:
    """Lock these names for this thread; other threads and servers wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        for key in sorted({digest(name)[:2] for name in names}):
            held.enter_context(exclusive((folder / key).open("ab")))
        yield


@contextlib.contextmanager
def exclusive(file: BinaryIO) -> Iterator[BinaryIO]:
    """Lock an open file; at the end close it, which releases the lock."""
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


class ConditionFailed(Exception):
    """A condition of the caller is not met; the message names the condition."""


def check_conditions(conditions: Conditions, stored: StoredObject | None) -> None:
    """Raise ConditionFailed if a condition is not met, NoSuchObject for another generation."""
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
    if failed_names := [name for name, has_failed in failed.items() if has_failed]:
        raise ConditionFailed(
            "At least one of the pre-conditions you specified did not hold: "
            f"{', '.join(failed_names)}; the object's generation is {generation}, "
            f"its metageneration {metageneration}."
        )
