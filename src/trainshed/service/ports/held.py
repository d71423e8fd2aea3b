"""Gets a server's listening sockets back from systemd or the holder, or opens new ones."""

import errno
import logging
import os
import select
import socket
import threading
import time
from collections.abc import MutableMapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from trainshed.files.server_files import BACKUP_FILE
from trainshed.service.ports import holder, holder_client, systemd
from trainshed.service.ports.attempts import living_attempt
from trainshed.service.ports.holder_client import HolderClient
from trainshed.service.ports.listening import TWINS, listen, reserve

#: Seconds before the server starts another holder after one that ended early: a job that runs as
#: the server's user may kill holders.
_PAUSE_S_MIN, _PAUSE_S_MAX = 1.0, 60.0
_CLOSE_S_MAX: Final = 10.0
#: The most ports that the server tries until one is free at the twin address too (``TWINS``).
_PICKS_MAX: Final = 64
#: The suffix of the role of a reserved socket.
_TWIN: Final = "-twin"
_NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_LOG = logging.getLogger(__name__)


class HeldPorts:
    """The listening sockets of one server.  Thread-safe.

    After ``say_ready``, a thread starts another holder when the holder has ended.
    """

    def __init__(self, data_dir: Path, environ: MutableMapping[str, str]) -> None:
        """Find the sockets of an earlier server; start a holder unless systemd keeps sockets."""
        self._data_dir = data_dir
        self._lock = threading.RLock()
        self._inherited = systemd.take_inherited(environ)
        self._notify_socket = environ.pop("NOTIFY_SOCKET", "")
        self._has_store = bool(int(environ.pop("FDSTORE", "0") or 0))
        self._used: list[tuple[str, socket.socket]] = []
        self._holder: HolderClient | None = None
        self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread: threading.Thread | None = None
        if self._has_store:
            with suppress(OSError):
                holder_client.forget_holder(data_dir)
        else:
            self._connect()

    def listen(self, role: str, host: str, port: int, backlog: int) -> socket.socket:
        """Return the earlier server's socket of this address, or a new one.  Raises OSError."""
        with self._lock:
            address = _resolve(host, port)
            listener, twin = self._take(role, *address), None
            if listener is None:
                listener, twin = _open(role, host, port, backlog)
                self._keep(role, listener)
            listener.listen(backlog)
            self._store(role, listener)
            # a duplicate: the server closes its own when it stops to accept
            self._used.append((role, listener.dup()))
            self._hold_twin(role, address[0], listener.getsockname()[1], twin)
            return listener

    def numbers(self) -> tuple[int, ...]:
        """Return the ports at which the server listens now, in ascending order."""
        with self._lock:
            return tuple(sorted({listener.getsockname()[1] for _, listener in self._used}))

    def say_ready(self) -> None:
        """Tell systemd that the server answers, and release unused sockets."""
        with self._lock:
            for name, listener in self._inherited:
                self._notify("FDSTOREREMOVE=1", f"FDNAME={name}")
                listener.close()
            self._inherited.clear()
            self._notify("READY=1")
        if not self._has_store:
            self._thread = threading.Thread(
                target=self._watch_holder, name="port-holder", daemon=True
            )
            self._thread.start()

    def close(self) -> bool:
        """Release the sockets; return whether the ports stay open because jobs still run."""
        os.eventfd_write(self._end, 1)
        if self._thread is not None:
            self._thread.join(_CLOSE_S_MAX)
        with self._lock:
            self._notify("STOPPING=1")
            is_held = self._release_sockets()
            for role, listener in self._used:
                if not is_held:
                    name = systemd.stored_name(role, listener)
                    self._notify("FDSTOREREMOVE=1", f"FDNAME={name}")
                listener.close()
            for _, listener in self._inherited:  # of a start that failed: systemd keeps them
                listener.close()
            if self._holder is not None:
                self._holder.close()
        if self._thread is None or not self._thread.is_alive():
            os.close(self._end)
        return is_held

    def _release_sockets(self) -> bool:
        """Release the sockets; return whether they stay open for the next server."""
        if self._has_store:
            return bool(living_attempt(f"{self._data_dir}/jobs"))
        try:
            return self._holder is not None and self._holder.end()
        except OSError as error:
            _LOG.warning(
                "cannot notify the holder of this server's ports that the server ends: %s", error
            )
            return False

    def _watch_holder(self) -> None:
        """Start another holder when one has ended, until the end of the server."""
        pause_s, began_s = 0.0, time.monotonic()
        while self._wait_for_loss():
            if time.monotonic() - began_s > _PAUSE_S_MAX:
                pause_s = 0.0
            if self._wait_for_end(pause_s):
                return
            pause_s = min(max(2 * pause_s, _PAUSE_S_MIN), _PAUSE_S_MAX)
            began_s = time.monotonic()
            self._replace_holder()

    def _wait_for_loss(self) -> bool:
        """Wait until there is no holder; False at the end of the server."""
        return self._holder is None or not self._wait_for_end(None, self._holder)

    def _wait_for_end(self, seconds: float | None, holder: HolderClient | None = None) -> bool:
        """Wait up to ``seconds`` for the end of the server or the holder.

        Return whether the server ends.
        """
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        if holder is not None:
            poll.register(holder, 0)  # POLLHUP is always reported
        ready = poll.poll(None if seconds is None else seconds * 1000)
        return any(descriptor == self._end for descriptor, _ in ready)

    def _replace_holder(self) -> None:
        with self._lock:
            if self._holder is not None:
                _LOG.warning(
                    "the process that holds this server's ports has ended; starting another one"
                )
                self._holder.close_ended()
                self._holder = None
            self._connect()
            for role, listener in self._used:
                self._keep(role, listener)

    def _connect(self) -> None:
        """Connect to the holder.

        An unusable folder is reported by the code that writes other files.
        """
        with suppress(OSError):
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._data_dir.is_dir() or (self._data_dir / BACKUP_FILE).exists():
            return
        try:
            self._holder = holder_client.connect(self._data_dir)
        except OSError as error:
            if error.errno != errno.EROFS:
                _LOG.warning("cannot keep the server's ports open over a restart: %s", error)

    def _keep(self, role: str, listener: socket.socket) -> None:
        """Give a socket to the holder.  If the holder has ended, the next one gets all sockets."""
        if self._holder is not None:
            with suppress(OSError):
                self._holder.keep(role, listener)

    def _hold_twin(self, role: str, host: str, port: int, twin: socket.socket | None) -> None:
        """Reserve the same port at the other address of ``localhost``."""
        twin_host = TWINS.get(host)
        if twin_host is None:
            return
        twin_role = f"{role}{_TWIN}"
        bound = None if twin else self._take(twin_role, twin_host, port)
        if bound is None:
            bound = twin or _reserve(twin_host, port)
            if bound is None:
                return
            self._keep(twin_role, bound)
        # systemd drops a socket that nothing listens on, unless FDPOLL is off
        self._store(twin_role, bound, "FDPOLL=0")
        self._used.append((twin_role, bound))

    def _store(self, role: str, listener: socket.socket, *options: str) -> None:
        name = systemd.stored_name(role, listener)
        self._notify("FDSTORE=1", f"FDNAME={name}", *options, sockets=(listener,))

    def _take(self, role: str, host: str, port: int) -> socket.socket | None:
        """Return the earlier server's socket of an address (port 0: any); None without one."""
        return self._take_inherited(role, host, port) or self._take_held(role, host, port)

    def _take_inherited(self, role: str, host: str, port: int) -> socket.socket | None:
        for index, (name, listener) in enumerate(self._inherited):
            if systemd.role_of(name) == role and holder.is_bound_to(listener, host, port):
                del self._inherited[index]
                self._keep(role, listener)
                return listener
        return None

    def _take_held(self, role: str, host: str, port: int) -> socket.socket | None:
        try:
            return self._holder.take(role, host, port) if self._holder else None
        except OSError as error:
            _LOG.warning("cannot take the server's ports back from their holder: %s", error)
            return None

    def _notify(self, *lines: str, sockets: tuple[socket.socket, ...] = ()) -> None:
        if self._notify_socket:
            try:
                systemd.notify(self._notify_socket, lines, *sockets)
            except OSError as error:
                _LOG.warning("cannot notify systemd (%s): %s", lines[0], error)


