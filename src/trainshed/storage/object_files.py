"""Files of objects: found without leaving the bucket, put in place whole or not at all."""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from trainshed.model.stored_objects import Conditions, StoredObject
from trainshed.storage.object_names import RESERVED_PREFIX, NameRefused, digest, path_in
from trainshed.storage.object_walk import Walk, inside


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
