"""The gateway's sockets, and the thread that waits for the first replica.

To open a gateway is to bind its sockets: a job that never uses it costs no more.  What answers is
made when somebody connects.  Jobs outlive a server, so the next one listens where the last one did;
of two servers of one data directory one listens, and the other takes its place when it ends.
"""

import errno
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVarTuple

from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.model.gateway import BUNDLE
from trainshed.service.gateway.bundle import ensure_bundle, is_current
from trainshed.service.gateway.job_sockets import ChangeSource, JobSockets
from trainshed.service.gateway.places import FOLDER, HOSTS, LEAF, NAMES, GatewayPlace
from trainshed.service.ports.attempts import living_attempt
from trainshed.service.ports.listening import GATEWAY, Listen, listen
from trainshed.service.server_files import PUBLIC, write_file

if TYPE_CHECKING:
    from trainshed.service.gateway.job_networks import JobNetworks

Ts = TypeVarTuple("Ts")

FILE: Final = "gateway.json"
_LOOPBACK: Final = "127.0.0.1"
_HTTP, _HTTPS = 80, 443
#: Loopback addresses on which port 443 is tried; 127.0.0.1 is left to whoever has it.
_DIRECT: Final = tuple(f"127.0.0.{last}" for last in range(2, 255))
_BACKLOG: Final = 1024
_CLOSE_S: Final = 3.0
#: How often a server tries to take the place of one that has ended.
_AGAIN_S: Final = 1.0

#: A certificate that is older is looked at, and perhaps renewed, before it is used.
_LOOKED_AT_S: Final = 300 * 86_400.0


