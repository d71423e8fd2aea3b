"""The gRPC interface, the default transport of the Vertex SDK, over the same chain as REST.

Generic handlers serve the rows of the table that have an rpc name, so no generated stubs are
needed.  TLS always, because the SDK speaks nothing else (docs/sources/vertex.md 2.2).
A gRPC request has in its fields what REST has in the path, the query and the body; the row of the
table gives the mapping.
"""

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import grpc
from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from trainshed.api.api_names import GRPC
from trainshed.api.audited import note_call
from trainshed.api.call import Json, Method
from trainshed.api.chain import (
    GIVEN_TWICE,
    GRPC_ADMISSION,
    ChainServices,
    RequestContext,
    Step,
    grpc_chain,
    perform,
)
from trainshed.api.connections import ConnectionLimits, Times
from trainshed.api.documents import refuse_unstorable
from trainshed.api.grpc_front import HOST, GrpcFront
from trainshed.api.guards import is_loopback
from trainshed.api.measured import count_refusal
from trainshed.api.not_here import absent_rpcs
from trainshed.api.watched import GrpcWatch
from trainshed.model.json_reader import VALUES_MAX
from trainshed.model.refusals import Code, Refusal
from trainshed.wire.descriptors import message_class, pool
from trainshed.wire.field_count import holds_more
from trainshed.wire.status import status_json

STATUS: Final = "google.rpc.Status"

#: The longest resource name; over REST the limit of heads applies.
NAME_LENGTH_MAX: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcoder:
    """Converts the request of one row from bytes, and the answer to bytes."""

    method: Method
    request: type[Message]
    response: type[Message]
    name: re.Pattern[str] | None
    """The resource's name, or its parent's; None where the request has none."""

    def read(self, services: ChainServices, context: RequestContext) -> None:
        """Read the request: a step of the chain.  Raises a Refusal."""
        del services
        message = self.request()
        if holds_more(context.body, message.DESCRIPTOR, VALUES_MAX):
            text = f"the message holds more than {VALUES_MAX} fields"
            raise Refusal(Code.INVALID_ARGUMENT, text)
        try:
            message.ParseFromString(context.body)
        except DecodeError:
            full_name = message.DESCRIPTOR.full_name
            raise Refusal(Code.INVALID_ARGUMENT, f"the message is not a {full_name}") from None
        _refuse_unknown(message)
        body = self.method.body.strip("*")
        if body:
            context.document = _as_json(getattr(message, body), snake=True)
            message.ClearField(body)
        query = _as_json(message, snake=False)
        context.method = self.method
        if self.name is not None:
            name = query.pop("parent", None) or query.pop("name", "")
            context.params = _params(self.name, name)
        if self.method.body == "*":
            context.document = query
        else:
            context.query = {name: str(value) for name, value in query.items()}

    def write(self, services: ChainServices, context: RequestContext) -> None:
        """Write the answer: a step of the chain.  Omits fields that only the JSON form has."""
        del services
        message = ParseDict(
            context.answer, self.response(), ignore_unknown_fields=True, descriptor_pool=pool()
        )
        context.reply = message.SerializeToString()


def _params(pattern: re.Pattern[str], name: str) -> dict[str, str]:
    match = pattern.fullmatch(name)
    if match is None or not name.isprintable() or len(name) > NAME_LENGTH_MAX:
        message = f"{name[:200]!r} is not a valid resource name for this method"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return match.groupdict()


def transcoder(method: Method) -> Transcoder:
    """Return the transcoder of a row that has an rpc."""
    path = method.path.partition("/v1/")[2] or method.path.partition("/v1beta1/")[2]
    name = path[: path.rfind("}") + 1]
    return Transcoder(
        method=method,
        request=message_class(method.request),
        response=message_class(method.response),
        name=re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", name)) if name else None,
    )


def status_bytes(refusal: Refusal, message: str, bytes_max: int) -> bytes:
    """Return the refusal as a serialised google.rpc.Status, with ``message`` as its message.

    The last violations are omitted if it would exceed gRPC's metadata limit.
    """
    details: list[Json] = status_json(refusal)["error"].get("details", [])
    while True:
        status = {"code": refusal.code.number, "message": message, "details": details}
        status_message = ParseDict(status, message_class(STATUS)(), descriptor_pool=pool())
        data = status_message.SerializeToString()
        if len(data) <= bytes_max or not details:
            return data
        details = _halve_violations(details)


