"""Digests the files of a trainer, so that its calibration is not used for another one."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

#: The suffixes of a program's files; data and results beside them may change.
_CODE: Final = frozenset({".py", ".sh", ".yaml", ".yml", ".toml", ".cfg"})
_FILES_MAX: Final = 2000
_FOLDERS_MAX: Final = 10_000
_BYTES_MAX: Final = 10_000_000
_PIECE_BYTES: Final = 1 << 20


class CodeFile(NamedTuple):
    """A file of a trainer as it was read."""

    name: str
    """The path relative to the file or folder that the caller named."""
    path: Path
    digest: bytes


def trainer_digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the code in files and folders; empty without any file."""
    return digest_of(code_files(paths))


def code_files(paths: Iterable[Path]) -> tuple[CodeFile, ...]:
    """Read files and the code below each folder: up to 2,000 files of 10 MB in 10,000 folders."""
    return tuple(
        CodeFile(
            str(path.relative_to(root) if path != root else path.name), path, _digest_file(path)
        )
        for root in paths
        for path in _code(root)
    )


def digest_of(files: Sequence[CodeFile]) -> str:
    """Return the digest of files that were read."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0".encode("utf-8", "surrogateescape"))
        digest.update(file.digest)
    return digest.hexdigest() if files else ""


def changed(files: Iterable[CodeFile]) -> Path | None:
    """Return the first changed file.  New files do not count: a trainer may write some."""
    return next((file.path for file in files if not _is_unchanged(file)), None)


def _is_unchanged(file: CodeFile) -> bool:
    try:
        return _digest_file(file.path) == file.digest
    except OSError:
        return False


def _code(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    folders = iter(range(_FOLDERS_MAX))
    yield from islice(_below(root, folders), _FILES_MAX)


def _below(folder: Path, folders: Iterator[int]) -> Iterator[Path]:
    """Yield the code of a folder in the order of names, until ``folders`` is exhausted."""
    if next(folders, None) is None:
        return
    for name, is_folder in sorted(_list_folder(folder)):
        path = folder / name
        if is_folder:
            yield from _below(path, folders)
        elif path.suffix in _CODE and path.is_file():
            yield path


def _list_folder(folder: Path) -> list[tuple[str, bool]]:
    """Return the names in a folder, and whether each is a folder; empty if it is unreadable."""
    try:
        with os.scandir(folder) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []


def _digest_file(path: Path) -> bytes:
    """Return the digest of a file's first bytes, read in pieces because files may be large."""
    digest, left = hashlib.sha256(), _BYTES_MAX
    with path.open("rb") as file:
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            digest.update(piece)
            left -= len(piece)
    return digest.digest()
