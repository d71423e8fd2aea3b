"""Databases of tests: a copy of one that has its tables, which take longer than most tests."""

import functools
import tempfile
from pathlib import Path

from trainshed.store.opening import open_store


@functools.cache
def empty_database() -> bytes:
    """What a store makes of a new file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "empty.db")
        open_store(f"sqlite:///{path}").close()
        return path.read_bytes()


def new_database(folder: Path) -> str:
    """The URL of a store of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainshed.db"
    path.write_bytes(empty_database())
    return f"sqlite:///{path}"
