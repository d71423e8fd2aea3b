"""A server that writes down what gcloud sends, and answers with as little as satisfies it."""

import base64
import json
import re
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

#: Headers that mean something to a server; the rest differ with machine, Python and time.
KEPT = ("content-type", "content-range", "x-upload-content-type", "x-upload-content-length")

JOB = {"jobId": "recorded", "state": "SUCCEEDED", "labels": {"a": "1"}, "etag": "YWJj"}
JOB["createTime"] = JOB["startTime"] = JOB["endTime"] = "2026-11-21T00:00:00Z"
NAME = "projects/demo-proj/locations/us-central1/{}/7"


class _Server(ThreadingHTTPServer):
    """gcloud keeps its connections open for longer than a test takes."""

    daemon_threads = False

    def __init__(self, *args):
        self._connections = []
        super().__init__(*args)

    def get_request(self):
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def hang_up(self):
        """End all connections, and with them their threads."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Recorder:
    """Use as a context manager; ``requests`` are those since the last ``forget``."""

    def __enter__(self):
        recorder = self
        self.requests = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                recorder.requests.append(written(self.command, self.path, self.headers, body))
                headers, answer = answer_to(self.command, self.path, recorder.url, body)
                data = json.dumps(answer).encode()
                self.send_response(200)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer  # noqa: N815  # its own words

            def log_message(self, *_):
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    def forget(self):
        self.requests.clear()


def written(verb, path, headers, body):
    """A request as it is kept; a body that is no JSON as base64, so that every byte is there."""
    entry = {"verb": verb, "path": path}
    recorded_headers = {name: headers[name] for name in KEPT if headers.get(name)}
    if recorded_headers:
        entry["headers"] = recorded_headers
    if body:
        try:
            entry["json"] = json.loads(body)
        except ValueError:
            entry["base64"] = base64.b64encode(body).decode()
    return entry


def answer_to(verb, path, url, body):
    """Headers and JSON that let gcloud go on."""
    parts = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    headers = {"Content-Type": "application/json"}
    if "/upload/" in parts.path:
        bucket = parts.path.split("/")[-2]
        size = re.search(rb'"size": "(\d+)"', body)
        stored = {"bucket": bucket, "name": query.get("name"), "size": size and size[1].decode()}
        if query.get("uploadType") == "resumable" and verb == "POST":
            headers["Location"] = f"{url}{path}&upload_id=1"
        elif verb == "PUT":
            stored["size"] = str(len(body))
        return headers, stored
    if parts.path == "/v2/entries:list":
        return headers, {}
    if parts.path.endswith((":cancel", "customJobs", "hyperparameterTuningJobs", "jobs")):
        return headers, _of_collection(verb, parts.path)
    if "/locations/" in parts.path:
        collection = parts.path.split("/")[-2]
        return headers, {"name": NAME.format(collection), "done": True, "endTime": JOB["endTime"]}
    return headers, JOB


def _of_collection(verb, path):
    if verb == "GET" or path.endswith(":cancel"):
        return {}
    return JOB if path.endswith("/jobs") else {"name": NAME.format(path.rpartition("/")[2])}
