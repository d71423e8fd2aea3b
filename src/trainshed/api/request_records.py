"""What is written about an answered request: a record of a JSON log, and the spans of its trace."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from trainshed.api.api_names import PROBE
from trainshed.api.chain import TRACED_STEPS, AnsweredRequest
from trainshed.observability.logs import REQUESTS
from trainshed.observability.spans import AttributeValue, SpanKind, TraceSpan

if TYPE_CHECKING:
    from trainshed.observability.span_exporter import SpanExporter

_LOG = logging.getLogger(REQUESTS)

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: One of this many reads is traced, and of requests for objects.
_ONE_OF: Final = 10
_FIRST_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500

#: The names of the parts of a request that have spans (docs/reference/telemetry.md).
CHILDREN: Final = ("store.commit", *TRACED_STEPS.values())


def log_request(answered: AnsweredRequest) -> None:
    """Write one record; none for probes and scrapes."""
    if answered.api == PROBE:
        return
    context, trace = answered.context, answered.trace
    caller = context.caller if context else None
    fields = {
        "project": answered.project,
        "job": answered.job,
        "caller": caller.name if caller else "",
        "method": answered.method,
        "status": answered.status,
        "duration_s": round(answered.seconds, 6),
        "incident": trace.incident,
        "trace_id": f"{trace.trace_id:032x}",
        "span_id": f"{trace.span_id:016x}",
    }
    _LOG.info("%s %d", answered.method, answered.status, extra={"fields": fields})


def trace_requests(exporter: "SpanExporter") -> Callable[[AnsweredRequest], None]:
    """Return the watch that sends the spans of requests."""

    def trace_request(answered: AnsweredRequest) -> None:
        if is_sampled(answered):
            exporter.add(make_spans(answered, with_parts=not exporter.is_crowded))

    return trace_request


def is_sampled(answered: AnsweredRequest) -> bool:
    """Return whether a request is traced.

    A caller's own decision counts.  Otherwise all changes and failures of the server are traced,
    and a tenth of reads and of requests for objects; probes and scrapes are not.
    """
    if answered.api == PROBE:
        return False
    if (parent := answered.trace.parent) is not None:
        return parent.is_sampled
    is_change = _verb_of(answered) not in _READS and answered.api != "storage_v1"
    is_error = answered.status >= _FIRST_SERVER_ERROR
    return is_change or is_error or answered.trace.trace_id % _ONE_OF == 0


def _verb_of(answered: AnsweredRequest) -> str:
    """Return the HTTP verb of a request; of a gRPC call, that of the same method over HTTP."""
    method = answered.context.method if answered.context else None
    return method.verb if method else answered.verb


def make_spans(answered: AnsweredRequest, *, with_parts: bool = True) -> Sequence[TraceSpan]:
    """Return the span of a request, then those of its parts."""
    trace = answered.trace
    request = TraceSpan(
        name=answered.method,
        trace_id=trace.trace_id,
        span_id=trace.span_id,
        parent_id=trace.parent.span_id if trace.parent else None,
        kind=SpanKind.SERVER,
        start_ns=answered.began_ns,
        end_ns=answered.ended_ns,
        attributes=_attributes(answered),
        error=str(answered.status) if answered.status >= _FIRST_SERVER_ERROR else "",
    )
    if not with_parts:
        return (request,)
    return (request, *_make_parts(answered))


def _make_parts(answered: AnsweredRequest) -> Sequence[TraceSpan]:
    trace = answered.trace
    return [
        TraceSpan(
            name=part.name,
            trace_id=trace.trace_id,
            span_id=(trace.span_id + number) % (1 << 64) or 1,
            parent_id=trace.span_id,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            attributes=part.attributes,
        )
        for number, part in enumerate(trace.children, 1)
    ]


def _attributes(answered: AnsweredRequest) -> dict[str, AttributeValue]:
    """Describe a request by OpenTelemetry's conventions for HTTP; leave out what is empty."""
    attributes: dict[str, AttributeValue] = {
        "http.request.method": answered.verb if answered.api != "grpc" else "",
        "http.route": answered.route if answered.api != "grpc" else "",
        "rpc.method": answered.route if answered.api == "grpc" else "",
        "url.scheme": answered.scheme,
        "client.address": answered.address,
        "user_agent.original": answered.user_agent,
        "error.type": str(answered.status) if answered.status >= _FIRST_ERROR else "",
        "trainshed.api": answered.api,
        "trainshed.project": answered.project,
        "trainshed.incident": answered.trace.incident,
    }
    named = {name: value for name, value in attributes.items() if value}
    return {**named, "http.response.status_code": answered.status}
