"""Starts ``storage_app`` and talks to it in raw requests, so that tests see the real bytes."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

APP = Path(__file__).with_name("storage_app.py")
GOOGLE_PYTHON = Path(__file__).parents[2] / ".venv-google/bin/python"


class StorageProcess:
    """One server on a data directory; ``kill`` and ``start`` again, on the same port."""

    def __init__(self, data_dir, *options):
        self.data_dir = data_dir
        self._options = options
        self.port = 0
        self.start()

    def start(self):
        self._log = (self.data_dir / "app.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, APP, self.data_dir, str(self.port), *self._options],
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.port = int(self._process.stdout.readline())

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()

    @property
    def log(self):
        return (self.data_dir / "app.log").read_text()

    def connect(self):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60))

    def call(self, verb, path, body=None, headers=None, token=None):
        """One request; (status, headers, body), the body as JSON where it is."""
        auth = {"Authorization": f"Bearer {token}"} if token else {}
        with self.connect() as connection:
            connection.request(verb, path, body, {**auth, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, answer.headers, json.loads(text) if is_json else text

    def make(self, bucket, token=None):
        status, *_ = self.call("POST", "/storage/v1/b", json.dumps({"name": bucket}), token=token)
        assert status == 200

    def put(self, bucket, name, content=b"x", token=None, **query):
        query = "&".join(
            ["uploadType=media", f"name={name}", *(f"{k}={v}" for k, v in query.items())]
        )
        return self.call("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", content, token=token)

    def google(self, code, prefix="", **environ):
        """Run code under Google's clients; what it printed."""
        own = {
            "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{self.port}{prefix}",
            # gcsfs asks a gRPC service about the bucket otherwise, for a minute each time
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }
        done = subprocess.run(
            [GOOGLE_PYTHON, "-c", code],
            env={**os.environ, **own, **environ},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextlib.contextmanager
def storage_process(data_dir, *options):
    """A server that ends with the test, and has had no mistakes of its own to log."""
    process = StorageProcess(data_dir, *options)
    try:
        yield process
    finally:
        process.kill()
    assert "Traceback" not in process.log, process.log