class Serving(Protocol):
    """What answers, once somebody has connected."""

    def run(self, listeners: Sequence[socket.socket], jobs: JobSockets) -> None:
        """Answer until ``stop``, also on the sockets in the networks of jobs."""

    def stop(self) -> None:
        """End, from another thread; what is under way is cut off."""

    def renew(self) -> bool:
        """Whether another certificate is in use from here on.  Raises OSError."""


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

        ``names`` are those of Google's that hosts files lead here.

        ``outlives``: jobs do outlive this process, and the next one is to listen in its place.
        ``networks`` brings the sockets in the networks of jobs, if they have some.
        """
        self._data_dir = data_dir
        self._make = make
        self._port = port
        self._hosts = tuple(hosts)
        self._names = tuple(names)
        self._outlives = outlives
        self._listen = partial(_listen, listen)
        self._networks = networks
        self._lock = threading.Lock()
        self._place: GatewayPlace | None = None
        self._refusal = ""
        """Why the port cannot be had, while a program that is not ours has it."""
        self._serving: Serving | None = None
        self._threads: list[threading.Thread] = []
        self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_closed = False

    def open(self) -> GatewayPlace:
        """Listen, unless it does already.  Raises OSError.

        While a program that is not ours has the port that jobs were given, the place has a
        ``refusal``: no other job of the machine's network may be given its address.
        """
        with self._lock:
            if self._place is None:
                self._place = self._opened()._replace(names=self._names)
            return self._place._replace(refusal=self._refusal)

    def open_again(self) -> None:
        """Listen where an earlier server did, for jobs that run on; a log line if that fails."""
        if (self._data_dir / FILE).exists():
            try:
                if refusal := self.open().refusal:
                    _warn("%s", refusal)
            except OSError as error:
                _warn("the gateway of running jobs cannot be opened: %s", error)

    def renew(self) -> bool:
        """A chore: whether another certificate is in use from here on.  Raises OSError."""
        return self._serving is not None and self._serving.renew()

    def close(self) -> None:
        """End it; what is under way is cut off."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.eventfd_write(self._end, 1)
            if self._serving:
                self._serving.stop()
        for thread in self._threads:
            thread.join(_CLOSE_S)
        if self._networks is not None:
            self._networks.close()
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._end)

    def _opened(self) -> GatewayPlace:
        known = _read(self._data_dir / FILE) if self._outlives else {}
        bundle = _certified(self._data_dir)
        port = self._port or _port_of(known)
        listeners = self._bound(port, known)
        if listeners:
            place = _place_of(listeners, bundle)
            if self._outlives:
                self._note(place)
        else:
            place = GatewayPlace(_LOOPBACK, port, known.get("direct"), bundle, self._hosts)
        self._begin("gateway", self._work, place, listeners)
        return place

    def _begin(self, name: str, work: Callable[[*Ts], None], *given: *Ts) -> None:
        thread = threading.Thread(target=work, args=given, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _bound(self, port: int, known: dict[str, Any]) -> list[socket.socket]:
        """The sockets; none where another server of this directory has the port."""
        try:
            first = self._listen(_LOOPBACK, port)
        except OSError as error:
            if not port or error.errno != errno.EADDRINUSE:
                raise
            if _is_other(known.get("server")):
                return []
            if self._port or living_attempt(f"{self._data_dir}/jobs"):
                self._refusal = _sentence_of(error, port, self._data_dir)
                return []
            _warn("the gateway's port %d is taken, and no job was given it: it uses another", port)
            first = self._listen(_LOOPBACK, 0)
        ours = first.getsockname()[1]
        more = [_try(self._listen, host, ours) for host in self._hosts]
        if self._outlives:
            more += _direct(self._listen, known.get("direct"))
        return [first, *filter(None, more)]

    def _bound_again(self, place: GatewayPlace) -> list[socket.socket]:
        """The sockets of a server that has ended.  Raises OSError while it has them."""
        first = self._listen(_LOOPBACK, place.port)
        more = [_try(self._listen, host, place.port) for host in self._hosts]
        if place.direct:
            more += [_try(self._listen, place.direct, each) for each in (_HTTPS, _HTTP)]
        return [first, *filter(None, more)]

    def _note(self, place: GatewayPlace) -> None:
        document = {"port": place.port, "direct": place.direct, "server": identity.myself()}
        write_file(self._data_dir / FILE, json.dumps(document).encode(), PUBLIC)

    def _work(self, place: GatewayPlace, listeners: list[socket.socket]) -> None:
        """Serve, at the end of another server or, in networks of jobs, while a stranger listens."""
        if self._refusal and self._networks is not None:
            self._begin("gateway-port", self._add_later, place, self._networks)
        elif not listeners and not (listeners := self._wait_for_port(place)):
            return
        jobs = JobSockets(self._networks)
        try:
            self._wait_and_serve(listeners, jobs)
        except Exception:  # noqa: BLE001  # nothing waits for this thread
            _warn("the gateway has ended: jobs have no gs:// of Google's clients", exc_info=True)
        finally:
            for listener in (*listeners, *jobs.sockets):
                listener.close()

    def _add_later(self, place: GatewayPlace, networks: "JobNetworks") -> None:
        networks.add(self._wait_for_port(place))

    def _wait_for_port(self, place: GatewayPlace) -> list[socket.socket]:
        """Bind the sockets when another program has given up the port; none: this is the end."""
        while not self._ends_within(_AGAIN_S):
            with suppress(OSError):
                listeners = self._bound_again(place)
                self._refusal = ""
                with suppress(OSError):  # on a full disk it serves all the same
                    self._note(place)
                return listeners
        return []

    def _wait_and_serve(self, listeners: list[socket.socket], jobs: JobSockets) -> None:
        if self._networks is not None:
            self._networks.start()
        if not self._waits_for_a_client(listeners, jobs):
            return
        serving = self._make()
        with self._lock:
            if self._is_closed:
                return
            self._serving = serving
        serving.run(listeners, jobs)

    def _waits_for_a_client(self, listeners: list[socket.socket], jobs: JobSockets) -> bool:
        """Whether one has come; False: this is the end."""
        while True:
            ready = self._ready((*listeners, *jobs.sockets, *jobs.changes))
            if self._end in ready:
                return False
            if jobs.fileno() not in ready:
                return True
            for gone in jobs.update().ended:
                gone.close()

    def _ends_within(self, seconds: float) -> bool:
        """Whether this is the end."""
        return self._end in self._ready((), seconds)

    def _ready(
        self, others: Iterable[socket.socket | ChangeSource], seconds: float | None = None
    ) -> set[int]:
        """Wait for the end or for others; the descriptors that are readable."""
        poll = select.poll()
        for descriptor in (self._end, *(other.fileno() for other in others)):
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(None if seconds is None else seconds * 1000)
        return {descriptor for descriptor, _ in ready}


def _certified(data_dir: Path) -> Path:
    """The bundle that clients are to trust; it is there, with a certificate that it fits.

    To look at certificates takes longer than to start a job, and is left to what answers.
    """
    folder = data_dir / "tls"
    bundle = data_dir / FOLDER / BUNDLE
    certificate = folder / f"{LEAF}.pem"
    made = all(path.is_file() for path in (certificate, folder / f"{LEAF}.key"))
    if (
        not made
        or not is_current(bundle)
        or time.time() - certificate.stat().st_mtime > _LOOKED_AT_S
    ):
        from trainshed.service.auth.certificates import ensure_tls  # noqa: PLC0415  # see above

        ensure_bundle(data_dir, ensure_tls(data_dir, NAMES, leaf=LEAF).ca)
    return bundle


def _warn(message: str, *what: object, exc_info: bool = False) -> None:
    import logging  # noqa: PLC0415  # a local run, which has one of these, does without

    logging.getLogger(__name__).warning(message, *what, exc_info=exc_info)


def _place_of(listeners: Sequence[socket.socket], bundle: Path) -> GatewayPlace:
    (host, port), *more = (each.getsockname() for each in listeners)
    direct = next((host for host, each in more if each == _HTTPS), None)
    also = tuple(host for host, each in more if each == port)
    return GatewayPlace(host, port, direct, bundle, also)


def _read(path: Path) -> dict[str, Any]:
    """What is known of the last gateway; empty where there was none."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text("utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _port_of(known: dict[str, Any]) -> int:
    port = known.get("port")
    return port if isinstance(port, int) and 0 < port < 1 << 16 else 0


def _sentence_of(error: OSError, port: int, data_dir: Path) -> str:
    from trainshed.service.ports.taken import why_taken  # noqa: PLC0415  # it is rare

    reason = why_taken(error, port, data_dir)
    return f"the gateway of jobs cannot listen on {_LOOPBACK}:{port}: {reason}; it tries again"


def _is_other(noted: object) -> bool:
    """Whether the server that noted itself lives and is not this one."""
    try:
        server = Identity(*noted)  # type: ignore[misc]  # what a file has
        return server != identity.myself() and identity.lives(server)
    except (TypeError, ValueError):
        return False


#: Makes a socket of the gateway's, by host and port.
_Listen = Callable[[str, int], socket.socket]


def _listen(listen: Listen, host: str, port: int) -> socket.socket:
    return listen(GATEWAY, host, port, _BACKLOG)


def _try(listen: _Listen, host: str, port: int) -> socket.socket | None:
    with suppress(OSError):
        return listen(host, port)
    return None


def _direct(listen: _Listen, address: object) -> Sequence[socket.socket]:
    """Google's ports on a loopback address of our own, where the server may have them."""
    first = address if isinstance(address, str) and address else _DIRECT[0]
    for each in dict.fromkeys((first, *_DIRECT)):
        try:
            found = listen(each, _HTTPS)
        except PermissionError:
            return ()
        except OSError:  # another data directory has it
            continue
        return [*filter(None, (found, _try(listen, each, _HTTP)))]  # 80 is the metadata server's
    return ()
