"""A collector of traces for tests: OTLP over HTTP on loopback, which may hang or refuse."""

import contextlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

#: How long a test waits for what it asserts.
WAIT_S_MAX = 120


def skip_without_opentelemetry():
    """Skip the tests of a module where the packages of the extra are missing."""
    reason = "OpenTelemetry is not installed; make test installs it (trainshed[otel])"
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter", reason=reason)


class Collector:
    """Remembers the spans that it accepts, as protobuf messages.

    ``status`` is what it answers, with so many ``answer_bytes``.
    """

    def __init__(self):
        self.status = 200
        self.answer_bytes = 0
        self.spans = []
        self.resources = []
        self.headers = []
        self.requests = 0
        self.is_open = threading.Event()
        self.is_open.set()
        handler = type("Handler", (_Handler,), {"collector": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.is_open.set()
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, name):
        """Wait until a span of this name has come."""
        deadline = time.monotonic() + WAIT_S_MAX
        while not any(span.name == name for span in list(self.spans)):
            assert time.monotonic() < deadline, [span.name for span in self.spans]
            time.sleep(0.02)

    def job_spans(self, uid):
        """The spans of a job by id; one that came twice has the same content."""
        spans = {}
        for span in list(self.spans):
            if attributes_of(span).get("trainshed.job.uid") == uid:
                assert spans.setdefault(span.span_id, span) == span
        return spans

    def accept(self, body, headers):
        """Answer a request with a status."""
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415

        self.requests += 1
        self.is_open.wait(WAIT_S_MAX)
        if self.status == 200:
            message = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
            for resource_spans in message.resource_spans:
                self.resources.append(attributes_of(resource_spans.resource))
                for scope_spans in resource_spans.scope_spans:
                    self.spans += scope_spans.spans
            self.headers.append(dict(headers))
        return self.status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.collector.accept(body, self.headers))
        self.send_header("content-length", str(self.collector.answer_bytes))
        self.end_headers()
        with contextlib.suppress(OSError):  # the server closes a connection with a long answer
            for _ in range(0, self.collector.answer_bytes, 1 << 20):
                self.wfile.write(bytes(1 << 20))

    def log_message(self, *args):
        """Print nothing."""


def attributes_of(message):
    """The attributes of a span or a resource, by name."""
    values = {}
    for pair in message.attributes:
        field = pair.value.WhichOneof("value")
        value = getattr(pair.value, field)
        values[pair.key] = (
            [v.string_value for v in value.values] if field == "array_value" else value
        )
    return values
