"""Reads and writes files of the data directory: secrets, and the address of the running server.

Several servers may write these files at once.  So a file is written under another name, with O_EXCL
and a mode independent of the umask, and is renamed when it is complete.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from trainshed.model.faults import UsageFault

#: The mode of files that only their owner may read.
PRIVATE = 0o600
#: The mode of files that every user may read: certificates, addresses.
PUBLIC = 0o644

_LOCK = "first-start.lock"
_INSTALLATION = "installation"
_WORD = re.compile("[a-z0-9]{1,32}")


def write_file(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Write a file durably; replace an existing file."""
    with _draft(path, content, mode) as draft:
        draft.replace(path)


def write_first(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Write a file durably, unless it exists: the first writer wins."""
    with _draft(path, content, mode) as draft:
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()


@contextmanager
def _draft(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """Write the complete file under another name, and yield that path; remove it on an error."""
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
    """Make a folder and lock it, so that only one server at a time makes its first files."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # releases the lock


@contextmanager
def hold_folder(folder: str | Path, *, waits: bool = True) -> Iterator[None]:
    """Lock a folder itself, without a lock file in it.

    Raises BlockingIOError if another process holds it and ``waits`` is False.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


FILE = "server.json"
ADMIN_FILE = "admin-token"
#: The file with the URL of the last server's database; missing for a database in the directory.
DATABASE_FILE = "database-url"
#: A file that only backups contain.
BACKUP_FILE = "backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """The addresses of a server: ``url`` for HTTP, ``grpc`` as HOST:PORT, None without gRPC."""

    url: str
    grpc: str | None
    pid: int
    anonymous: bool
    ca: str | None
    """The path of a bundle of the server's CA and the public CAs; None without TLS."""

    @property
    def is_alive(self) -> bool:
        """Whether the process of the server exists.

        Commands send no token to the address of a stopped server, because another program may use
        its port.
        """
        if self.pid <= 0:
            return False  # os.kill would signal a whole group
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except (ProcessLookupError, OverflowError):
            return False
        return True


def write_running(data_dir: Path, server: RunningServer) -> None:
    """Write the server's addresses for commands; replaces those of an earlier server."""
    text = json.dumps(asdict(server), indent=2) + "\n"
    write_file(data_dir / FILE, text.encode(), PUBLIC)


def read_running(data_dir: Path) -> RunningServer | None:
    """Return the server that started last, running or not; None if there was none."""
    try:
        document = json.loads((data_dir / FILE).read_text("utf-8"))
        return RunningServer(
            url=str(document["url"]).rstrip("/"),
            grpc=document.get("grpc"),
            pid=int(document["pid"]),
            anonymous=document.get("anonymous") is True,
            ca=document.get("ca"),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # another program's file, or incomplete because the disk was full


def forget_running(data_dir: Path, pid: int) -> None:
    """Remove the addresses of a server that stops, unless a newer server has written its own."""
    running = read_running(data_dir)
    if running is not None and running.pid == pid:
        (data_dir / FILE).unlink(missing_ok=True)


def note_database(data_dir: Path, url: str | None) -> None:
    """Write the URL of the server's database for commands; None for one in the data directory.

    The file is private, because the URL may contain a password.
    """
    path = data_dir / DATABASE_FILE
    if url is None:
        path.unlink(missing_ok=True)
    else:
        write_file(path, f"{url}\n".encode())


def read_database(data_dir: Path) -> str | None:
    """Return the database URL of the last server; None for one in the data directory."""
    return read_token(data_dir / DATABASE_FILE)


def installation(data_dir: Path) -> str:
    """Return a random word of letters and digits that identifies a data directory; made once."""
    path = data_dir / _INSTALLATION
    if not path.exists():
        with alone_in(data_dir):
            write_first(path, os.urandom(4).hex().encode())
    word = path.read_text("utf-8").strip()
    if not _WORD.fullmatch(word):
        raise UsageFault(
            f"{path} must contain 1 to 32 lower-case letters and digits, got {word[:40]!r}"
        )
    return word


def read_token(path: Path) -> str | None:
    """Return the only line of a file, such as a token; None if it is missing or empty."""
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
