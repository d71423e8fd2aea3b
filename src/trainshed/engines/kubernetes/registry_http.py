"""Reads documents over HTTP with limits of time, size and redirects.

Users choose the host of an image, so every host may be hostile: one that sends a byte a second, or
sends the server on to others for ever.  A timer shuts the connection at the deadline, because the
timeout of a socket begins again with every byte.  Only the lookup of a host's name is bounded by
the resolver alone.
"""

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

AUTHORIZATION: Final = "Authorization"
_USER_AGENT: Final = "trainshed"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REDIRECTS_MAX: Final = 5
_ADDRESSES_MAX: Final = 8


class HostUnreachable(OSError):
    """No complete answer of a host; the message says why."""


class HostAnswer(NamedTuple):
    """An answer of a server."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name; of several headers with one name, all, separated by commas."""
    body: bytes
    host: str
    """The host that has answered, after redirects."""


class DocumentReader:
    """Reads documents over HTTPS, and from some hosts over HTTP."""

    def __init__(self, ca_file: str = "", plain_hosts: frozenset[str] = frozenset()) -> None:
        """``ca_file`` has CA certificates that are trusted in addition to the machine's.

        ``plain_hosts`` are the hosts, with their ports, that are read without TLS.  Raises OSError
        for a file without certificates.
        """
        self._trust = ssl.create_default_context()
        if ca_file:
            self._trust.load_verify_locations(ca_file)
        self._plain_hosts = plain_hosts

    def origin_of(self, host: str) -> str:
        """Return the beginning of the URLs of a host."""
        return f"{'http' if host in self._plain_hosts else 'https'}://{host}"

    def read(
        self, url: str, headers: Mapping[str, str], *, bytes_max: int, deadline_s: float
    ) -> HostAnswer:
        """Read a document, and follow redirects.

        ``deadline_s`` is a time of ``time.monotonic``.  The header Authorization is sent to no
        other origin.  Raises HostUnreachable, also for a document of more than ``bytes_max`` bytes.
        """
        for _ in range(_REDIRECTS_MAX + 1):
            answer, location = self._read_once(url, headers, bytes_max, deadline_s)
            if location is None:
                return answer
            if _origin(urlsplit(location)) != _origin(urlsplit(url)):
                headers = {name: text for name, text in headers.items() if name != AUTHORIZATION}
            url = location
        raise HostUnreachable(f"{answer.host} redirects more than {_REDIRECTS_MAX} times")

    def _read_once(
        self, url: str, headers: Mapping[str, str], bytes_max: int, deadline_s: float
    ) -> tuple[HostAnswer, str | None]:
        """Read one answer, and the URL of a redirect."""
        try:
            parts = urlsplit(url)
            self._check(parts)
            with self._open(parts, deadline_s) as connection:
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("GET", target, headers={"User-Agent": _USER_AGENT, **headers})
                with connection.getresponse() as response:
                    fields = {
                        name.lower(): ", ".join(response.headers.get_all(name, []))
                        for name in response.headers
                    }
                    is_redirect = response.status in _REDIRECTS and "location" in fields
                    body = b"" if is_redirect else _read_body(response, bytes_max, deadline_s)
                    answer = HostAnswer(response.status, fields, body, _host(url))
        except (OSError, HTTPException, ValueError) as error:
            late = time.monotonic() >= deadline_s
            reason = "it did not answer in time" if late else _describe(error)
            raise HostUnreachable(f"cannot read from {_host(url)}: {reason}") from error
        return answer, urljoin(url, fields["location"]) if is_redirect else None

    def _check(self, parts: SplitResult) -> None:
        is_plain = parts.scheme == "http" and _authority(parts) in self._plain_hosts
        if not parts.hostname or not (is_plain or parts.scheme == "https"):
            raise OSError("only https is accepted")

    @contextmanager
    def _open(self, parts: SplitResult, deadline_s: float) -> Iterator[HTTPConnection]:
        """Open a connection that ends at the deadline."""
        host, is_plain = parts.hostname or "", parts.scheme == "http"
        port = parts.port or (80 if is_plain else 443)
        connection = (
            HTTPConnection(host, port)
            if is_plain
            else HTTPSConnection(host, port, context=self._trust)
        )
        wire = _connect(host, port, deadline_s)
        if not is_plain:
            wire = self._trust.wrap_socket(
                wire, server_hostname=host, do_handshake_on_connect=False
            )
        timer = threading.Timer(max(0.0, deadline_s - time.monotonic()), _shut, [wire])
        timer.daemon = True
        timer.start()
        try:
            if isinstance(wire, ssl.SSLSocket):
                wire.do_handshake()
            connection.sock = wire
            yield connection
        finally:
            timer.cancel()
            connection.close()
            wire.close()


def _read_body(response: HTTPResponse, bytes_max: int, deadline_s: float) -> bytes:
    """Read a body; a read of a limited size reports no early end, so this does."""
    body = response.read(bytes_max + 1)
    if len(body) > bytes_max:
        raise OSError(f"it sends more than {bytes_max} bytes")
    if response.length or time.monotonic() >= deadline_s:
        raise OSError("the answer ends early")
    return body


def _connect(host: str, port: int, deadline_s: float) -> socket.socket:
    """Connect to the first address that answers.  Raises OSError."""
    failure = OSError("its name has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    )[:_ADDRESSES_MAX]:
        wire = socket.socket(family, kind, protocol)
        try:
            wire.settimeout(max(0.001, deadline_s - time.monotonic()))
            wire.connect(address)
        except OSError as error:
            wire.close()
            failure = error
        else:
            return wire
    raise failure


def _shut(wire: socket.socket) -> None:
    """End both directions, so that the thread that reads sees the end.

    The method of an SSLSocket would also remove what that thread is using.
    """
    with suppress(OSError):
        socket.socket.shutdown(wire, socket.SHUT_RDWR)


def _describe(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError):
        return str(error) or type(error).__name__
    # texts of other errors repeat what the host has sent, which may be any service
    return "its answer is not HTTP"


def _origin(parts: SplitResult) -> tuple[str, str]:
    return parts.scheme, parts.netloc


def _authority(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _host(url: str) -> str:
    """Return the host of a URL for messages: a path or query may have secrets."""
    try:
        return _authority(urlsplit(url)) or "a URL without a host"
    except ValueError:
        return "a malformed URL"
