"""Lists the modules in a program's own folders.

If a program cannot import one of these modules, the cause is a mistake in the program and not a
missing package.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Final

_SUFFIX: Final = ".py"
#: Maximum of folder entries to read.  A program's own modules are far fewer, but installed packages
#: may be in the same folder.
_ENTRIES_MAX: Final = 10_000


def program_folders(cwd: str, env: Mapping[str, str], readable: Sequence[str] = ()) -> list[str]:
    """List the working folder and the folders on PYTHONPATH that the program may read.

    ``readable`` are the folders that an isolated program may read; leave out all other folders,
    because the supervisor itself may read more.  Empty: the program is not isolated.
    """
    entries = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    folders = [cwd, *(os.path.join(cwd, entry) for entry in entries)]
    roots = tuple(os.path.join(os.path.realpath(root), "") for root in readable)
    return [
        folder
        for folder in folders
        if not roots or os.path.join(os.path.realpath(folder), "").startswith(roots)
    ]


def list_own_modules(folders: Iterable[str]) -> frozenset[str]:
    """List the names of modules in the folders, and in the folders one level below.

    Leave out folders that cannot be read, and entries beyond the first 10,000.
    """
    names = (
        entry.name.removesuffix(_SUFFIX)
        for _, entry in _walk(folders, depth=1)
        if entry.name.endswith(_SUFFIX) or _is_package(entry)
    )
    return frozenset(names)


def list_runnable_modules(folders: Iterable[str]) -> frozenset[str]:
    """List the dotted names that ``python -m`` can run in the folders, at most two levels deep.

    Leave out folders that cannot be read, and entries beyond the first 10,000.
    """
    names = (_runnable_name(package, entry) for package, entry in _walk(folders, depth=2))
    return frozenset(filter(None, names))


def _walk(folders: Iterable[str], depth: int) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Yield (package prefix, entry) for the entries of the folders and of packages below them.

    ``depth`` is the number of levels of packages to enter.
    """
    entries = chain.from_iterable(_list_entries(folder, "", depth) for folder in folders)
    return islice(entries, _ENTRIES_MAX)


def _list_entries(
    folder: str, package: str, depth: int
) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            yield package, entry
            if depth and _is_package(entry):
                yield from _list_entries(entry.path, f"{package}{entry.name}.", depth - 1)


def _is_package(entry: "os.DirEntry[str]") -> bool:
    return entry.name.isidentifier() and entry.is_dir(follow_symlinks=False)


#: Modules that a job does not run with ``python -m``.
_NOT_RUN: Final = frozenset({"__init__", "setup", "conftest"})


def _runnable_name(package: str, entry: "os.DirEntry[str]") -> str:
    """Return the name of a module for ``python -m``; empty if the entry is not such a module."""
    name, suffix = os.path.splitext(entry.name)
    if suffix != _SUFFIX or not name.isidentifier() or name in _NOT_RUN:
        return ""
    return package.rstrip(".") if name == "__main__" else f"{package}{name}"
