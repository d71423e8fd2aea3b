"""Builds the archives for nodes: one with launcher and warden, one with the trainer library.

Both contain only sources of this installation and are named by a hash of their content.  Every
build gives the same bytes.  A node needs nothing but Python 3.9, so these sources are written for
3.9 (pyproject.toml lists them).  Only their annotations are newer: Python does not evaluate them.
"""

import ast
import hashlib
import io
import re
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import trainshed
import trainshed_trainer

#: Begins every module, on its first line so that line numbers do not change.  Without it, Python
#: 3.9 would evaluate annotations such as ``int | None`` and fail.
_DEFERS_ANNOTATIONS: Final = b"from __future__ import annotations; "
#: An import for annotations alone, which nodes do not need: with it, a reaper would keep typing and
#: re in memory as long as its attempt runs.
_FOR_ANNOTATIONS: Final = re.compile(
    rb"^from typing import (Final|NoReturn)(, (Final|NoReturn))*$", re.MULTILINE
)
#: Imports of ``collections.abc``: Python imports collections for them, and then this module, which
#: it has imported at its start.
_ABSTRACT: Final = (b"from collections.abc import ", b"from _collections_abc import ")
_MAIN: Final = "trainshed/engines/warden/started.py"
#: The earliest date of an entry in a zip file.
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = 0o644 << 16
_DIGITS: Final = 16
#: The folder with modules of a newer standard library, used only if the node's Python lacks them.
NEWER: Final = "newer"


class Archive(NamedTuple):
    """A file for nodes."""

    name: str
    data: bytes


@cache
def build() -> Archive:
    """Build ``warden-HASH.pyz``, for ``python -I -S ARCHIVE attempt FOLDER`` and ``... task``."""
    files = dict(_list_modules("trainshed.engines.warden.started"))
    files["__main__.py"] = files.pop(_MAIN)
    folder = Path(tomllib.__file__).parent  # Python 3.9 and 3.10 lack this module
    for path in sorted(folder.glob("*.py")):
        files[f"{NEWER}/tomllib/{path.name}"] = path.read_bytes()
    return _make_archive("warden-{}.pyz", files)


@cache
def library() -> Archive:
    """Build ``library-HASH.zip``, for the PYTHONPATH of programs."""
    files = dict(_list_modules("trainshed.reduction.__main__"))
    root = Path(trainshed_trainer.__file__).parent
    for path in sorted(root.rglob("*.py")):
        files[f"trainshed_trainer/{path.relative_to(root)}"] = path.read_bytes()
    return _make_archive("library-{}.zip", files)


def _make_archive(name: str, files: Mapping[str, bytes]) -> Archive:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _DATE)
            entry.external_attr = _MODE
            archive.writestr(entry, files[path])
    data = target.getvalue()
    return Archive(name.format(hashlib.sha256(data).hexdigest()[:_DIGITS]), data)


def _list_modules(first: str) -> Iterator[tuple[str, bytes]]:
    """Yield (path, source) of each module of Trainshed that a module imports, and of its packages.

    Imports inside functions count too, and so do the imports of imported modules.
    """
    waiting, modules = [first], {first}
    while waiting:
        name = waiting.pop()
        path = _find_source(name)
        if path is None:
            continue
        source = path.read_bytes()
        yield _archive_path(name, path), _DEFERS_ANNOTATIONS + _lighten(source)
        package = name.rpartition(".")[0]
        for module in {package, *list_imports(source)} - modules:
            if module.partition(".")[0] == "trainshed":
                modules.add(module)
                waiting.append(module)


def _lighten(source: bytes) -> bytes:
    """Replace imports that need memory on nodes for as long as an attempt runs."""
    return _FOR_ANNOTATIONS.sub(b"", source).replace(*_ABSTRACT)


def list_imports(source: str | bytes) -> set[str]:
    """List the modules that a program may import; some of the names may not be modules."""
    modules: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
        waiting += ast.iter_child_nodes(node)
    return modules


def _find_source(name: str) -> Path | None:
    """Find the source file of a module; None if the name is not a module."""
    base = Path(trainshed.__file__).parent.parent / name.replace(".", "/")
    paths = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in paths if path.is_file()), None)


def _archive_path(name: str, path: Path) -> str:
    base = name.replace(".", "/")
    return f"{base}/__init__.py" if path.name == "__init__.py" else f"{base}.py"
