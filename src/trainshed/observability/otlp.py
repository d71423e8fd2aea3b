"""Sends spans by OTLP over HTTP.  Imported only where an endpoint is set.

The encoder, the retries, and the variables ``OTEL_EXPORTER_OTLP_*`` (headers, certificates,
timeout, compression) are OpenTelemetry's own.
"""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from trainshed.observability import spans as own
from trainshed.observability.span_exporter import Sent

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
#: Answers after which the same request can never succeed.  After others, such as 401 and 404, an
#: administrator may correct the settings.
_REFUSALS: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


#: A longer answer of a collector is not read; an answer without an error is empty.
_ANSWER_BYTES_MAX: Final = 65_536


class _BoundedSession(requests.Session):
    """Closes the connection instead of reading a long answer, or one of unknown length."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        response = super().send(request, **{**options, "stream": True})
        length = response.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _ANSWER_BYTES_MAX:
            response.close()
        return response


class OtlpCollector:
    """A collector at a URL."""

    def __init__(self, endpoint: str, *, version: str, attributes: Mapping[str, str]) -> None:
        """``endpoint`` is the whole URL of traces; ``attributes`` describe this server."""
        logging.getLogger("opentelemetry").addFilter(_drop)
        for name in _NOISY:
            logging.getLogger(name).addFilter(_drop)
        session = _BoundedSession()
        session.hooks["response"].append(self._note_status)
        self._status = 0
        self._name = _without_credentials(endpoint)
        self._exporter = OTLPSpanExporter(endpoint=endpoint, session=session)
        # ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` win
        defaults = {"service.name": "trainshed", "service.version": version, **attributes}
        named = {
            key: value
            for key, value in Resource.create().attributes.items()
            if not str(value).startswith("unknown_service")
        }
        self._resource = Resource({**defaults, **named})
        self._scope = InstrumentationScope("trainshed", version)

    @property
    def name(self) -> str:
        return self._name

    def send(self, spans: Sequence[own.TraceSpan]) -> Sent:
        self._status = 0
        result = self._exporter.export([self._convert(span) for span in spans])
        if result is SpanExportResult.SUCCESS:
            return Sent.DONE
        return Sent.REFUSED if self._status in _REFUSALS else Sent.AWAY

    def close(self) -> None:
        self._exporter.shutdown()

    def _note_status(self, response: Any, *_: object, **__: object) -> None:
        self._status = response.status_code

    def _convert(self, span: own.TraceSpan) -> ReadableSpan:
        parent = _context(span.trace_id, span.parent_id) if span.parent_id else None
        status = Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET)
        return ReadableSpan(
            span.name,
            _context(span.trace_id, span.span_id),
            parent,
            self._resource,
            span.attributes,
            events=[Event(event.name, event.attributes, event.at_ns) for event in span.events],
            links=[Link(_context(link.trace_id, link.span_id)) for link in span.links],
            kind=SpanKind[span.kind.name],
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


#: Loggers of the exporter: ``SpanExporter`` logs the same, at an interval.
_NOISY: Final = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common.http",
)


def _drop(_record: logging.LogRecord) -> bool:
    return False


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
