"""The archives that nodes run from: one for launcher and wardens, one with the trainer library.

Both are made of this installation's sources alone, named by a hash of their content, and the same
whenever they are made.  A node needs Python 3.9 and nothing else, so these sources are written for
3.9 (pyproject.toml lists them).  Only their annotations are newer: Python does not evaluate them.
"""

import ast
import hashlib
import io
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import trainshed
import trainshed_trainer

#: Begins every module, on its first line so that the numbers of lines stay.  Without it Python 3.9
#: would evaluate annotations such as ``int | None`` and fail.
_DEFERS_ANNOTATIONS: Final = b"from __future__ import annotations; "
_MAIN: Final = "trainshed/engines/warden/started.py"
#: The earliest that a zip file can name.
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = 0o644 << 16
_DIGITS: Final = 16
#: Where modules of a newer standard library lie; after that of the node.
NEWER: Final = "newer"


class Archive(NamedTuple):
    """A file for nodes."""

    name: str
    data: bytes


@cache
def build() -> Archive:
    """``warden-HASH.pyz``: ``python -I -S ARCHIVE attempt FOLDER`` and ``... task``."""
    files = dict(_modules("trainshed.engines.warden.started"))
    files["__main__.py"] = files.pop(_MAIN)
    folder = Path(tomllib.__file__).parent  # 3.9 and 3.10 have none; it is plain Python
    for path in sorted(folder.glob("*.py")):
        files[f"{NEWER}/tomllib/{path.name}"] = path.read_bytes()
    return _archive("warden-{}.pyz", files)


@cache
def library() -> Archive:
    """``library-HASH.zip``, for the PYTHONPATH of programs."""
    files = dict(_modules("trainshed.reduction.__main__"))
    root = Path(trainshed_trainer.__file__).parent
    for path in sorted(root.rglob("*.py")):
        files[f"trainshed_trainer/{path.relative_to(root)}"] = path.read_bytes()
    return _archive("library-{}.zip", files)


def _archive(name: str, files: Mapping[str, bytes]) -> Archive:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _DATE)
            entry.external_attr = _MODE
            archive.writestr(entry, files[path])
    data = target.getvalue()
    return Archive(name.format(hashlib.sha256(data).hexdigest()[:_DIGITS]), data)


def _modules(first: str) -> Iterator[tuple[str, bytes]]:
    """List the modules of ours that one imports, wherever in their code, and their packages."""
    waiting, modules = [first], {first}
    while waiting:
        name = waiting.pop()
        path = _path_of(name)
        if path is None:
            continue
        source = path.read_bytes()
        yield _place_of(name, path), _DEFERS_ANNOTATIONS + source
        above = name.rpartition(".")[0]
        for module in {above, *list_imports(source)} - modules:
            if module.partition(".")[0] == "trainshed":
                modules.add(module)
                waiting.append(module)


def list_imports(source: str | bytes) -> set[str]:
    """List the modules that a program may import, wherever in it; some may be names in modules."""
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


def _path_of(name: str) -> Path | None:
    """The source of a module; None for what is a name in one."""
    base = Path(trainshed.__file__).parent.parent / name.replace(".", "/")
    places = (base / "__init__.py", base.with_suffix(".py"))
    return next((place for place in places if place.is_file()), None)


def _place_of(name: str, path: Path) -> str:
    base = name.replace(".", "/")
    return f"{base}/__init__.py" if path.name == "__init__.py" else f"{base}.py"
