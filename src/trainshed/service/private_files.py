"""Files of the data directory that several servers may make at once, and that hold secrets.

A file appears under its name only when it is complete, and its mode is right from the first byte:
it is made under another name with O_EXCL and its mode set whatever the umask is, then renamed.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Only its owner reads it.
PRIVATE = 0o600
#: Everybody may read it: certificates, addresses.
PUBLIC = 0o644

_LOCK = "first-start.lock"


def write_file(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Put a file in its place, durably, instead of what may be there."""
    with _draft(path, content, mode) as draft:
        draft.replace(path)


def write_first(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Put a file in its place, durably, unless there is one: whoever comes first has its way."""
    with _draft(path, content, mode) as draft:
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()


@contextmanager
def _draft(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """The complete file under another name, which is gone whatever happens."""
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
            os.fchmod(handle, mode)
            file.write(content)
            file.flush()
            os.fsync(handle)
        yield draft
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Be the only server that makes the first files of the folder; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # gives the lock back
