"""A stand-in for a running server: it notes every request and answers with what it is given."""

import http.server
import json
import os
import threading

from trainshed.files.server_files import RunningServer, write_running


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        document = json.loads(body) if body else None
        path, _, query = self.path.partition("?")
        if path != "/healthz":
            header = self.headers.get("Authorization")
            self.server.requests.append((self.command, path, header, document))
            self.server.queries.append(query)
        status, answer = self.server.answer(self.command, path, document)
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def __getattr__(self, name):
        if name.startswith("do_"):  # do_GET, do_POST and so on
            return self.handle_any
        raise AttributeError(name)

    def log_message(self, *_):
        pass


class StandIn:
    """Serves until the block ends; ``requests`` holds (verb, path, Authorization, document).

    ``queries`` has the query of each request.
    """

    def __init__(self, answer=lambda *_: (200, {})):
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.answer = answer
        self._server.requests = self.requests = []
        self._server.queries = self.queries = []
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def note(self, data_dir, text="tsd_admin", **more):
        """Leave in the data directory what a server leaves there."""
        data_dir.mkdir(parents=True, exist_ok=True)
        if text:
            (data_dir / "admin-token").write_text(f"{text}\n")
        defaults = {"grpc": None, "pid": os.getpid(), "anonymous": False, "ca": None}
        write_running(data_dir, RunningServer(url=self.url, **{**defaults, **more}))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
