"""What a server leaves in its data directory for commands: where it is, and the first token."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from trainshed.service.private_files import PUBLIC, write_file

FILE = "server.json"
ADMIN_FILE = "admin-token"


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
        """Whether its process is there.

        Nobody sends a token to the address of a dead one: the port may be somebody else's by now.
        """
        if self.pid <= 0:
            return False  # to os.kill that would be a whole group
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except (ProcessLookupError, OverflowError):
            return False
        return True


def write_running(data_dir: Path, server: RunningServer) -> None:
    """Tell commands where the server is.  The newest server of a data directory is the one."""
    text = json.dumps(asdict(server), indent=2) + "\n"
    write_file(data_dir / FILE, text.encode(), PUBLIC)


def read_running(data_dir: Path) -> RunningServer | None:
    """The server that was started last, dead or alive; None where none was."""
    try:
        found = json.loads((data_dir / FILE).read_text("utf-8"))
        return RunningServer(
            url=str(found["url"]).rstrip("/"),
            grpc=found.get("grpc"),
            pid=int(found["pid"]),
            anonymous=found.get("anonymous") is True,
            ca=found.get("ca"),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # not ours, or torn by a full disk: as if there were none


def forget_running(data_dir: Path, pid: int) -> None:
    """Take the note away when a server ends in order, unless a newer server wrote its own."""
    found = read_running(data_dir)
    if found is not None and found.pid == pid:
        (data_dir / FILE).unlink(missing_ok=True)


def read_token(path: Path) -> str | None:
    """The token of a file; None for a file that is missing or empty."""
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
