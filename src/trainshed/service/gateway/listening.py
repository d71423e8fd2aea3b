"""Binds the gateway's sockets, and starts the gateway at the first connection.

A job that does not use the gateway costs only the bound sockets.  Jobs outlive a server, so the
next server listens on the same port.  Of two servers of one data directory one listens, and the
other takes over when it ends.
"""

import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVarTuple

from trainshed.service.gateway.bundle import ensure_certified
from trainshed.service.gateway.job_sockets import ChangeSource, JobSockets
from trainshed.service.gateway.machine_sockets import (
    FILE,
    LOOPBACK,
    MachineSockets,
    SocketNote,
    place_of,
    read_note,
    write_note,
)
from trainshed.service.gateway.places import HOSTS, GatewayPlace
from trainshed.service.ports.attempts import living_attempt
from trainshed.service.ports.listening import Listen, listen

if TYPE_CHECKING:
    from trainshed.service.gateway.job_networks import JobNetworks

Ts = TypeVarTuple("Ts")

_CLOSE_S: Final = 3.0
#: Seconds between attempts to take over from a server that has ended.
_AGAIN_S: Final = 1.0


class Serving(Protocol):
    """The gateway after a client has connected."""

    def run(self, listeners: Sequence[socket.socket], jobs: JobSockets) -> None:
        """Answer until ``stop``, also on the sockets in the networks of jobs."""

    def stop(self) -> None:
        """End, from another thread; requests under way are cut off."""

    def renew(self) -> bool:
        """Renew the certificate if it is due; return whether it was renewed.  Raises OSError."""


