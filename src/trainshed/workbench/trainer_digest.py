"""Which trainer was measured: a digest of its files, so that another one is not planned with it."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

#: What a program consists of; data and results beside it may change.
_CODE: Final = frozenset({".py", ".sh", ".yaml", ".yml", ".toml", ".cfg"})
_FILES_MAX: Final = 2000
_BYTES_MAX: Final = 10_000_000


def trainer_digest(places: Iterable[Path]) -> str:
    """SHA-256 of the code in files and folders, by name and content; empty for none.

    A folder counts with the code below it, up to 2000 files of 10 MB.
    """
    digest, count = hashlib.sha256(), 0
    for root in places:
        for path in _code(root):
            name = path.relative_to(root) if path != root else path.name
            digest.update(f"{name}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()[:_BYTES_MAX]).digest())
            count += 1
    return digest.hexdigest() if count else ""


def _code(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    found = (path for path in sorted(root.rglob("*")) if path.suffix in _CODE and path.is_file())
    for number, path in enumerate(found):
        if number >= _FILES_MAX:
            return
        yield path