def _halve_violations(details: list[Json]) -> list[Json]:
    """Return details with the first half of each list of violations, without empty lists."""
    short_details = []
    for detail in details:
        violations = detail.get("fieldViolations", [])
        if first_half := violations[: len(violations) // 2]:
            short_details.append({**detail, "fieldViolations": first_half})
    return short_details


def _as_json(message: Message, *, snake: bool) -> dict[str, Any]:
    """Return a message in JSON form; documents in snake_case, as their senders spell them."""
    try:
        document: dict[str, Any] = MessageToDict(
            message, preserving_proto_field_name=snake, descriptor_pool=pool()
        )
    except (JsonError, ValueError, TypeError) as error:
        raise Refusal(Code.INVALID_ARGUMENT, f"the message has no JSON form: {error}") from None
    refuse_unstorable(document)
    return document


def _refuse_unknown(message: Message) -> None:
    """Refuse unknown fields of a newer client, as REST does, instead of ignoring them."""
    size = message.ByteSize()
    stripped: Message = type(message)()
    stripped.CopyFrom(message)
    stripped.DiscardUnknownFields()
    if stripped.ByteSize() == size:
        return
    places = ", ".join(dict.fromkeys(_unknown_places(message, "")))
    text = f"the request has fields that this server does not know: {places or 'in a map'}"
    raise Refusal(Code.INVALID_ARGUMENT, text)


def _unknown_places(message: Message, path: str) -> Iterator[str]:
    unknown_fields: Iterable[Any] = UnknownFieldSet(message)  # type: ignore[assignment]  # stubs
    for unknown in unknown_fields:
        yield f"{path}field number {unknown.field_number}"
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for element in value if field.is_repeated else [value]:
            yield from _unknown_places(element, f"{path}{field.name}.")


THREADS: Final = 16
#: Calls at once on one connection; a client's next ones wait.
STREAMS_MAX: Final = 100
TIMES: Final = Times()
#: gRPC gets one of this many parts of a server's connections.
_PART: Final = 4
#: Spare connections of grpcio, which notices later than the front that connections have closed.
_SPARE: Final = 256

#: Peers refuse metadata over 8 KiB.  The message travels percent-encoded, in up to three times its
#: bytes, and a second time in the details, which travel in base64.
MESSAGE_BYTES_MAX: Final = 1000
DETAILS_BYTES_MAX: Final = 3000

_STATUS_OF: Final = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class GrpcServer:
    """A running server; ``port`` is that of its listening socket."""

    server: grpc.Server
    front: GrpcFront
    port: int

    def stop(self, grace_s: float) -> None:
        """Stop accepting calls, and wait up to ``grace_s`` seconds for calls under way."""
        self.server.stop(grace_s).wait()
        self.front.stop()


def start_grpc(  # noqa: PLR0913  # the parts of a server
    methods: Iterable[Method],
    services: ChainServices,
    *,
    pair: Callable[[], tuple[bytes, bytes]],
    listener: socket.socket,
    limits: ConnectionLimits,
    times: Times = TIMES,
) -> GrpcServer:
    """Serve the rows that have an rpc name on a listening socket.

    ``pair`` returns the key and the certificate for new handshakes, as PEM.

    gRPC gets a quarter of the connections of ``limits``; half of these may be of callers without
    a valid token.

    Raises OSError where grpcio cannot listen.
    """
    front = GrpcFront(listener, limits.connections // _PART)
    server = grpc.server(
        ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="grpc"),
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", services.body_bytes_max),
            *_bounds(limits, times),
        ],
    )
    server.add_generic_rpc_handlers((_Rows(methods, services, front),))
    try:
        port = server.add_secure_port(f"{HOST}:0", _credentials(pair))
    except RuntimeError as error:
        front.stop()
        raise OSError(f"gRPC cannot listen on {HOST}: {error}") from None
    server.start()
    front.start(port)
    return GrpcServer(server, front, listener.getsockname()[1])


def _credentials(pair: Callable[[], tuple[bytes, bytes]]) -> grpc.ServerCredentials:
    used = [pair()]

    def current_pair() -> grpc.ServerCertificateConfiguration | None:
        if pair() == used[0]:
            return None
        used[0] = pair()
        return grpc.ssl_server_certificate_configuration(used)

    first = grpc.ssl_server_certificate_configuration(used)
    return grpc.dynamic_ssl_server_credentials(first, current_pair)  # type: ignore[arg-type]  # stubs


