"""Files of objects: found without leaving the bucket, put in place whole or not at all.

An object is a file of the same path in its bucket's folder, so that jobs open it without a client.
Cloud Storage takes names that no folder can hold (``a//b``, ``..``, ``a`` beside ``a/b``); they are
refused, with the reason, instead of being stored under another name.

Objects are listed in the order of the storage API: by the bytes of their whole names.  A folder
sorts where its objects do, behind ``a-b`` and before ``a0``, which is why folders are sorted with
their slash.  Links are followed to files inside the bucket and nowhere else: a link to a folder
would give one file two names, or none an end.
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

from trainshed.model.stored_objects import Conditions, StoredObject

NAME_BYTES_MAX = 1024
"""Cloud Storage's own limit."""
PART_BYTES_MAX = 255
"""What a file system takes between two slashes."""

#: Files of ours in somebody's bucket: half-written ones, and trials of a folder (folders.py).
RESERVED_PREFIX = ".trainshed-"


class NameRefused(Exception):
    """No file can have this name; the message says why."""


def check_name(name: str) -> None:
    """Raise NameRefused for a name that cannot be stored here."""
    if problem := _problem(name):
        shown = name if len(name) <= PART_BYTES_MAX else f"{name[:PART_BYTES_MAX]}..."
        raise NameRefused(f"Invalid object name {shown!r}: {problem}")


def is_object_name(name: str) -> bool:
    """Whether an object can have this name."""
    return not _problem(name)


def path_in(folder: Path, name: str) -> Path:
    """The file or folder of an object.  Raises NameRefused."""
    check_name(name)
    return folder.joinpath(*name.rstrip("/").split("/"))


def digest(name: str) -> str:
    """A text of fixed length that stands for a name of any shape."""
    return hashlib.sha256(name.encode()).hexdigest()


def _problem(name: str) -> str:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if not 0 < size <= NAME_BYTES_MAX:
        return f"it has {size} bytes; 1 to {NAME_BYTES_MAX} are accepted"
    if {"\0", "\r", "\n"}.intersection(name):
        return "it has a line end or a NUL character"
    return next(filter(None, map(_part_problem, name.removesuffix("/").split("/"))), "")


def _part_problem(part: str) -> str:
    if not part:
        return "objects are files here, so no part between slashes may be empty"
    if part in (".", ".."):
        return "objects are files here, so no part between slashes may be '.' or '..'"
    if len(part.encode()) > PART_BYTES_MAX:
        return f"objects are files here: at most {PART_BYTES_MAX} bytes between slashes"
    if part.startswith(RESERVED_PREFIX):
        return f"names that begin with {RESERVED_PREFIX} are kept for unfinished files"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Which names are wanted: with ``prefix``, from ``start`` on, before ``end`` if not empty.

    With ``folders`` nothing below a folder is listed that lies below the prefix; the folder stands
    for it (the delimiter ``/``).
    """

    prefix: str = ""
    start: bytes = b""
    end: bytes = b""
    folders: bool = False

    def may_hold(self, folder: str) -> bool:
        """Whether a folder (``a/b/``) can have wanted names below it."""
        raw, prefix = folder.encode(), self.prefix
        after = raw[:-1] + b"0"  # the character behind the slash
        inside = folder.startswith(prefix) or prefix.startswith(folder)
        return inside and after > self.start and not (self.end and raw >= self.end)

    def wants(self, name: str) -> bool:
        """Whether an object is wanted."""
        raw = name.encode()
        in_order = raw >= self.start and not (self.end and raw >= self.end)
        return in_order and name.startswith(self.prefix)

    def groups(self, folder: str) -> bool:
        """Whether a folder stands for what is below it."""
        return self.folders and folder.startswith(self.prefix) and folder != self.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One bucket's folder; ``is_placeholder`` says which folders are objects themselves."""

    root: Path
    is_placeholder: Callable[[str], bool]

    def names(self, bounds: Bounds, folder: str = "") -> Iterator[str]:
        """Wanted objects, and with ``bounds.folders`` the folders that stand for some."""
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
            with os.scandir(self.root / folder) as entries:
                found = [name for entry in entries if (name := self._name(folder, entry))]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []  # it went away meanwhile, or its owner keeps it to himself
        return sorted(found, key=os.fsencode)

    def _name(self, folder: str, entry: os.DirEntry[str]) -> str:
        if entry.is_dir(follow_symlinks=False):
            name = f"{folder}{entry.name}/"
        elif entry.is_file() and (not entry.is_symlink() or inside(self.root, Path(entry.path))):
            name = f"{folder}{entry.name}"
        else:
            return ""
        return name if is_object_name(name) else ""


