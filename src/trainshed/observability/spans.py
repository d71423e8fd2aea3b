"""Spans of traces as values, the ids of a job's spans, and the trace of the current request.

Nothing here needs OpenTelemetry: ``observability.otlp`` turns these values into its own.
The ids of a job's spans are computed, so that each server writes the same span for one phase.
"""

import enum
import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

AttributeValue = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, AttributeValue]


class SpanKind(enum.Enum):
    """The kinds of OpenTelemetry that the server uses."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    CLIENT = "CLIENT"


class SpanEvent(NamedTuple):
    """Something that happened during a span."""

    name: str
    at_ns: int
    """Nanoseconds since 1970."""
    attributes: Attributes = MappingProxyType({})


class SpanLink(NamedTuple):
    """Another span to which a span belongs, in another trace."""

    trace_id: int
    span_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """A span that is over.  Times are nanoseconds since 1970."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None = None
    kind: SpanKind = SpanKind.INTERNAL
    start_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    links: Sequence[SpanLink] = ()
    error: str = ""
    """Why the work failed; empty if it did not fail."""


class TraceParent(NamedTuple):
    """The header ``traceparent`` of W3C Trace Context."""

    trace_id: int
    span_id: int
    is_sampled: bool = True

    @property
    def text(self) -> str:
        """The value of the header, and of the variable ``TRACEPARENT``."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


_PARENT: Final = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})"
    r"-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_LENGTH_MAX: Final = 512


def parse_traceparent(text: str) -> TraceParent | None:
    """Return the caller's span; None for a header that is missing or malformed."""
    match = _PARENT.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None or (match["version"] == "00" and match["more"]):
        return None
    trace_id, span_id = int(match["trace"], 16), int(match["span"], 16)
    if not trace_id or not span_id:
        return None
    return TraceParent(trace_id, span_id, bool(int(match["flags"], 16) & 1))


_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


def job_trace_id(installation: int, uid: int) -> int:
    """Return the trace id of a job of an installation."""
    return _digest_number(_TRACE_BYTES, "trainshed job", installation, uid)


def job_span_id(installation: int, uid: int, *parts: object) -> int:
    """Return the id of a span in the trace of a job; ``parts`` name it within the job."""
    return _digest_number(_SPAN_BYTES, "trainshed span", installation, uid, *parts)


def attempt_parent(installation: int, uid: int, attempt: int) -> TraceParent:
    """Return the span of an attempt, of which the spans of its programs are children."""
    span_id = job_span_id(installation, uid, "job.attempt", attempt)
    return TraceParent(job_trace_id(installation, uid), span_id)


def _digest_number(size: int, *parts: object) -> int:
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


class ChildSpan(NamedTuple):
    """A part of a request, such as the wait for a commit."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes


#: The most parts of one request that are recorded.
CHILDREN_MAX: Final = 16


class RequestTrace:
    """The trace of a request that is being answered.  Whether it is sent is decided at its end."""

    __slots__ = ("children", "incident", "parent", "span_id", "trace_id")

    def __init__(self, parent: TraceParent | None) -> None:
        """``parent`` is the caller's span; None begins a trace."""
        self.parent = parent
        self.trace_id = parent.trace_id if parent else random.getrandbits(128) or 1
        self.span_id = random.getrandbits(64) or 1
        self.children: list[ChildSpan] = []
        self.incident = ""
        """The number of the unexpected error in the answer; empty if there was none."""

    def add_child(
        self, name: str, start_ns: int, end_ns: int, attributes: Attributes | None = None
    ) -> None:
        """Record a part of the request; a request keeps its first ``CHILDREN_MAX``."""
        if len(self.children) < CHILDREN_MAX:
            self.children.append(ChildSpan(name, start_ns, end_ns, attributes or {}))


#: The trace of the request that the current thread or task answers; None: no traces, no request.
REQUEST_TRACE: Final[ContextVar[RequestTrace | None]] = ContextVar("request_trace", default=None)