def _open(
    role: str, host: str, port: int, backlog: int
) -> tuple[socket.socket, socket.socket | None]:
    """Make a listening socket; for port 0, also reserve the same port at its twin address.

    The kernel picks a port that is free at one address.  If another program has that port at the
    twin, the server tries the next port.  Meanwhile it keeps the refused sockets open, so that the
    kernel does not pick them again.  Raises OSError.
    """
    twin_host = TWINS.get(_resolve(host, port)[0])
    with suppress(OSError), ExitStack() as refused:  # no port is left: continue without a twin
        for _ in range(_PICKS_MAX if twin_host and not port else 0):
            listener = listen(role, host, port, backlog)
            try:
                return listener, reserve(str(twin_host), listener.getsockname()[1])
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    return listener, None
                refused.enter_context(listener)
    return listen(role, host, port, backlog), None


def _reserve(host: str, port: int) -> socket.socket | None:
    """Reserve a port.  Logs a failure, unless the machine has no IPv6."""
    try:
        return reserve(host, port)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            _LOG.warning("cannot reserve port %d of %s: %s", port, host, error.strerror)
        return None


def _resolve(host: str, port: int) -> tuple[str, int]:
    """Return the address that a socket for a host is bound to.  Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    rows = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
    return str(rows[0][4][0]), port
