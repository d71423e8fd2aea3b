"""The objects of a bucket in the order of the storage API: by the bytes of their whole names.

A folder sorts where its objects do, behind ``a-b`` and before ``a0``, which is why folders are
sorted with their slash.  Links are followed to files inside the bucket and nowhere else: a link to
a folder would give one file two names, or none an end.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from trainshed.storage.object_names import is_object_name


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
