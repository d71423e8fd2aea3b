"""A gateway in this process, and replicas that speak to it in bytes of their own."""

import json
import os
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from trainshed.api.gateway.app import refuse_jobs
from trainshed.api.gateway.make import make_gateway
from trainshed.api.storage import storage_routes
from trainshed.engines.processes import identity
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import AttemptKey
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.signed_addresses import AddressRefused
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.service.gateway.machine_sockets import FILE
from trainshed.service.gateway.tokens import AttemptTokens
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads
from trainshed.store.base import StoreFault

#: Only something broken takes so long.
WAIT_S_MAX = 60
ONE, TWO, OTHER = AttemptKey(11, 1), AttemptKey(12, 1), AttemptKey(21, 1)
PROJECTS = {ONE: "one", TWO: "one", OTHER: "two"}


class Owners:
    """The part of a store that knows whose buckets are whose."""

    def __init__(self):
        self.projects = {"mine": "one", "theirs": "two"}

    def bucket(self, name):
        return (self.projects[name], datetime.now(UTC)) if name in self.projects else None

    def buckets(self, project):
        return [name for name, owner in self.projects.items() if owner == project]

    def add_bucket(self, name, project):
        return self.projects.setdefault(name, project)

    def project(self, name):
        return name, "1001"


def nobody(_authorization, _by):
    raise Refusal(Code.UNAUTHENTICATED, "The token is not known here.")


def nobody_signed(_address):
    raise AddressRefused("SignatureDoesNotMatch", "No key of this name is known.")


class World:
    """A gateway whose peers are who a test says."""

    def __init__(self, data_dir, public=None):
        self.objects = Objects(data_dir=data_dir)
        for name in ("mine", "theirs"):
            self.objects.buckets.make(name)
        self.caller = ONE
        self.ended = set()
        self.is_away = False
        self.of_address = nobody_signed
        self.denied = []
        self.tokens = AttemptTokens(b"secret")
        self._data_dir = data_dir
        self._public = public
        self.serving = self.make_serving()
        self.bundle = data_dir / "tls/ca-bundle.pem"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._thread = threading.Thread(target=self.serving.run, args=([self._listener],))
        self._thread.start()

    def make_serving(self):
        rows = storage_routes(self.objects, Uploads(self.objects), Owners())
        return make_gateway(
            self._data_dir,
            rows=refuse_jobs(rows),
            tokens=self.tokens,
            attempt_at=lambda _theirs, _ours: self.caller,
            find=self.find,
            recognise=nobody,
            of_address=self._of_address,
            public=self._public,
            audit=lambda **fields: self.denied.append(fields),
        )

    def find(self, key):
        if self.is_away:
            raise StoreFault("the database is away")
        if key in self.ended or key not in PROJECTS:
            return None
        return LivingAttempt(
            key=key, job_id=f"job{key.uid}", project=PROJECTS[key], project_number="1001"
        )

    def _of_address(self, address):
        return self.of_address(address)

    def close(self):
        self.serving.stop()
        self._thread.join(WAIT_S_MAX)
        self._listener.close()
        assert not self._thread.is_alive()

    def token(self, key=None, *, now_s=None):
        return self.tokens.make(key or ONE, time.time() if now_s is None else now_s)

    def put(self, name, content, bucket="mine"):
        path = self.objects.buckets.path(bucket) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@contextmanager
def taken_port_of_jobs(data_dir):
    """The gateway's port that a job was given, which runs on; this process has it meanwhile."""
    folder = AttemptFolder(data_dir / "jobs/1/1")
    folder.make()
    lock = folder.hold()
    with socket.create_server(("127.0.0.1", 0)) as thief:
        port = thief.getsockname()[1]
        # the pid of the last server is another program's now
        server = identity.read_identity(1)._replace(start_ticks=7)
        (data_dir / FILE).write_text(json.dumps({"port": port, "server": server}))
        yield port
    os.close(lock)


class Replica:
    """Connections of one test."""

    def __init__(self, world):
        self._world = world
        self._stack = ExitStack()

    def close(self):
        self._stack.close()

    def plain(self):
        """A connection in the clear."""
        sock = socket.create_connection(self._world.address, timeout=WAIT_S_MAX)
        return Wire(self._stack.enter_context(sock))

    def tls(self, host="storage.googleapis.com", *, connect=True):
        """One to a host of Google's, by the proxy or directly; its certificate is checked."""
        wire = self.plain()
        if connect:
            wire.send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n")
            assert wire.answer().status == 200
        context = ssl.create_default_context(cafile=self._world.bundle)
        sock = context.wrap_socket(wire.socket, server_hostname=host)
        return Wire(self._stack.enter_context(sock), host, self._world.token)


class Answer:
    """A head as it was written, and its body."""

    def __init__(self, head, body):
        self.head = head.decode("latin-1")
        self.status = int(self.head.split(" ")[1])
        self.body = body

    def header(self, name):
        """By this spelling, as TensorFlow looks it up."""
        for line in self.head.split("\r\n")[1:]:
            if line.startswith(f"{name}: "):
                return line.partition(": ")[2]
        return None


class Wire:
    """One connection."""

    def __init__(self, opened, host="127.0.0.1", token=None):
        self.socket = opened
        self._host = host
        self._token = token
        self._read = b""

    def send(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))

    def ask(self, verb, target, *, token=None, body=b"", **headers):
        """One request and its answer; the attempt's token is shown to Google's hosts."""
        self.begin(verb, target, token=token, length=len(body), **headers)
        self.send(body)
        return self.answer(bodiless=verb == "HEAD")

    def begin(self, verb, target, *, token=None, length=0, **headers):
        bearer = token if token is not None else self._token() if self._token else ""
        lines = [f"{verb} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"Authorization: Bearer {bearer}"] if bearer else []
        lines += [f"Content-Length: {length}"] if length or verb in ("POST", "PUT") else []
        lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
        self.send("\r\n".join([*lines, "", ""]))

    def answer(self, *, bodiless=False):
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        answer = Answer(head, b"")
        length = 0 if bodiless else int(_lower(head).get(b"content-length", b"0"))
        if _lower(head).get(b"transfer-encoding") == b"chunked":
            answer.body = self._chunks()
            return answer
        while len(self._read) < length:
            self._more()
        answer.body, self._read = self._read[:length], self._read[length:]
        return answer

    def _chunks(self):
        body = b""
        while True:
            while b"\r\n" not in self._read:
                self._more()
            size, _, rest = self._read.partition(b"\r\n")
            count = int(size, 16)
            while len(rest) < count + 2:
                self._more()
                rest = self._read.partition(b"\r\n")[2]
            body, self._read = body + rest[:count], rest[count + 2 :]
            if not count:
                return body

    def _more(self):
        piece = self.socket.recv(1 << 16)
        assert piece, f"the gateway has closed the connection behind {self._read!r}"
        self._read += piece

    def rest(self):
        """What comes until the gateway closes the connection."""
        content = self._read
        while piece := self.socket.recv(1 << 16):
            content += piece
        return content


def _lower(head):
    pairs = (line.partition(b": ") for line in head.split(b"\r\n")[1:])
    return {name.lower(): value for name, _, value in pairs}