def inside(root: Path, path: Path) -> bool:
    """Whether a path, all links followed, lies in the folder; False where a link loops."""
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


class NoSuchObject(Exception):
    """There is no object of this name; the message names it."""


def find(folder: Path, name: str) -> Path:
    """The file or folder of an object that is there.

    Raises NoSuchObject for what is not there, is no regular file, or lies behind a link that leads
    out of the bucket or into a folder.
    """
    try:
        path = path_in(folder, name)
        mode = path.stat().st_mode
    except (NameRefused, OSError):
        raise NoSuchObject(f"No such object: {folder.name}/{name}") from None
    wanted = stat.S_ISDIR(mode) if name.endswith("/") else stat.S_ISREG(mode)
    stays = not path.is_symlink() or inside(folder, path)
    if wanted and stays and has_no_links(folder, path.parent):
        return path
    raise NoSuchObject(f"No such object: {folder.name}/{name}")


def has_no_links(folder: Path, below: Path) -> bool:
    """Whether no folder on the way is a link."""
    on_the_way = below.relative_to(folder)
    return Path(os.path.realpath(below)) == Path(os.path.realpath(folder)) / on_the_way


def make_room(walk: Walk, name: str) -> Path:
    """The path for a new object, its folders made.  Raises NameRefused where something is there.

    Empty folders that are in the way are what is left of objects deleted before.
    """
    folder = walk.root
    path = path_in(folder, name)
    parent = path if name.endswith("/") else path.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _taken(name, "another object has the name of one of its folders") from None
    if not has_no_links(folder, parent):
        raise _taken(name, "a link is in the way")
    in_the_way = parent is not path and path.is_dir() and not path.is_symlink()
    if in_the_way and not (walk.is_empty(f"{name}/") and _cleared(path)):
        raise _taken(name, "there are objects below it, so it is a folder")
    return path


def _taken(name: str, why: str) -> NameRefused:
    return NameRefused(f"Invalid object name {name!r}: objects are files here, and {why}")


def _cleared(folder: Path) -> bool:
    """Remove a tree of empty folders; False, and nothing is removed, where it holds a file."""
    tree = list(os.walk(folder, topdown=False))
    if any(files for _, _, files in tree):
        return False
    for each, _, _ in tree:
        Path(each).rmdir()
    return True


def place(file: Path, path: Path) -> None:
    """Move a finished file to where its object lies, for good when this returns."""
    with file.open("rb") as written:
        os.fsync(written.fileno())
    try:
        file.rename(path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _place_across_file_systems(file, path)  # the bucket is on another file system
    _sync(path.parent)


def _place_across_file_systems(file: Path, path: Path) -> None:
    near = path.with_name(f"{RESERVED_PREFIX}{secrets.token_hex(8)}")
    try:
        shutil.copy2(file, near)
        with near.open("rb") as written:
            os.fsync(written.fileno())
        near.rename(path)
    finally:
        near.unlink(missing_ok=True)
    file.unlink()


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
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
    """Something that the caller wanted to be true is not; the message says what."""


def check_conditions(wanted: Conditions, found: StoredObject | None) -> None:
    """Raise ConditionFailed, or NoSuchObject where another revision is meant."""
    generation = found.generation if found else 0
    metageneration = found.metageneration if found else 0
    if wanted.revision not in (None, generation):
        raise NoSuchObject(f"No such object: its generation is not {wanted.revision}")
    failed = {
        "ifGenerationMatch": wanted.generation not in (None, generation),
        "ifGenerationNotMatch": wanted.generation_not == generation,
        "ifMetagenerationMatch": wanted.metageneration not in (None, metageneration),
        "ifMetagenerationNotMatch": wanted.metageneration_not == metageneration,
    }
    if missed := [name for name, has in failed.items() if has]:
        raise ConditionFailed(
            "At least one of the pre-conditions you specified did not hold: "
            f"{', '.join(missed)}; the object's generation is {generation}, "
            f"its metageneration {metageneration}."
        )
