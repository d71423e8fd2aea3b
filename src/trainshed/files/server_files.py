"""Files of the data directory: secrets, and the address of the running server.

Several servers may make them at once.  A file gets its name only when it is complete, and has its
mode from the first byte: it is made under another name with O_EXCL and its mode, independent of the
umask, and then renamed.
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

#: Only its owner reads it.
PRIVATE = 0o600
#: The mode of files that every user may read: certificates, addresses.
PUBLIC = 0o644

_LOCK = "first-start.lock"
_INSTALLATION = "installation"
_WORD = re.compile("[a-z0-9]{1,32}")


def write_file(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Write a file durably; replaces an existing one."""
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
    """Write the complete file under another name, which is removed in any case."""
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
    """Make the folder, and be the only server that makes its first files."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # gives the lock back


@contextmanager
def hold_folder(folder: str | Path, *, waits: bool = True) -> Iterator[None]:
    """Hold the lock on a folder itself, which needs no file in it.

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
#: The URL of the database that the last server used; missing where that is in the directory.
DATABASE_FILE = "database-url"
#: Only backups have it.
BACKUP_FILE = "backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """How clients reach a server: ``url`` for HTTP, ``grpc`` as HOST:PORT (None: not offered)."""

    url: str
    grpc: str | None
    pid: int
    anonymous: bool
    ca: str | None
    """A bundle of our CA and the public ones, for gRPC and https."""

    @property
    def is_alive(self) -> bool:
        """Whether its process exists.

        Commands send no token to the address of an ended server: another program may have its port.
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
    """Write the server's address for commands; the newest server of a data directory wins."""
    text = json.dumps(asdict(server), indent=2) + "\n"
    write_file(data_dir / FILE, text.encode(), PUBLIC)


def read_running(data_dir: Path) -> RunningServer | None:
    """Return the server that was started last, running or not; None if there was none."""
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
        return None  # of another program, or incomplete because of a full disk: treated as missing


def forget_running(data_dir: Path, pid: int) -> None:
    """Remove the address when a server shuts down, unless a newer server wrote its own."""
    running = read_running(data_dir)
    if running is not None and running.pid == pid:
        (data_dir / FILE).unlink(missing_ok=True)


def note_database(data_dir: Path, url: str | None) -> None:
    """Write the URL of the server's database for commands; None means its own file.

    The URL may hold a password.
    """
    path = data_dir / DATABASE_FILE
    if url is None:
        path.unlink(missing_ok=True)
    else:
        write_file(path, f"{url}\n".encode())


def read_database(data_dir: Path) -> str | None:
    """Return the database URL that the last server of a data directory got; None if it got none."""
    return read_token(data_dir / DATABASE_FILE)


def installation(data_dir: Path) -> str:
    """Return a short word of letters and digits that only this data directory has; made once."""
    path = data_dir / _INSTALLATION
    if not path.exists():
        with alone_in(data_dir):
            write_first(path, os.urandom(4).hex().encode())
    word = path.read_text("utf-8").strip()
    if not _WORD.fullmatch(word):
        raise UsageFault(f"{path} is damaged; it holds 1 to 32 lower-case letters and digits")
    return word


def read_token(path: Path) -> str | None:
    """The one line of a file, such as a token; None for a file that is missing or empty."""
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
