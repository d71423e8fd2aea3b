"""A server's listening sockets: taken back from systemd or the holder, else made."""

import errno
import fcntl
import json
import logging
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trainshed
from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.engines.processes.secret import new_secret
from trainshed.engines.supervise.folder import short_path
from trainshed.service.ports import holder, systemd
from trainshed.service.ports.listening import TWINS, listen, reserve
from trainshed.service.server_files import PRIVATE, write_file

#: The holder's socket, who it is and its secret, and the lock of the server that starts one.
SOCKET, NOTE, _LOCK = "ports", "ports.json", "ports.lock"
#: How long a server waits for a place in the holder's queue, and for an answer: a job that is the
#: same user may fill the queue, and the holder turns its connections away one by one.
_CALL_S_MAX: Final = 30.0
_ANSWER_S_MAX: Final = 15.0
_TIMEVAL: Final = struct.Struct("ll")
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1])\n"
    "from trainshed.service.ports.holder import main\n"
    "main()"
)
#: Where a Python may need to look for its libraries.
_LIBRARIES: Final = "LD_LIBRARY_PATH"
_BEHIND_STANDARD: Final = 3
_PRIVATE_SOCKET: Final = 0o177
#: What the role of a reserved socket ends with.
_TWIN: Final = "-twin"
_NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_LOG = logging.getLogger(__name__)


class HeldPorts:
    """The listening sockets of one server.  Thread-safe."""

    def __init__(self, data_dir: Path, environ: MutableMapping[str, str]) -> None:
        """Find the sockets of an earlier server.  A holder is started where systemd keeps none."""
        self._data_dir = data_dir
        self._lock = threading.RLock()
        self._inherited = systemd.take_inherited(environ)
        self._notify_socket = environ.pop("NOTIFY_SOCKET", "")
        self._used: list[tuple[str, socket.socket]] = []
        self._channel: socket.socket | None = None
        self._needs_holder = not int(environ.pop("FDSTORE", "0") or 0)
        self._open_channel()

    def listen(self, role: str, host: str, port: int, backlog: int) -> socket.socket:
        """Return the socket that an earlier server had there, or a new one.  Raises OSError."""
        with self._lock:
            address = _resolve(host, port)
            listener = self._from_systemd(role, *address) or self._from_holder(role, *address)
            if listener is None:
                listener = listen(role, host, port, backlog)
                self._tell(holder.KEEP, listener, role=role)
            listener.listen(backlog)
            self._store(role, listener)
            # a duplicate: the server closes its own when it stops to accept
            self._used.append((role, listener.dup()))
            self._reserve_twin(role, address[0], listener.getsockname()[1])
            return listener

    def numbers(self) -> tuple[int, ...]:
        """Return the ports at which the server listens now, in their order."""
        with self._lock:
            return tuple(sorted({each.getsockname()[1] for _, each in self._used}))

    def say_ready(self) -> None:
        """Tell systemd that the server answers, and give back the sockets that it does not use."""
        with self._lock:
            for name, listener in self._inherited:
                self._notify("FDSTOREREMOVE=1", f"FDNAME={name}")
                listener.close()
            self._inherited.clear()
            self._notify("READY=1")

    def renew(self) -> None:
        """A chore: start another holder where the last one was killed."""
        with self._lock:
            if self._channel is not None and _has_ended(self._channel):
                _LOG.warning("the process that holds this server's ports was killed: starting one")
                self._channel = None
                _collect(self._data_dir)
                self._open_channel()
                for role, listener in self._used:
                    self._tell(holder.KEEP, listener, role=role)

    def close(self) -> bool:
        """End in order; whether the ports stay held, since jobs run on."""
        with self._lock:
            self._notify("STOPPING=1")
            answer = self._ask(holder.END)
            for _, listener in self._used:
                listener.close()
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            return bool(answer and answer[0].get("held"))

    def _open_channel(self) -> None:
        if not self._needs_holder:
            return
        with suppress(OSError):  # what makes the other files says what is wrong with the folder
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._data_dir.is_dir():
            return
        try:
            with _locked(self._data_dir):
                self._channel = _connect(self._data_dir) or _start(self._data_dir)
        except OSError as error:
            _LOG.warning("cannot keep the server's ports over a restart: %s", error)

    def _reserve_twin(self, role: str, host: str, port: int) -> None:
        """Keep the port of the IPv6 address that ``localhost`` means besides, unused."""
        twin = TWINS.get(host)
        if twin is None:
            return
        kept = f"{role}{_TWIN}"
        bound = self._from_systemd(kept, twin, port) or self._from_holder(kept, twin, port)
        if bound is None:
            try:
                bound = reserve(twin, port)
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    _LOG.warning("cannot reserve port %d of %s: %s", port, twin, error.strerror)
                return
            self._tell(holder.KEEP, bound, role=kept)
        # systemd drops a socket that nothing listens on, unless it does not look
        self._store(kept, bound, "FDPOLL=0")
        self._used.append((kept, bound))

    def _from_systemd(self, role: str, host: str, port: int) -> socket.socket | None:
        for index, (name, listener) in enumerate(self._inherited):
            if systemd.role_of(name) == role and holder.is_bound_to(listener, host, port):
                del self._inherited[index]
                self._tell(holder.KEEP, listener, role=role)
                return listener
        return None

    def _from_holder(self, role: str, host: str, port: int) -> socket.socket | None:
        answer = self._ask(holder.TAKE, role=role, host=host, port=port)
        return answer[1][0] if answer and answer[1] else None

    def _store(self, role: str, listener: socket.socket, *options: str) -> None:
        name = systemd.stored_name(role, listener)
        self._notify("FDSTORE=1", f"FDNAME={name}", *options, sockets=(listener,))

    def _notify(self, *lines: str, sockets: tuple[socket.socket, ...] = ()) -> None:
        if self._notify_socket:
            try:
                systemd.notify(self._notify_socket, lines, *sockets)
            except OSError as error:
                _LOG.warning("cannot notify systemd (%s): %s", lines[0], error)

    def _tell(self, do: str, *sockets: socket.socket, **words: object) -> None:
        if self._channel is not None:
            with suppress(OSError):
                holder.send(self._channel, {"do": do, **words}, *sockets)

    def _ask(self, do: str, **words: object) -> tuple[dict[str, Any], list[socket.socket]] | None:
        if self._channel is None:
            return None
        try:
            holder.send(self._channel, {"do": do, **words})
            return holder.receive(self._channel)
        except (OSError, ValueError) as error:
            _LOG.warning("the process that holds this server's ports does not answer: %r", error)
            return None


