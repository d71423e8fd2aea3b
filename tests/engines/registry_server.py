"""A registry of the tests' own, of Debian's package docker-registry, with images made by hand.

It listens on loopback, keeps its files in a folder of theirs, and ends with the tests.
"""

import gzip
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import ssl
import subprocess
import tarfile
import threading
import time
from base64 import b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import jwt
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

DEADLINE_S = 60.0
OCI = "application/vnd.oci.image"
USER, PASSWORD = "trainer", "river of stones"
#: The line of a password file for this user (bcrypt, the only form that the registry reads).
HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuuLJWFgYgW8UIR17TzvLUhWamfznwbdL2\n"
_LISTENS = re.compile(r"listening on (127\.0\.0\.1:\d+)")


def why_not() -> str:
    """What keeps a registry from being started here; empty where nothing does."""
    absent = shutil.which("docker-registry") is None
    return "not installed (apt install docker-registry): docker-registry" if absent else ""


@contextmanager
def running_registry(folder: Path, **sections):
    """Start one; ``sections`` are added to its configuration.  Yields its host with its port."""
    if reason := why_not():
        pytest.skip(reason)
    folder.mkdir()
    config = {
        "version": 0.1,
        "log": {"level": "info"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": "127.0.0.1:0", "secret": "of one test", **sections.pop("http", {})},
        **sections,
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    env = {"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [shutil.which("docker-registry"), "serve", folder / "config.yml"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield _wait_for_host(process, folder / "log")
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_host(process, log: Path) -> str:
    end = time.monotonic() + DEADLINE_S
    while not (match := _LISTENS.search(log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    return match[1]


class Pusher:
    """Puts images into a registry, as a docker client would."""

    def __init__(self, host: str, *, ca: Path | None = None, authorization: str = "") -> None:
        self.host, self.authorization = host, authorization
        self.trust = ssl.create_default_context(cafile=ca) if ca else None

    def image(self, repository: str, tag: str, *, architecture: str = "amd64", **config) -> str:
        """Push an image with one small layer; returns its digest."""
        manifest = self._manifest(repository, architecture, config)
        return self._put_manifest(repository, tag, manifest)

    def index(self, repository: str, tag: str, **configs) -> str:
        """Push an image for several architectures; ``configs`` are by architecture."""
        rows = []
        for architecture, config in configs.items():
            manifest = self._manifest(repository, architecture, config)
            data = json.dumps(manifest).encode()
            digest = self._put_manifest(repository, digest_of(data), manifest)
            platform = {"os": "linux", "architecture": architecture}
            rows.append(
                {**row(manifest["mediaType"], data), "platform": platform, "digest": digest}
            )
        index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": rows}
        return self._put_manifest(repository, tag, index)

    def _manifest(self, repository: str, architecture: str, config) -> dict:
        document = {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest_of(LAYER)]},
        }
        data = json.dumps(document).encode()
        layer = gzip.compress(LAYER, mtime=0)
        for blob in (data, layer):
            self._put_blob(repository, blob)
        return {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": row(f"{OCI}.config.v1+json", data),
            "layers": [row(f"{OCI}.layer.v1.tar+gzip", layer)],
        }

    def _put_blob(self, repository: str, data: bytes) -> None:
        _, headers = self._send("POST", f"/v2/{repository}/blobs/uploads/", b"", {})
        place = urlsplit(urljoin(f"http://{self.host}/", headers["Location"]))
        target = f"{place.path}?{place.query}&digest={digest_of(data)}"
        self._send("PUT", target, data, {"Content-Type": "application/octet-stream"})

    def _put_manifest(self, repository: str, name: str, manifest) -> str:
        data = json.dumps(manifest).encode()
        path = f"/v2/{repository}/manifests/{name}"
        self._send("PUT", path, data, {"Content-Type": manifest["mediaType"]})
        return digest_of(data)

    def _send(self, verb, path, data, headers):
        if self.authorization:
            headers = {**headers, "Authorization": self.authorization}
        connection = (
            http.client.HTTPSConnection(self.host, timeout=DEADLINE_S, context=self.trust)
            if self.trust
            else http.client.HTTPConnection(self.host, timeout=DEADLINE_S)
        )
        try:
            connection.request(verb, path, data, headers)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status < 300, (verb, path, answer.status, body)
            return body, answer.headers
        finally:
            connection.close()


def _make_layer() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("hello"))
    return target.getvalue()


LAYER = _make_layer()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def row(media_type: str, data: bytes) -> dict:
    return {"mediaType": media_type, "size": len(data), "digest": digest_of(data)}


def basic(user: str = USER, password: str = PASSWORD) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


class Requests(list):
    """(method and path, Authorization) of each request that a server got."""


@contextmanager
def serving(answer, context: ssl.SSLContext | None = None):
    """Serve HTTP on loopback: ``answer(handler)`` writes each answer.

    Yields (host with port, requests).
    """
    requests = Requests()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append((self.path, self.headers.get("Authorization")))
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(handler, status: int, body: bytes = b"", **headers: str) -> None:
    """Write an answer; underscores of names are dashes."""
    handler.send_response(status)
    for name, text in {"Content_Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), text)
    handler.end_headers()
    handler.wfile.write(body)


class TokenService:
    """Gives tokens that a registry accepts, for the scope that a caller names."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._key = key.read_text()
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
        self._chain = [b64encode(loaded.public_bytes(Encoding.DER)).decode()]

    def token(self, scope: str) -> str:
        kind, repository, actions = scope.split(":")
        access = [{"type": kind, "name": repository, "actions": actions.split(",")}]
        now = int(time.time())
        claims = {"iss": "tests", "aud": "registry", "sub": USER, "access": access, "jti": scope,
                  "iat": now, "nbf": now - 60, "exp": now + 600}  # fmt: skip
        return jwt.encode(claims, self._key, "ES256", headers={"x5c": self._chain})

    def answer(self, handler) -> None:
        query = parse_qs(urlsplit(handler.path).query)
        if handler.headers.get("Authorization") != basic():
            send(handler, 401)
            return
        send(handler, 200, json.dumps({"token": self.token(query["scope"][0])}).encode())
