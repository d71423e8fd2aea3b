"""The archives that nodes run from: one for launcher and wardens, one with the trainer library.

Both are made of this installation's sources alone, named by what is in them, and the same whenever
they are made.  A node needs Python 3.9 and nothing else: what is newer in our sources is rewritten
(``archive_syntax``).
"""

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
from trainshed.engines.warden.archive_syntax import imports_of, rewritten

#: What is taken as it is.
_OLDER: Final = (
    "trainshed.engines.warden.older",
    "trainshed.engines.warden.older_dataclasses",
)
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
    files = dict(_modules("trainshed.engines.warden.started", *_OLDER))
    files["__main__.py"] = files.pop(_MAIN)
    folder = Path(tomllib.__file__).parent  # 3.9 and 3.10 have none; it is plain Python
    for path in sorted(folder.glob("*.py")):
        files[f"{NEWER}/tomllib/{path.name}"] = rewritten(path.read_text(), path.name).encode()
    return _archive("warden-{}.pyz", files)


@cache
def library() -> Archive:
    """``library-HASH.zip``, for the PYTHONPATH of programs."""
    files = dict(_modules("trainshed.reduction.__main__", *_OLDER))
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


def _modules(*first: str) -> Iterator[tuple[str, bytes]]:
    """Our modules that these import, wherever in their code, and the packages that they lie in."""
    waiting, modules = list(first), set(first)
    while waiting:
        name = waiting.pop()
        path = _path_of(name)
        if path is None:
            continue
        source = path.read_text(encoding="utf-8")
        text = source if name in _OLDER else rewritten(source, str(path))
        yield _place_of(name, path), text.encode()
        above = name.rpartition(".")[0]
        for module in {above, *imports_of(source, str(path))} - modules:
            if module.partition(".")[0] == "trainshed":
                modules.add(module)
                waiting.append(module)


def _path_of(name: str) -> Path | None:
    """The source of a module; None for what is a name in one."""
    base = Path(trainshed.__file__).parent.parent / name.replace(".", "/")
    places = (base / "__init__.py", base.with_suffix(".py"))
    return next((place for place in places if place.is_file()), None)


def _place_of(name: str, path: Path) -> str:
    base = name.replace(".", "/")
    return f"{base}/__init__.py" if path.name == "__init__.py" else f"{base}.py"