class GatewayListener:
    """One data directory's gateway.  Thread-safe."""

    def __init__(  # noqa: PLR0913 - each with its default
        self,
        data_dir: Path,
        make: Callable[[], Serving],
        *,
        port: int = 0,
        hosts: Iterable[str] = (),
        names: Iterable[str] = HOSTS,
        outlives: bool = True,
        listen: Listen = listen,
        networks: "JobNetworks | None" = None,
    ) -> None:
        """``port`` 0 picks one; ``hosts`` are addresses besides loopback, such as a bridge's.

        ``names`` are Google's host names that hosts files map to the gateway.

        ``outlives``: jobs outlive this process, and the next server is to take over its port.
        ``networks`` passes the sockets in the networks of jobs, if there are any.
        """
        self._data_dir = data_dir
        self._make = make
        self._port = port
        self._hosts = tuple(hosts)
        self._names = tuple(names)
        self._outlives = outlives
        self._sockets = MachineSockets(listen, self._hosts, has_direct=outlives)
        self._networks = networks
        self._lock = threading.Lock()
        self._place: GatewayPlace | None = None
        self._refusal = ""
        """Why the port cannot be bound, while a foreign program has it."""
        self._serving: Serving | None = None
        self._threads: list[threading.Thread] = []
        self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_closed = False

    def open(self) -> GatewayPlace:
        """Listen, unless the gateway does already.  Raises OSError.

        While a foreign program has the port that running jobs use, the place has a ``refusal``.
        The server then gives its address to no other job on the machine's network.
        """
        with self._lock:
            if self._place is None:
                self._place = self._open_first()._replace(names=self._names)
            return self._place._replace(refusal=self._refusal)

    def open_again(self) -> None:
        """Listen on the port of an earlier server, for running jobs; log a failure."""
        if (self._data_dir / FILE).exists():
            try:
                if refusal := self.open().refusal:
                    _warn("%s", refusal)
            except OSError as error:
                _warn(
                    "cannot open the gateway for running jobs, which cannot read gs:// now: %s",
                    error,
                )

    def renew(self) -> bool:
        """Renew the certificate if it is due; return whether it was renewed.  Raises OSError."""
        return self._serving is not None and self._serving.renew()

    def close(self) -> None:
        """End the gateway; requests under way are cut off."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.eventfd_write(self._end, 1)
            if self._serving:
                self._serving.stop()
        for thread in self._threads:
            thread.join(_CLOSE_S)
        if not any(thread.is_alive() for thread in self._threads):
            if self._networks is not None:
                self._networks.close()
            os.close(self._end)

    def _open_first(self) -> GatewayPlace:
        note = read_note(self._data_dir) if self._outlives else SocketNote()
        bundle = ensure_certified(self._data_dir)
        port = self._port or note.port
        listeners = self._bind(port, note)
        if listeners:
            place = place_of(listeners, bundle)
            if self._outlives:
                write_note(self._data_dir, place)
        else:
            place = GatewayPlace(LOOPBACK, port, note.direct, bundle, self._hosts)
        self._begin("gateway", self._work, place, listeners)
        return place

    def _begin(self, name: str, work: Callable[[*Ts], None], *arguments: *Ts) -> None:
        thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _bind(self, port: int, note: SocketNote) -> list[socket.socket]:
        """Bind the sockets; none while another server or a foreign program has the port."""
        try:
            return self._sockets.bind(port, note.direct)
        except OSError as error:
            if not port or error.errno != errno.EADDRINUSE:
                raise
            if note.has_other_server:
                return []
            if self._port or living_attempt(f"{self._data_dir}/jobs"):
                self._refusal = _describe_refusal(error, port, self._data_dir)
                return []
            _warn(
                "the gateway's port %d is in use; no job uses it, so the gateway uses another",
                port,
            )
            return self._sockets.bind(0, note.direct)

    def _work(self, place: GatewayPlace, listeners: list[socket.socket]) -> None:
        """Serve after another server ends.

        While a foreign program has the port, serve in the networks of jobs only.
        """
        if not listeners and not self._refusal:
            listeners = self._stand_by(place)
        if self._refusal and self._networks is not None:
            self._begin("gateway-port", self._add_later, place, self._networks)
        elif not listeners and not (listeners := self._wait_for_port(place)):
            return
        jobs = JobSockets(self._networks)
        try:
            self._wait_and_serve(listeners, jobs)
        except Exception:  # noqa: BLE001  # nothing waits for this thread
            _warn(
                "the gateway failed: jobs cannot reach gs:// until this server is restarted",
                exc_info=True,
            )
        finally:
            for listener in (*listeners, *jobs.sockets):
                listener.close()

    def _add_later(self, place: GatewayPlace, networks: "JobNetworks") -> None:
        networks.add(self._wait_for_port(place))

    def _stand_by(self, place: GatewayPlace) -> list[socket.socket]:
        """Bind the sockets when the other server ends; none if a foreign program took the port."""
        while not self._wait_for_end(_AGAIN_S):
            try:
                return self._take_place(place)
            except OSError as error:
                if not read_note(self._data_dir).has_other_server:
                    self._refusal = _describe_refusal(error, place.port, self._data_dir)
                    _warn("%s", self._refusal)
                    break
        return []

    def _wait_for_port(self, place: GatewayPlace) -> list[socket.socket]:
        """Bind the sockets when the foreign program releases the port; none if the gateway ends."""
        while not self._wait_for_end(_AGAIN_S):
            with suppress(OSError):
                return self._take_place(place)
        return []

    def _take_place(self, place: GatewayPlace) -> list[socket.socket]:
        """Bind the sockets of a place and write the note.

        Raises OSError while the port is in use.
        """
        listeners = self._sockets.bind(place.port, place.direct)
        self._refusal = ""
        with suppress(OSError):  # it serves also when the disk is full
            write_note(self._data_dir, place)
        return listeners

    def _wait_and_serve(self, listeners: list[socket.socket], jobs: JobSockets) -> None:
        if self._networks is not None:
            self._networks.start()
        if not self._wait_for_client(listeners, jobs):
            return
        serving = self._make()
        with self._lock:
            if self._is_closed:
                return
            self._serving = serving
        serving.run(listeners, jobs)

    def _wait_for_client(self, listeners: list[socket.socket], jobs: JobSockets) -> bool:
        """Wait for a client; False if the gateway ends."""
        while True:
            ready = self._wait_ready((*listeners, *jobs.sockets, *jobs.changes))
            if self._end in ready:
                return False
            if jobs.fileno() not in ready:
                return True
            for ended in jobs.update().ended:
                ended.close()

    def _wait_for_end(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the end of the gateway; return whether it ends."""
        return self._end in self._wait_ready((), seconds)

    def _wait_ready(
        self, sources: Iterable[socket.socket | ChangeSource], seconds: float | None = None
    ) -> set[int]:
        """Wait for the end or for other descriptors; return the readable ones."""
        poll = select.poll()
        for descriptor in (self._end, *(other.fileno() for other in sources)):
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(None if seconds is None else seconds * 1000)
        return {descriptor for descriptor, _ in ready}


def _warn(message: str, *arguments: object, exc_info: bool = False) -> None:
    import logging  # noqa: PLC0415  # a local run starts faster without it

    logging.getLogger(__name__).warning(message, *arguments, exc_info=exc_info)


def _describe_refusal(error: OSError, port: int, data_dir: Path) -> str:
    from trainshed.service.ports.taken import why_taken  # noqa: PLC0415  # it is rare

    reason = why_taken(error, port, data_dir)
    return f"the gateway of jobs cannot listen on {LOOPBACK}:{port}: {reason}; the server retries"
