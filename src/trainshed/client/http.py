"""Calls a Trainshed server over HTTP.  Only the standard library is imported, for a fast start."""

import contextlib
import http.client
import json
import os
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final
from urllib.parse import urlencode, urlsplit

from trainshed.client.faults import Json, ServerRefusal, Unreachable

#: Seconds to wait for an answer; streams and uploads have no such limit.
TIMEOUT_S: Final = 60.0
AGENT: Final = "trainshed-cli"
READ_BYTES: Final = 1 << 16

#: OpenSSL's codes for a certificate that has neither the host's name nor its address.
_OTHER_NAME: Final = frozenset({62, 64})
#: Status words by HTTP status, for errors of the storage routes, which contain none.
_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The address of a server, and the token to call it with.

    Without ``token`` no Authorization header is sent.  ``ca`` is a file of CA certificates that are
    trusted instead of the machine's.
    """

    url: str
    token: str | None = None
    ca: str | None = None
    timeout_s: float = TIMEOUT_S
    headers: Mapping[str, str] = field(default_factory=dict)

    def call(
        self,
        verb: str,
        path: str,
        document: Any = None,
        query: Mapping[str, object] | None = None,
    ) -> Json:
        """Return the JSON of the response.

        Raises ServerRefusal for an error response, and Unreachable if no server answers.
        """
        with self._open_connection(self.timeout_s) as connection:
            answer = self._send(connection, verb, path, document, query)
            return _read(answer.status, answer.read())

    def lines(self, path: str, query: Mapping[str, object] | None = None) -> Iterator[Json]:
        """Yield the JSON objects of a stream as they arrive.  Raises as ``call`` does."""
        with self._open_connection(None) as connection:
            answer = self._send(connection, "GET", path, None, query)
            if answer.status != http.client.OK:
                _read(answer.status, answer.read())
            for line in _lines(answer):
                yield json.loads(line)

    def events(self, path: str, query: Mapping[str, object]) -> Iterator[tuple[str, Json]]:
        """Yield the name and the data of each server-sent event as it arrives.

        Raises as ``call`` does, Unreachable also if the server sends nothing for a minute.
        """
        with self._open_connection(TIMEOUT_S) as connection:
            answer = self._send(connection, "GET", path, None, query)
            if answer.status != http.client.OK:
                _read(answer.status, answer.read())
            name = ""
            for line in _lines(answer):
                word, _, value = line.partition(b": ")
                if word == b"event":
                    name = value.decode()
                elif word == b"data":
                    yield name, json.loads(value)

    def put_file(
        self, path: str, content: BinaryIO, content_type: str, query: Mapping[str, object]
    ) -> Json:
        """Send a file to a storage route.  Raises as ``call`` does."""
        with self._open_connection(None) as connection:
            target = f"{self._prefix}{path}?{urlencode(query)}"
            size = str(os.fstat(content.fileno()).st_size)
            headers = self._headers(content_type) | {"Content-Length": size}
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", target, content, headers)
            answer = connection.getresponse()  # a server that refuses does not read to the end
            return _read(answer.status, answer.read())

    def answers(self) -> bool:
        """Return whether a server answers and is healthy."""
        try:
            with self._open_connection(self.timeout_s) as connection:
                answer = self._send(connection, "GET", "/healthz", None, None)
                return answer.status == http.client.OK
        except Unreachable:
            return False

    @property
    def _prefix(self) -> str:
        return urlsplit(self.url).path.rstrip("/")

    @contextlib.contextmanager
    def _open_connection(self, timeout_s: float | None) -> Iterator[http.client.HTTPConnection]:
        """Open a connection for one call, without proxies and redirections."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        if parts.scheme == "https":
            context = _context(self.ca)
            connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        try:
            yield connection
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(self._explain_distrust(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"no server answers at {self.url} ({error}); start one: trainshed serve"
            ) from error
        finally:
            connection.close()

    def _explain_distrust(self, error: ssl.SSLCertVerificationError) -> str:
        if error.verify_code not in _OTHER_NAME:
            return (
                f"the certificate of {self.url} is not trusted ({error.verify_message}); a server "
                "of Trainshed has its CA certificates in tls/ca-bundle.pem in its data folder: "
                "copy that file to this machine and name it with --ca-file or TRAINSHED_CA_FILE"
            )
        host, names = urlsplit(self.url).hostname, self._names_of_certificate()
        valid = f"; it is for {', '.join(names)}" if names else ""
        return (
            f"the certificate of {self.url} is trusted, but not for the name {host}{valid}. Call "
            f"the server by one of its names, or have its administrator add {host} to "
            "allowed_hosts in config.toml and restart it"
        )

    def _names_of_certificate(self) -> Sequence[str]:
        """Return the names in the server's certificate, without sending a request."""
        parts, context = urlsplit(self.url), _context(self.ca)
        context.check_hostname = False
        address = (parts.hostname or "", parts.port or http.client.HTTPS_PORT)
        try:
            with (
                socket.create_connection(address, timeout=self.timeout_s) as raw,
                context.wrap_socket(raw, server_hostname=parts.hostname) as secure,
            ):
                names: Any = (secure.getpeercert() or {}).get("subjectAltName", ())
                return [str(name) for _, name in names]
        except OSError:
            return []

    def _send(
        self,
        connection: http.client.HTTPConnection,
        verb: str,
        path: str,
        document: Any,
        query: Mapping[str, object] | None,
    ) -> http.client.HTTPResponse:
        params = {key: value for key, value in (query or {}).items() if value is not None}
        target = f"{self._prefix}{path}" + (f"?{urlencode(params, doseq=True)}" if params else "")
        body = None if document is None else json.dumps(document).encode()
        connection.request(verb, target, body, self._headers("application/json"))
        return connection.getresponse()

    def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"User-Agent": AGENT, "Content-Type": content_type, **self.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers


def _context(ca: str | None) -> ssl.SSLContext:
    """Return the TLS context.  Raises Unreachable if the CA file has no certificate."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # also errors of TLS
        raise Unreachable(
            f"cannot read CA certificates from {ca}: {error}; give another file with --ca-file"
        ) from error


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the complete lines of a stream; ``readline`` would read single bytes."""
    rest = b""
    while piece := answer.read1(READ_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def _read(status: int, body: bytes) -> Json:
    try:
        document = json.loads(body or b"{}")
    except ValueError:
        document = None
    if isinstance(document, dict) and status < http.client.BAD_REQUEST:
        return document
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        message = (
            f"the response with status {status} is not from a Trainshed server; check the address"
        )
        raise ServerRefusal(status, "UNKNOWN", message, [])
    raise ServerRefusal(
        status,
        str(error.get("status") or _STATUS.get(status, "UNKNOWN")),
        str(error.get("message", f"HTTP {status}")),
        list(error.get("details") or []),
    )
