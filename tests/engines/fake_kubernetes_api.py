"""A small API server on a loopback port: lists in pages, watches, and faults on order."""

import base64
import json
import threading
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

PODS = "/api/v1/namespaces/ml/pods"
#: Seconds after which a request that waits for the test gives up.
WAIT_S_MAX = 60.0


def status(code: int, reason: str, message: str = "no", **details: Any) -> bytes:
    """The body of an error, as the API server writes it."""
    value = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    more = {"details": details} if details else {}
    return json.dumps(
        {**value, "message": message, "reason": reason, **more, "code": code}
    ).encode()


EXPIRED = status(410, "Expired", "too old resource version: 1 (3601)")


def pod(name: str, uid: str = "", **fields: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "managedFields": [{"manager": "kubelet"}],
    }
    return {"metadata": metadata, "status": {"phase": "Pending", **fields}}


class SentRequest(NamedTuple):
    """One request that has arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query


class FakeApi:
    """Objects of one list; ``faults`` answer the next requests instead."""

    def __init__(self, ssl_context: Any = None, tokens: tuple[str, ...] = ()) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.version = 100
        self.oldest = 0
        self.tokens = list(tokens)
        self.requests: list[SentRequest] = []
        self.faults: deque[Any] = deque()
        self.after_events: deque[Any] = deque()
        self.ends_watches = True
        self.changed = threading.Condition()
        self.ends = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.api = self
        if ssl_context is not None:
            self._server.socket = ssl_context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if ssl_context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        with self.changed:
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, value: dict[str, Any]) -> None:
        """Create or change an object."""
        uid = value["metadata"]["uid"]
        self._note("MODIFIED" if uid in self.objects else "ADDED", value)
        self.objects[uid] = value

    def remove(self, value: dict[str, Any]) -> None:
        del self.objects[value["metadata"]["uid"]]
        self._note("DELETED", value)

    def bookmark(self) -> None:
        self._note("BOOKMARK", {"metadata": {}})

    def expire(self) -> None:
        """Forget all versions before the current one."""
        self.oldest = self.version

    def _note(self, kind: str, value: dict[str, Any]) -> None:
        with self.changed:
            self.version += 1
            value["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((self.version, kind, json.loads(json.dumps(value))))
            self.changed.notify_all()

    def queries(self, *, watches: bool) -> list[dict[str, str]]:
        return [request.query for request in self.requests if request.is_watch == watches]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = WAIT_S_MAX

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        api = self.server.api
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = SentRequest(
            self.command, parts.path, dict(parse_qsl(parts.query)), dict(self.headers), body
        )
        api.requests.append(request)
        if api.faults and (fault := api.faults.popleft()) is not None:
            fault(self)
        elif api.tokens and request.headers.get("Authorization", "")[7:] not in api.tokens:
            self.write(401, status(401, "Unauthorized", "Unauthorized"))
        elif request.is_watch:
            self._watch(api, int(request.query["resourceVersion"]))
        elif request.method == "GET" and request.path == PODS:
            self.write(200, json.dumps(_list(api, request.query)).encode())
        else:
            self.write(200, body or b'{"kind": "Status", "status": "Success"}')

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    def write(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def write_chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def drop(self) -> None:
        """End the connection without the end of the answer."""
        self.close_connection = True

    def hold(self) -> None:
        """Send nothing until the test ends."""
        self.server.api.ends.wait(WAIT_S_MAX)
        self.drop()

    def _watch(self, api: FakeApi, version: int) -> None:
        self.begin_chunks()
        if version < api.oldest:
            self.write_chunk(b'{"type":"ERROR","object":' + EXPIRED + b"}\n")
            return self.write_chunk(b"")
        while not api.ends.is_set():
            with api.changed:
                events = [event for event in api.history if event[0] > version]
                if not events and not api.ends_watches:
                    api.changed.wait(WAIT_S_MAX)
            for _, kind, value in events:
                line = json.dumps({"type": kind, "object": value}) + "\n"
                self.write_chunk(line.encode())
            version = max((event[0] for event in events), default=version)
            if api.after_events:
                return api.after_events.popleft()(self)
            if api.ends_watches:
                break
        return self.write_chunk(b"")


def _list(api: FakeApi, query: dict[str, str]) -> dict[str, Any]:
    values = list(api.objects.values())
    start = int(base64.b64decode(query.get("continue", ""))) if "continue" in query else 0
    end = start + int(query.get("limit", len(values) or 1))
    metadata = {"resourceVersion": str(api.version)}
    if end < len(values):
        metadata["continue"] = base64.b64encode(str(end).encode()).decode()
    return {"kind": "PodList", "metadata": metadata, "items": values[start:end]}


def error(code: int, body: bytes = b"", **headers: str) -> Any:
    """A fault: an answer with this code."""
    return lambda handler: handler.write(code, body, **headers)
