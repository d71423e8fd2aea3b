"""HTTP for the emulator: connections, streams, faults and the audit list.

One thread a connection.  ``stop`` cuts all connections, as a server that is killed does; ``start``
listens on the same port again.
"""

import contextlib
import json
import select
import socket
import socketserver
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .discovery import Discovery
from .faults import BAD_GATEWAY, CLOSED, EXPIRED, HANG, SILENT, Disturbance, Faults, make_refusal
from .handlers import Answer, Handlers, answer_error, answer_json, convert, wants_table
from .rbac import ANONYMOUS, Access
from .requests import Request, Target, parse_request
from .statuses import ApiError, PathNotFound
from .store import Store
from .tables import make_table
from .watching import Watch

HOST = "127.0.0.1"
_HEALTH = ("/healthz", "/livez", "/readyz")
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
#: A connection without a request for so long is closed, in seconds.
_IDLE_S = 600.0
_MAX_BODY = 3 * 2**20


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request that was answered; ``code`` is 0 where a fault cut it off."""

    user: str
    verb: str
    path: str
    code: int
    query: Mapping[str, str]
    body: bytes = b""


class _Cut(Exception):
    """The connection is to be closed without an answer."""


class ApiServer:
    """The HTTP server of a store.  ``audit`` has all requests in the order of their answers."""

    def __init__(
        self,
        store: Store,
        access: Access,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        bookmark_s: float = 60.0,
    ) -> None:
        self.store = store
        self.access = access
        self.faults = Faults()
        self.discovery = Discovery()
        self.handlers = Handlers(store, access)
        self.audit: list[AuditEntry] = []
        self.bookmark_s = bookmark_s
        self.host = HOST
        self.port = port
        self.tls = tls
        self._generation = 0
        self._server: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._server is not None

    def start(self) -> None:
        """Listen; the first time on a free port, later on that again."""
        server = _Listener((self.host, self.port), _make_handler(self), self.tls)
        self.port = server.server_address[1]
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(0.05,), name="api-server", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Cut all connections and listen no more; what is stored stays."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.cut()
        self._generation += 1
        self.faults.clear()
        self.store.history.wake()
        server.server_close()

    def end_watches(self) -> None:
        """End all watches that are open, as a server does after their time."""
        self._generation += 1
        self.store.history.wake()

    def expire_watches(self) -> None:
        """Forget past events: watches that are behind, and unfinished lists, get 410."""
        self.store.history.compact()
        self.handlers.lister.forget()

    def list_audit(self, verb: str = "", path: str = "") -> list[AuditEntry]:
        """Entries of a verb (all where empty) whose path contains a text."""
        return [row for row in tuple(self.audit) if verb in ("", row.verb) and path in row.path]

    def note(self, request: Request | None, raw_path: str, code: int) -> None:
        user = request.user.name if request else ANONYMOUS
        verb = request.verb if request else ""
        query = request.query if request else {}
        body = request.body if request else b""
        self.audit.append(AuditEntry(user, verb, raw_path.partition("?")[0], code, query, body))

    def answer(self, request: Request, accept: str) -> Answer:
        """The answer to a request that may be made; watches come as a stream."""
        if request.path in _HEALTH:
            return Answer(200, "ok", _TEXT)
        self.access.require(request.user, request.action)
        if request.target is None:
            body = self.discovery.answer(request.path, accept)
            if body is None:
                raise PathNotFound
            answer = answer_json(body)
            if body.get("kind") == "APIGroupDiscoveryList":
                answer.content_type = f"{_JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            return answer
        if request.is_watch:
            return Answer(200, parts=self._watch(request, request.target))
        return self.handlers.handle(request)

    def _watch(self, request: Request, target: Target) -> Iterator[bytes]:
        generation = self._generation
        watch = Watch(
            self.store,
            request,
            target,
            bookmark_s=self.bookmark_s,
            is_ended=lambda: self._generation != generation,
        )
        render = self._render_row if wants_table(request) else _render_event

        def stream() -> Iterator[bytes]:
            for event in watch.iterate():
                yield render(event, target) if event else b""

        return stream()

    def _render_row(self, event: Mapping[str, Any], target: Target) -> bytes:
        if event["type"] in ("ERROR", "BOOKMARK"):
            return _render_event(event, target)
        metadata = {"resourceVersion": event["object"]["metadata"]["resourceVersion"]}
        table = make_table(
            target.resource, target.version, [event["object"]], metadata, self.store.clock()
        )
        return _render_event({"type": event["type"], "object": table}, None)

    def wait_silently(
        self, fault: Disturbance, timeout_s: float, is_gone: Callable[[], bool]
    ) -> None:
        """Say nothing until the time, ``stop``, ``clear`` or the client's end."""
        generation, end = self._generation, time.monotonic() + timeout_s
        while self._generation == generation and time.monotonic() < end and not is_gone():
            if fault.released.wait(0.1):
                return


