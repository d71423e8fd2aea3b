"""What the tests of the edge have in common: callers, a small table, an application around them."""

import socket
import threading
from contextlib import contextmanager
from dataclasses import MISSING, fields
from unittest.mock import MagicMock

import httpx
import uvicorn

from trainshed.api.call import Method, Routes
from trainshed.api.chain import ChainServices
from trainshed.api.connections import Connections, Times, limits_of
from trainshed.api.http_server import HttpServer
from trainshed.api.native.app import make_app as make_native
from trainshed.api.native.services import Native
from trainshed.api.permissions import Permissions
from trainshed.api.probes import Probes
from trainshed.api.rest import make_app
from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.model.refusals import Code, Refusal

BODY_BYTES_MAX = 10_000
#: How long anything is waited for; only something broken takes so long.
WAIT_S_MAX = 60

CALLERS = {
    "admin": Caller(name="root", project=ALL_PROJECTS, role=AccessRole.ADMIN),
    "demo": Caller(name="dora", project="demo", role=AccessRole.SUBMITTER),
    "reader": Caller(name="rita", project="demo", role=AccessRole.VIEWER),
    "other": Caller(name="otto", project="other", role=AccessRole.SUBMITTER),
    "bucket": Caller(name="rita", project="demo", role=AccessRole.VIEWER, bucket="data"),
}
NUMBERS = {"demo": "1001", "other": "1002"}


def recognise(authorization, *, loopback, address):
    del loopback, address
    if authorization is None:
        raise Refusal(Code.PERMISSION_DENIED, "The call carries no credentials.")
    caller = CALLERS.get(authorization.removeprefix("Bearer "))
    if caller is None:
        raise Refusal(Code.UNAUTHENTICATED, "The token is not known here.")
    return caller


def project(text):
    """As the store does it, for the two projects there are."""
    for name, number in NUMBERS.items():
        if text in (name, number):
            return name, number
    return text, "9" + str(sum(text.encode()))


def surroundings(methods, **changes):
    services = {
        "routes": Routes(methods),
        "permissions": Permissions(project),
        "recognise": recognise,
        "allowed_hosts": ("testserver",),
        "allowed_origins": ("https://console.example",),
        "body_bytes_max": BODY_BYTES_MAX,
    }
    return ChainServices(**services | changes)


class Seen:
    """A handler that keeps its calls and answers what it is told to."""

    def __init__(self, answer=None):
        self.calls = []
        self.answer = {"ok": True} if answer is None else answer

    def __call__(self, call):
        self.calls.append(call)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def method(verb, path, handle, *, role=AccessRole.VIEWER, **fields):
    return Method(verb=verb, path=path, role=role, handle=handle, **fields)


def build_native(**parts):
    """The native API made of some parts; each other part is a mock that no test looks at."""
    needed = [field.name for field in fields(Native) if field.default is MISSING]
    return Native(**{**{name: MagicMock() for name in needed}, **parts})


def native_routes(*routers):
    """The native API of some routers: an application of all of them takes as long as a test."""
    return make_native(Permissions(project), "1", routers)


WELL = Probes(is_healthy=lambda: True, is_controlling=lambda: True)


def application(  # noqa: PLR0913 - the parts of the application
    methods, *, raw=(), native=None, exchange=None, probes=WELL, console=None, **changes
):
    return make_app(
        surroundings(methods, **changes),
        raw=raw,
        native=native,
        exchange=exchange or (lambda assertion, _: {"access_token": assertion}),
        probes=probes,
        console=console,
    )


@contextmanager
def serving(app, *, connections=None, tls=None, **options):
    """The application on a real server; gives the port.

    The server keeps idle connections longer than clients do, who would else meet its end of them.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none", **options)
    patient = Times(head_s=WAIT_S_MAX, keep_alive_s=WAIT_S_MAX)
    server = HttpServer(config, connections or Connections(limits_of(1024), patient), tls)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=WAIT_S_MAX)
        listener.close()
    assert not thread.is_alive()


@contextmanager
def client(app, token="demo", **options):  # noqa: S107  # it opens nothing
    """A client that shows the token of one of the callers, or none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with (
        serving(app, **options) as port,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers=headers,
            timeout=WAIT_S_MAX,
            trust_env=False,
            verify=False,  # noqa: S501 - it speaks HTTP; to read all certificates takes 20 ms
        ) as http,
    ):
        yield http
