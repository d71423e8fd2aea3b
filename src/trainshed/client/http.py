"""HTTP to a Trainshed server, on the standard library alone: the command line starts quickly."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

Json = dict[str, Any]

#: A server that does not answer for so long is taken for dead; a stream may be silent longer.
TIMEOUT_S: Final = 60.0
AGENT: Final = "trainshed-cli"


class ServerRefusal(Exception):
    """The server's answer is an error: google.rpc.Status, as the server words it."""

    def __init__(self, http_status: int, status: str, message: str, details: list[Json]) -> None:
        """Keep the parts of the Status."""
        super().__init__(message)
        self.http_status = http_status
        self.status = status
        self.message = message
        self.details = details

    @property
    def violations(self) -> Iterator[tuple[str, str]]:
        """Field and description of each violation."""
        for detail in self.details:
            for found in detail.get("fieldViolations", ()):
                yield str(found.get("field", "")), str(found.get("description", ""))


class Unreachable(Exception):
    """No server answers at the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the server is and as whom to call it; ``token`` None sends no header."""

    url: str
    token: str | None = None
    timeout_s: float = TIMEOUT_S
    headers: Mapping[str, str] = field(default_factory=dict)

    def call(
        self,
        verb: str,
        path: str,
        document: Any = None,
        query: Mapping[str, object] | None = None,
    ) -> Json:
        """One call.  Raises ServerRefusal for an error, Unreachable where nobody answers."""
        connection = self._connect(self.timeout_s)
        try:
            answer = self._send(connection, verb, path, document, query)
            return _read(answer.status, answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def lines(self, path: str, query: Mapping[str, object] | None = None) -> Iterator[Json]:
        """The JSON objects of a stream, as they come.  Raises as ``call`` does."""
        connection = self._connect(None)
        try:
            answer = self._send(connection, "GET", path, None, query)
            if answer.status != http.client.OK:
                _read(answer.status, answer.read())
            for line in answer:
                yield json.loads(line)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def put_bytes(
        self, path: str, content: bytes, content_type: str, query: Mapping[str, object]
    ) -> Json:
        """Send bytes, as the storage routes take them.  Raises as ``call`` does."""
        connection = self._connect(None)
        try:
            target = f"{self._prefix}{path}?{urlencode(query)}"
            connection.request("POST", target, content, self._headers(content_type))
            answer = connection.getresponse()
            return _read(answer.status, answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    @property
    def _prefix(self) -> str:
        return urlsplit(self.url).path.rstrip("/")

    def _connect(self, timeout_s: float | None) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        verb: str,
        path: str,
        document: Any,
        query: Mapping[str, object] | None,
    ) -> http.client.HTTPResponse:
        words = {key: value for key, value in (query or {}).items() if value is not None}
        target = f"{self._prefix}{path}" + (f"?{urlencode(words)}" if words else "")
        body = None if document is None else json.dumps(document).encode()
        connection.request(verb, target, body, self._headers("application/json"))
        return connection.getresponse()

    def _headers(self, content_type: str) -> dict[str, str]:
        found = {"User-Agent": AGENT, "Content-Type": content_type, **self.headers}
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        return found

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"no server answers at {self.url} ({error}); start one: trainshed serve")


def _read(status: int, body: bytes) -> Json:
    try:
        found: Json = json.loads(body or b"{}")
    except ValueError:
        found = {"error": {"message": body[:500].decode("utf-8", "replace"), "status": "UNKNOWN"}}
    if status < http.client.BAD_REQUEST:
        return found
    error = found.get("error") or {}
    raise ServerRefusal(
        status,
        str(error.get("status", "UNKNOWN")),
        str(error.get("message", f"HTTP {status}")),
        list(error.get("details", [])),
    )