def _render_event(event: Mapping[str, Any], target: Target | None) -> bytes:
    if target is not None and event["type"] in ("ADDED", "MODIFIED", "DELETED"):
        event = {"type": event["type"], "object": convert(event["object"], target)}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


class _Listener(ThreadingHTTPServer):
    """Keeps its connections, so that they can be cut."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without the library's look-up of a host name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(_IDLE_S)
        if self._tls is not None:
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        with self._open_lock:
            connections = tuple(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that break are part of the tests."""


def _make_handler(api: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Exchange):
        server_api = api

    return Handler


class _Exchange(BaseHTTPRequestHandler):
    """Reads requests of one connection and writes their answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_api: ApiServer

    def log_message(self, *_: Any) -> None:
        """The audit list says what was asked."""

    def _exchange(self) -> None:
        request: Request | None = None
        try:
            request, answer = self._compute()
        except _Cut:
            self.close_connection = True
            self.server_api.note(request, self.path, 0)
            return
        self.server_api.note(request, self.path, answer.code)
        try:
            self._send(request, answer)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _exchange  # noqa: N815 - names of the library

    def _compute(self) -> tuple[Request | None, Answer]:
        request: Request | None = None
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self._read_body(headers)
        api = self.server_api
        try:
            user = api.access.authenticate(
                headers.get("authorization"),
                headers.get("impersonate-user"),
                self._get_certificate(),
            )
            absent = api.discovery.hidden | api.discovery.other_versions.keys()
            request = parse_request(self.command, self.path, headers, body, absent)
            request.user = user
            if fault := api.faults.take(request.verb, request.path):
                return request, self._fail(request, fault)
            return request, api.answer(request, headers.get("accept", ""))
        except _Cut:
            raise
        except PathNotFound:
            return request, Answer(404, "404 page not found\n", _TEXT)
        except ApiError as error:
            return request, answer_error(error)
        except Exception as error:  # noqa: BLE001 - a mistake of the emulator is to be seen
            traceback.print_exc()
            return request, answer_error(ApiError(500, "InternalError", repr(error)))

    def _get_certificate(self) -> Mapping[str, Any] | None:
        if isinstance(self.connection, ssl.SSLSocket):
            return self.connection.getpeercert()
        return None

    def _read_body(self, headers: Mapping[str, str]) -> bytes:
        length = int(headers.get("content-length") or 0)
        if length > _MAX_BODY:
            raise _Cut
        body = self.rfile.read(length) if length else b""
        if len(body) < length:  # the client was killed while it sent the request
            raise _Cut
        return body

    def _fail(self, request: Request, fault: Disturbance) -> Answer:
        api = self.server_api
        if fault.kind == CLOSED:
            raise _Cut
        if fault.kind == HANG:
            api.wait_silently(fault, _IDLE_S, self._is_gone)
            raise _Cut
        if fault.kind == SILENT:
            return Answer(200, parts=self._be_silent(request, fault))
        if fault.kind == BAD_GATEWAY:
            return Answer(502, "<html>502 Bad Gateway</html>\n", "text/html")
        if fault.kind == EXPIRED and request.is_watch:
            error = {"type": "ERROR", "object": make_refusal(fault).status}
            return Answer(200, parts=[json.dumps(error).encode() + b"\n"])
        return answer_error(make_refusal(fault))

    def _be_silent(self, request: Request, fault: Disturbance) -> Iterator[bytes]:
        yield b""
        wanted_s = request.get_seconds("timeoutSeconds") or _IDLE_S
        self.server_api.wait_silently(fault, wanted_s, self._is_gone)

    def _send(self, request: Request | None, answer: Answer) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Audit-Id", str(len(self.server_api.audit)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        for text in request.warnings if request else ():
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            self.send_header("Warning", f'299 - "{escaped}"')
        if answer.parts is not None:
            self._send_parts(answer.parts)
            return
        data = answer.text.encode()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _send_parts(self, parts: Iterable[bytes]) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for part in parts:
            if part:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()
            elif self._is_gone():
                raise ConnectionError("the client is gone")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _is_gone(self) -> bool:
        """True where the client closed its end of the connection."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            if not readable:
                return False
            if isinstance(self.connection, ssl.SSLSocket):
                return True
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True
