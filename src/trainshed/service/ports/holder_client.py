"""A server's connection to the holder of its data directory: finds it, or starts it."""

import fcntl
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trainshed
from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.engines.processes.secret import new_secret
from trainshed.engines.supervise.record.folder import short_path
from trainshed.files.server_files import PRIVATE, write_file
from trainshed.service.ports import holder

#: The holder's socket, its identity with its secret, and the lock of the server that starts one.
SOCKET, NOTE, _LOCK = "ports", "ports.json", "ports.lock"
#: How long a server waits for a place in the holder's queue, and for an answer: a job that is the
#: same user may fill the queue, and the holder turns its connections away one by one.
_CALL_S_MAX: Final = 30.0
_ANSWER_S_MAX: Final = 15.0
#: How long an ended holder may take until the kernel has its exit status.
_EXIT_S_MAX: Final = 1.0
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1])\n"
    "from trainshed.service.ports.holder import main\n"
    "main()"
)
#: Where a Python may need to look for its libraries.
_LIBRARIES: Final = "LD_LIBRARY_PATH"
_BEHIND_STANDARD: Final = 3
_TIMEVAL: Final = struct.Struct("ll")


class HolderClient:
    """One connection.  After a failure each call fails, until the caller connects again."""

    def __init__(self, channel: socket.socket, child: int | None = None) -> None:
        """``child`` is the process id of the holder if this process started it."""
        self._channel = channel
        self._child = child

    def fileno(self) -> int:
        """Return a descriptor of which poll(2) reports POLLHUP when the connection has ended."""
        return self._channel.fileno()

    def keep(self, role: str, listener: socket.socket) -> None:
        """Have the holder keep a duplicate of a listening socket.  Raises OSError."""
        holder.send(self._channel, {"do": holder.KEEP, "role": role}, listener)

    def take(self, role: str, host: str, port: int) -> socket.socket | None:
        """Return the socket of an earlier server; port 0 is any.  Raises OSError."""
        _, sockets = self._ask(holder.TAKE, role=role, host=host, port=port)
        return sockets[0] if sockets else None

    def end(self) -> bool:
        """Release the sockets; return whether they stay open because jobs run on.

        Raises OSError.
        """
        answer, _ = self._ask(holder.END)
        return bool(answer.get("held"))

    def close(self) -> None:
        """Close the connection; the holder continues while jobs run."""
        self._channel.close()

    def close_ended(self) -> None:
        """Close the connection to a holder that has ended, and reap a child process."""
        self.close()
        if self._child is not None:
            _collect(self._child)

    def _ask(self, do: str, **fields: object) -> tuple[dict[str, Any], list[socket.socket]]:
        """Send a request.

        A failure closes the connection, so that a late response is never read.
        """
        try:
            holder.send(self._channel, {"do": do, **fields})
            return holder.receive(self._channel)
        except (OSError, ValueError, TypeError) as error:
            with suppress(OSError):
                self._channel.shutdown(socket.SHUT_RDWR)
            raise OSError(
                f"the holder of ports does not answer ({type(error).__name__})"
            ) from error


def connect(data_dir: Path) -> HolderClient:
    """Connect to the holder of a data directory; start it if there is none.  Raises OSError."""
    with _hold_lock(data_dir):
        return _connect_noted(data_dir) or _start_holder(data_dir)


def noted_holder(data_dir: Path) -> Identity | None:
    """Return the noted holder, alive or not; None if no server has started one."""
    note = _read_note(data_dir)
    return note and note[0]


def forget_holder(data_dir: Path) -> None:
    """Note that this data directory has no holder.  Raises OSError."""
    (data_dir / NOTE).unlink(missing_ok=True)


def _read_note(data_dir: Path) -> tuple[Identity, str] | None:
    try:
        note = json.loads((data_dir / NOTE).read_text("utf-8"))
        return Identity(*note["holder"]), str(note["secret"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _hold_lock(data_dir: Path) -> Iterator[None]:
    """Hold the lock for finding or starting a holder."""
    descriptor = os.open(data_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _connect_noted(data_dir: Path) -> HolderClient | None:
    """Connect to the holder that the data directory notes; None if it does not answer."""
    note = _read_note(data_dir)
    if note is None or not identity.is_alive(note[0]):
        return None
    noted, secret = note
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with short_path(str(data_dir / SOCKET)) as path:
            _wait_in_queue(channel, path)
        if holder.peer_of(channel) != noted.pid:
            raise ConnectionRefusedError
        holder.send(channel, {"do": holder.HELLO, "secret": secret})
        holder.receive(channel)
    except (OSError, ValueError, TypeError):
        channel.close()
        return None
    return HolderClient(channel)


def _wait_in_queue(channel: socket.socket, path: str) -> None:
    """Connect; while the holder's queue is full, the kernel waits.

    With a timeout of Python, a full queue would be an error at once.

    Raises OSError.
    """
    wait = _TIMEVAL.pack(int(_CALL_S_MAX), 0)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    channel.connect(path)
    channel.settimeout(_ANSWER_S_MAX)


def _start_holder(data_dir: Path) -> HolderClient:
    """Start a holder.  Raises OSError; a holder that gets no first message ends by itself."""
    channel, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.settimeout(_ANSWER_S_MAX)
    with ExitStack() as undo:
        undo.callback(channel.close)
        with peer, _bind_private(data_dir / SOCKET) as listener:
            child = _spawn(listener, peer)
        client = HolderClient(channel, child)
        undo.callback(client.close_ended)
        secret = new_secret()
        note = {"holder": identity.read_identity(child), "secret": secret}
        write_file(data_dir / NOTE, json.dumps(note).encode(), PRIVATE)
        hello = {"do": holder.HELLO, "secret": secret, "data_dir": str(data_dir.absolute())}
        holder.send(channel, hello)
        undo.pop_all()
    return client


def _bind_private(path: Path) -> socket.socket:
    """Return a socket at a path that only its owner may connect to.  Raises OSError."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with short_path(str(path)) as short:
            bound.bind(short)
        path.chmod(PRIVATE)  # no process can connect before the holder listens
    except BaseException:
        bound.close()
        raise
    return bound


def _spawn(listener: socket.socket, peer: socket.socket) -> int:
    """Start the process, with the sockets as its standard input and output.  Raises OSError."""
    source = str(Path(trainshed.__file__).parent.parent)
    inside, channel = (
        fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, _BEHIND_STANDARD)
        for end in (listener, peer)
    )
    try:
        return os.posix_spawn(
            sys.executable,
            (sys.executable, "-I", "-S", "-c", _CODE, source),
            {name: text for name, text in os.environ.items() if name == _LIBRARIES},
            file_actions=(
                (os.POSIX_SPAWN_DUP2, inside, 0),
                (os.POSIX_SPAWN_DUP2, channel, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ),
            setsid=True,
            setsigmask=(),
        )
    finally:
        os.close(inside)
        os.close(channel)


def _collect(child: int) -> None:
    """Reap a child process that has ended; do nothing if it still runs."""
    with suppress(OSError):
        pinned = os.pidfd_open(child)
        try:
            poll = select.poll()
            poll.register(pinned, select.POLLIN)
            if poll.poll(_EXIT_S_MAX * 1000):
                os.waitpid(child, os.WNOHANG)
        finally:
            os.close(pinned)
