"""Databases of tests: copies of one with tables, because making tables takes longer than most
tests."""

import functools
import tempfile
from pathlib import Path

from trainshed.store.opening import open_store


@functools.cache
def empty_database() -> bytes:
    """Return the bytes of a database file that has the store's tables and no rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "empty.db")
        open_store(f"sqlite:///{path}").close()
        return path.read_bytes()


def new_database(folder: Path) -> str:
    """Return the URL of a new database."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainshed.db"
    path.write_bytes(empty_database())
    return f"sqlite:///{path}"
