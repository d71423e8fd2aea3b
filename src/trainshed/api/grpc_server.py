"""The gRPC edge: the default transport of the Vertex SDK, over the same chain.

Generic handlers: the rows of the table that have an rpc name are the service, and no generated
stubs are needed.  TLS always, because the SDK speaks nothing else (contracts/vertex-sdk.md 2.2).
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import grpc

from trainshed.api.call import Method
from trainshed.api.chain import Passage, Surroundings, grpc_chain, perform
from trainshed.api.grpc_messages import status_bytes, transcoder
from trainshed.api.guards import is_loopback
from trainshed.model.refusals import Refusal

THREADS: Final = 16

#: Peers refuse metadata over 8 KiB.  The message travels percent-encoded, in up to three times its
#: bytes, and a second time in the details, which travel in base64.
MESSAGE_BYTES_MAX: Final = 1000
DETAILS_BYTES_MAX: Final = 3000

_STATUS_OF: Final = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class GrpcServer:
    """A server that is up; ``port`` is the one it got."""

    server: grpc.Server
    port: int

    def stop(self, grace_s: float) -> None:
        """Take no more calls, and wait for those under way as long as ``grace_s`` seconds."""
        self.server.stop(grace_s).wait()


def start_grpc(  # noqa: PLR0913  # what a server consists of
    methods: Iterable[Method],
    around: Surroundings,
    *,
    certificate: bytes,
    key: bytes,
    host: str,
    port: int,
) -> GrpcServer:
    """Serve the rows that have an rpc name.  ``certificate`` and ``key`` are PEM; port 0 picks one.

    Raises OSError where the port cannot be had.
    """
    server = grpc.server(
        ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="grpc"),
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", around.body_bytes_max),
        ],
    )
    server.add_generic_rpc_handlers((_Rows(methods, around),))
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = server.add_secure_port(authority, credentials)
    except RuntimeError as error:
        raise OSError(f"gRPC cannot listen at {authority}: {error}") from None
    server.start()
    return GrpcServer(server, bound)


class _Rows(grpc.GenericRpcHandler):
    """Finds the row of a call.  What has none is answered UNIMPLEMENTED by grpcio."""

    def __init__(self, methods: Iterable[Method], around: Surroundings) -> None:
        self._handlers = {f"/{m.rpc}": _handler(m, around) for m in methods if m.rpc}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)


def _handler(method: Method, around: Surroundings) -> Any:
    row = transcoder(method)
    steps = grpc_chain(row.read, row.write)

    def respond(data: bytes, context: grpc.ServicerContext) -> bytes:
        passage = Passage(verb="gRPC", path=method.rpc, body=data)
        passage.authorization = _authorization(context)
        passage.loopback = _is_loopback(context.peer())
        try:
            perform(steps, around, passage)
        except Refusal as refusal:
            _refuse(context, refusal)
            return b""
        return passage.reply

    return grpc.unary_unary_rpc_method_handler(respond)


def _authorization(context: grpc.ServicerContext) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value
    return None


def _is_loopback(peer: str) -> bool:
    """``ipv4:127.0.0.1:5000`` and ``ipv6:%5B::1%5D:5000`` are this machine's."""
    return is_loopback(unquote(peer).partition(":")[2].rpartition(":")[0])


def _refuse(context: grpc.ServicerContext, refusal: Refusal) -> None:
    """The code, the message, and google.rpc.Status with every violation as its detail."""
    message = _shortened(refusal.message)
    details = status_bytes(refusal, message, DETAILS_BYTES_MAX)
    context.set_trailing_metadata((("grpc-status-details-bin", details),))
    context.set_code(_STATUS_OF[refusal.code.number])
    context.set_details(message)


def _shortened(message: str) -> str:
    data = message.encode("utf-8", "backslashreplace")
    if len(data) <= MESSAGE_BYTES_MAX:
        return data.decode()
    return data[:MESSAGE_BYTES_MAX].decode(errors="ignore") + "..."