def _resolve(host: str, port: int) -> tuple[str, int]:
    """The address that a socket for a host is bound to.  Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
    return str(found[0][4][0]), port


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Be the only server that looks for a holder, or starts one."""
    descriptor = os.open(data_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _connect(data_dir: Path) -> socket.socket | None:
    """A channel to the holder that the data directory notes; None where there is none."""
    try:
        note = json.loads((data_dir / NOTE).read_text("utf-8"))
        noted = Identity(*note["holder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not identity.lives(noted):
        return None
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # the kernel's own wait: with a timeout of Python's a full queue is an error at once
    wait = _TIMEVAL.pack(int(_CALL_S_MAX), 0)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    try:
        with short_path(str(data_dir / SOCKET)) as path:
            channel.connect(path)
        channel.settimeout(_ANSWER_S_MAX)
        if holder.peer_of(channel) != noted.pid:
            raise ConnectionRefusedError
        holder.send(channel, {"do": holder.HELLO, "secret": note["secret"]})
        holder.receive(channel)
    except (OSError, ValueError):
        channel.close()
        return None
    return channel


def _start(data_dir: Path) -> socket.socket:
    """Start a holder; the channel to it.  Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_ANSWER_S_MAX)
    with theirs, _bound(data_dir / SOCKET) as listener:
        pid = _spawn(listener, theirs)
    secret = new_secret()
    note = {"holder": identity.of(pid), "secret": secret}
    write_file(data_dir / NOTE, json.dumps(note).encode(), PRIVATE)
    holder.send(ours, {"do": holder.HELLO, "secret": secret, "data_dir": str(data_dir.absolute())})
    return ours


def _spawn(listener: socket.socket, theirs: socket.socket) -> int:
    """Start the process, with the sockets as its standard input and output.  Raises OSError."""
    source = str(Path(trainshed.__file__).parent.parent)
    inside, channel = (
        fcntl.fcntl(each.fileno(), fcntl.F_DUPFD_CLOEXEC, _BEHIND_STANDARD)
        for each in (listener, theirs)
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


def _collect(data_dir: Path) -> None:
    """Have the kernel forget the noted holder, if it was a child of this process and has ended."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        note = json.loads((data_dir / NOTE).read_text("utf-8"))
        os.waitpid(note["holder"][0], os.WNOHANG)


def _bound(path: Path) -> socket.socket:
    """A socket at a path that only its owner may connect to.  Raises OSError."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(_PRIVATE_SOCKET)
    try:
        with short_path(str(path)) as short:
            bound.bind(short)
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(before)
    return bound


def _has_ended(channel: socket.socket) -> bool:
    """Whether the holder has closed its end; it never speaks unasked."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(0))
