"""The names of the modules that lie in a program's own folders.

A failed import of one of them is a mistake in the program, not a package that is missing.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

_SUFFIX: Final = ".py"
#: A package installs its dependencies beside it: the program's own modules come long before these.
_ENTRIES_MAX: Final = 2000


def list_own_modules(cwd: str, env: Mapping[str, str]) -> frozenset[str]:
    """Names of modules in the working folder, on PYTHONPATH, and one folder below each.

    Folders that cannot be read, and entries beyond the first 2000, are left out.
    """
    folders = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    names = (name for folder in folders for name in _list_modules(folder, depth=1))
    return frozenset(islice(names, _ENTRIES_MAX))


def list_runnable_modules(cwd: str, env: Mapping[str, str]) -> frozenset[str]:
    """Dotted names that ``python -m`` can run, in the working folder and on PYTHONPATH.

    Two levels deep; the same is left out as above.
    """
    folders = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    names = (name for folder in folders for name in _list_runnable(folder, "", depth=2))
    return frozenset(islice(names, _ENTRIES_MAX))


def _list_runnable(folder: str, package: str, depth: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name, suffix = os.path.splitext(entry.name)
            if entry.is_dir(follow_symlinks=False):
                if depth and entry.name.isidentifier():
                    yield from _list_runnable(entry.path, f"{package}{name}.", depth - 1)
            elif suffix == _SUFFIX and name == "__main__":
                yield package.rstrip(".")
            elif suffix == _SUFFIX and name.isidentifier() and name not in _NOT_RUN:
                yield f"{package}{name}"


#: Modules that no job names.
_NOT_RUN: Final = frozenset({"__init__", "setup", "conftest"})


def _list_modules(folder: str, depth: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name.isidentifier():
                    yield entry.name
                    yield from _list_modules(entry.path, depth - 1) if depth else ()
            elif entry.name.endswith(_SUFFIX):
                yield entry.name.removesuffix(_SUFFIX)