def _bounds(limits: ConnectionLimits, times: Times) -> Sequence[tuple[str, int]]:
    """Return the options for the number of connections and the time that one may be idle."""
    return (
        ("grpc.max_allowed_incoming_connections", limits.connections // _PART + _SPARE),
        ("grpc.max_concurrent_streams", STREAMS_MAX),
        ("grpc.server_handshake_timeout_ms", int(times.head_s * 1000)),
        ("grpc.max_connection_idle_ms", int(times.keep_alive_s * 1000)),
        ("grpc.keepalive_time_ms", int(times.body_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(times.head_s * 1000)),
    )


class _Rows(grpc.GenericRpcHandler):
    """Finds the row of a call.  grpcio answers UNIMPLEMENTED to calls of other services."""

    def __init__(
        self, methods: Iterable[Method], services: ChainServices, front: GrpcFront
    ) -> None:
        self._handlers = {f"/{m.rpc}": _handler(m, services, front) for m in methods if m.rpc}
        for rpc, sentence in absent_rpcs().items():
            self._handlers[f"/{rpc}"] = _absent(rpc, sentence, services, front)
        self._services = services
        self._front = front

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = str(handler_call_details.method)
        handler = self._handlers.get(method)
        if handler is None and method.startswith(_GOOGLES) and len(method) < _METHOD_MAX:
            rpc = method.removeprefix("/")
            sentence = f"this server has no {rpc.rpartition('.')[2]}; it has methods for custom "
            sentence += "jobs, tuning jobs, training pipelines and models"
            return _absent(rpc, sentence, self._services, self._front)
        return handler


#: The services that clients of Vertex AI call, and the longest method name in a refusal.
_GOOGLES: Final = "/google.cloud.aiplatform."
_METHOD_MAX: Final = 120


def _handler(method: Method, services: ChainServices, front: GrpcFront) -> Any:
    row = transcoder(method)
    steps = grpc_chain(row.read, row.write)
    return _make_handler(method.rpc, method, steps, services, front)


def _absent(rpc: str, sentence: str, services: ChainServices, front: GrpcFront) -> Any:
    """Return a handler that answers one sentence to any caller with a token."""

    def refuse(services: ChainServices, context: RequestContext) -> None:
        del services, context
        raise Refusal(Code.UNIMPLEMENTED, sentence)

    return _make_handler(rpc, None, (refuse,), services, front)


def _make_handler(
    rpc: str,
    method: Method | None,
    steps: Sequence[Step],
    services: ChainServices,
    front: GrpcFront,
) -> Any:
    def respond(messages: Iterator[bytes], servicer_context: grpc.ServicerContext) -> bytes:
        context = RequestContext(verb="gRPC", path=rpc)
        context.address = front.address_of(servicer_context.peer())
        context.loopback = is_loopback(context.address)
        watch = GrpcWatch(services, context, _traceparent(services, servicer_context))
        began = time.perf_counter()
        try:
            context.authorization = _authorization(servicer_context)
            perform(GRPC_ADMISSION, services, context)
            front.recognise(servicer_context.peer())
            context.body = next(messages, b"")
            perform(steps, services, context)
        except Refusal as refusal:
            context.method = method
            note_call(services, context, refusal)
            count_refusal(services.refused, method, refusal)
            services.answered(GRPC, refusal.code.http, time.perf_counter() - began)
            watch.end(refusal)
            _refuse(servicer_context, refusal)
            return b""
        note_call(services, context, None)
        services.answered(GRPC, HTTPStatus.OK, time.perf_counter() - began)
        watch.end(None)
        return context.reply

    # as a stream: for a unary call grpcio would hold a thread until the client's message arrives
    return grpc.stream_unary_rpc_method_handler(respond)


def _authorization(servicer_context: grpc.ServicerContext) -> str | None:
    """Return the caller's credentials.  Raises a Refusal for two of them, as REST does."""
    metadata = servicer_context.invocation_metadata() or ()
    values = [v for key, v in metadata if key == "authorization" and isinstance(v, str)]
    if len(values) > 1:
        raise Refusal(Code.INVALID_ARGUMENT, f"authorization {GIVEN_TWICE}")
    return values[0] if values else None


def _traceparent(services: ChainServices, servicer_context: grpc.ServicerContext) -> str:
    """Return the caller's span, as it sent it; empty if requests are not watched."""
    if services.watch is None:
        return ""
    metadata = dict(servicer_context.invocation_metadata() or ())
    value = metadata.get("traceparent", "")
    return value if isinstance(value, str) else ""


def _refuse(servicer_context: grpc.ServicerContext, refusal: Refusal) -> None:
    """Send the code, the message, and google.rpc.Status with the violations as details."""
    message = _shorten(refusal.message)
    details = status_bytes(refusal, message, DETAILS_BYTES_MAX)
    servicer_context.set_trailing_metadata((("grpc-status-details-bin", details),))
    servicer_context.set_code(_STATUS_OF[refusal.code.number])
    servicer_context.set_details(message)


def _shorten(message: str) -> str:
    data = message.encode("utf-8", "backslashreplace")
    if len(data) <= MESSAGE_BYTES_MAX:
        return data.decode()
    return data[:MESSAGE_BYTES_MAX].decode(errors="ignore") + "..."
