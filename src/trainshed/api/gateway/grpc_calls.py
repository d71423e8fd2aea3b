"""Answers gRPC calls of Google's APIs, which the clients for logging and metrics use by default.

A client that finds no HTTP/2 at an address retries for minutes.  So every call gets an answer:
logging and metrics are accepted, and other calls are refused with a code that clients do not retry.

grpcio identifies a caller only by the name of its socket, which any process can choose.  So only
this process can connect: the path on which grpcio listens is removed at once, and this process
connects by a descriptor that it opened before.  Socket names are random and made later, so an
earlier connection cannot have one of them.
"""

import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from trainshed.api.gateway.accepting import STRANGER
from trainshed.api.gateway.app import NOT_SERVED
from trainshed.api.gateway.telemetry import (
    BODY_BYTES_MAX,
    NOTHING_TO_READ,
    TRY_AGAIN,
    refusing_unread,
)
from trainshed.model.refusals import Refusal
from trainshed.service.gateway.attempts import FindAttempt, LivingAttempt
from trainshed.service.gateway.places import LOGGING_HOST, MONITORING_HOST
from trainshed.service.gateway.telemetry import Telemetry
from trainshed.wire.logging_v2.written_messages import lines_of_message, metric_descriptor_of

_THREADS: Final = 4
_STREAMS_MAX: Final = 32
_IDLE_MS: Final = 600_000
_NAME_BYTES: Final = 16
#: The prefix with which grpcio writes the name of an abstract socket.
_ABSTRACT: Final = "unix-abstract:"

#: The refusal after which a client uses REST if it can.
_BY_REST: Final = "this server answers for {what} by REST only"
_STORAGE: Final = "google.storage."
_TELEMETRY: Final = ("google.logging.", "google.monitoring.")

#: Supported rpcs: their host, and the function that answers a message.
_SUPPORTED: Final[Mapping[str, tuple[str, Callable[[bytes], bytes]]]] = {
    "google.logging.v2.LoggingServiceV2/WriteLogEntries": (LOGGING_HOST, lambda _: b""),
    "google.monitoring.v3.MetricService/CreateTimeSeries": (MONITORING_HOST, lambda _: b""),
    "google.monitoring.v3.MetricService/CreateServiceTimeSeries": (MONITORING_HOST, lambda _: b""),
    "google.monitoring.v3.MetricService/CreateMetricDescriptor": (
        MONITORING_HOST,
        metric_descriptor_of,
    ),
}


class GrpcCalls(grpc.GenericRpcHandler):
    """A gRPC server that starts at the first connection."""

    def __init__(self, find: FindAttempt, telemetry: Telemetry | None) -> None:
        """``find`` returns an attempt if it is alive."""
        self._find = find
        self._telemetry = telemetry
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None
        self._socket = -1
        """A descriptor (O_PATH) of the listening socket, whose path is removed."""
        self._peers: dict[str, LivingAttempt] = {}

    def socket_names_for(self, peer: LivingAttempt) -> tuple[str, str]:
        """Return the name to bind a connection of this attempt to, and the server's path.

        Raises OSError.
        """
        with self._lock:
            if self._server is None:
                self._start()
            name = f"\0trainshed-{secrets.token_hex(_NAME_BYTES)}"
            self._peers[name] = peer
            return name, f"/proc/self/fd/{self._socket}"

    def forget(self, name: str) -> None:
        """Forget an ended connection."""
        self._peers.pop(name, None)

    def stop(self) -> None:
        """End the server and the calls under way."""
        with self._lock:
            server, self._server = self._server, None
            if server is not None:
                server.stop(None)
                os.close(self._socket)

    def _start(self) -> None:
        """Start the server.  Raises OSError."""
        server = grpc.server(
            ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="gateway-grpc"),
            options=[
                ("grpc.max_receive_message_length", BODY_BYTES_MAX),
                ("grpc.max_concurrent_streams", _STREAMS_MAX),
                ("grpc.max_connection_idle_ms", _IDLE_MS),
            ],
        )
        server.add_generic_rpc_handlers((self,))
        with tempfile.TemporaryDirectory(prefix="trainshed-gateway-") as folder:
            path = f"{folder}/server"
            try:
                server.add_insecure_port(f"unix:{path}")
            except RuntimeError as error:
                raise OSError(f"gRPC cannot listen in {folder}: {error}") from None
            self._socket = os.open(path, os.O_PATH | os.O_CLOEXEC)
        server.start()
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call; an unsupported call gets one that refuses."""
        name = handler_call_details.method.lstrip("/")

        def respond(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            return self._answer(name, messages, context)

        return grpc.stream_unary_rpc_method_handler(respond)

    def _answer(self, name: str, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        peer = self._peers.get(context.peer().replace(_ABSTRACT, "\0", 1))
        if peer is None or self._find(peer.key) is None:
            return _refuse(context, grpc.StatusCode.PERMISSION_DENIED, STRANGER)
        if self._telemetry is None or name not in _SUPPORTED:
            return _refuse(context, *_not_served(name, takes_telemetry=self._telemetry is not None))
        host, answer = _SUPPORTED[name]
        message = next(messages, b"")
        keeps = self._telemetry.keeps and host == LOGGING_HOST
        try:
            with refusing_unread():
                lines = lines_of_message(message) if keeps else ()
        except Refusal as refused:
            return _refuse(context, grpc.StatusCode[refused.code.name], refused.message)
        if not self._telemetry.take(peer, host, lines):
            return _refuse(context, grpc.StatusCode.UNAVAILABLE, TRY_AGAIN)
        return answer(message)


def _not_served(name: str, *, takes_telemetry: bool) -> tuple[grpc.StatusCode, str]:
    what = name[:200]
    if takes_telemetry and name.startswith(_TELEMETRY):
        return grpc.StatusCode.PERMISSION_DENIED, NOTHING_TO_READ.format(what=what)
    if name.startswith(_STORAGE):
        return grpc.StatusCode.UNIMPLEMENTED, _BY_REST.format(what=what)
    return grpc.StatusCode.PERMISSION_DENIED, NOT_SERVED.format(host=what)


def _refuse(context: grpc.ServicerContext, code: grpc.StatusCode, why: str) -> bytes:
    context.set_code(code)
    context.set_details(why)
    return b""
