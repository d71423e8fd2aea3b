"""Makes the spans of a job's life from its events: a pure function.

Each span belongs to the event that ends it, and its id is computed.  So whichever server makes the
spans of an event, before or after a kill, makes the same spans.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from trainshed.observability.spans import (
    Attributes,
    SpanEvent,
    SpanLink,
    TraceSpan,
    job_span_id,
    job_trace_id,
    parse_traceparent,
)
from trainshed.store.records.steps import StoredEvent

#: The phase that begins with an event, by kind; the name of its span is ``job.PHASE``.
PHASES: Final[Mapping[str, str]] = {
    "ACCEPTED": "queued",
    "HANDED_OVER": "enqueued",
    "PREPARING": "preparing",
    "RUNNING": "running",
    "RESTART_ORDERED": "restarting",
    "CANCELLING": "cancelling",
    "RESTARTING": "queued",
    "REFUSED": "queued",
    "HELD": "queued",
}
#: The kinds of events that end a job, or a study.
ENDS: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "STUDY_ENDED"})
_REPLICA_ENDED: Final = "REPLICA_ENDED"
#: The kinds of events that end a span.
ENDING_KINDS: Final = frozenset({*PHASES, *ENDS, _REPLICA_ENDED} - {"ACCEPTED"})
#: The kinds of events with which an attempt gets its nodes, or enters the queue of its engine.
_OPENS_ATTEMPT: Final = frozenset({"PLACED", "HANDED_OVER", "PREPARING"})
#: The most events of a span.
EVENTS_MAX: Final = 100
NODES_MAX: Final = 8

#: The names of the spans that ``job_spans`` makes (docs/reference/telemetry.md).
NAMES: Final = (
    "job",
    "study",
    "job.attempt",
    *(f"job.{phase}" for phase in dict.fromkeys(PHASES.values())),
    "replica",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedJob:
    """A job, as its root span describes it."""

    installation: int
    uid: int
    is_study: bool = False
    study_uid: int | None = None
    """The study of a trial's job."""
    attributes: Attributes = field(default_factory=dict)


class EndedSpan(NamedTuple):
    """A span, and the ``seq`` of the event that ends it."""

    seq: int
    span: TraceSpan


@dataclass(slots=True)
class _Open:
    """A phase or an attempt that has not ended."""

    name: str
    began: StoredEvent
    events: list[SpanEvent] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)


def job_spans(job: TracedJob, events: Sequence[StoredEvent]) -> Sequence[EndedSpan]:
    """Return the spans that the events of a job end, in the order of these events.

    ``events`` are all events of the job, in order; those after its end make no span.
    """
    return [span for event_spans in _JobLife(job).follow(events) for span in event_spans]


class _JobLife:
    """Follows the events of a job."""

    def __init__(self, job: TracedJob) -> None:
        self._job = job
        self._trace_id = job_trace_id(job.installation, job.uid)
        self._root_id = self._span_id("job")
        self._accepted: StoredEvent | None = None
        self._phase: _Open | None = None
        self._attempt: _Open | None = None
        self._running: StoredEvent | None = None
        self._restarts = 0

    def follow(self, events: Sequence[StoredEvent]) -> Iterator[Iterator[EndedSpan]]:
        for event in events:
            self._accepted = self._accepted or event
            yield self._read(event)
            if event.kind in ENDS:
                return

    def _read(self, event: StoredEvent) -> Iterator[EndedSpan]:
        kind = event.kind
        if kind == _REPLICA_ENDED:
            yield from self._end_replica(event)
        elif kind in ENDS or kind in PHASES:
            yield from self._end_phase(event)
        elif self._phase is not None and len(self._phase.events) < EVENTS_MAX:
            self._phase.events.append(SpanEvent(kind.lower(), event.stamp_ns))
        if kind in _OPENS_ATTEMPT:
            self._open_attempt(event)
        if kind in ENDS or PHASES.get(kind) == "queued":
            yield from self._end_attempt(event)
        self._restarts += kind == "RESTARTING"
        if kind in ENDS:
            yield EndedSpan(event.seq, self._make_root(event))
        elif kind in PHASES and not self._job.is_study:
            self._phase = _Open(f"job.{PHASES[kind]}", event)
            self._running = event if kind == "RUNNING" else self._running

    def _open_attempt(self, event: StoredEvent) -> None:
        if self._job.is_study:
            return
        if self._attempt is None:
            self._attempt, self._running = _Open("job.attempt", event), None
        nodes = event.data.get("nodes")
        if isinstance(nodes, Mapping):
            self._attempt.attributes["trainshed.nodes"] = tuple(map(str, nodes))[:NODES_MAX]

    def _end_phase(self, event: StoredEvent) -> Iterator[EndedSpan]:
        phase, self._phase = self._phase, None
        if phase is not None:
            is_waiting = phase.name == "job.queued"
            span = self._make_span(
                phase,
                event,
                span_id=self._span_id(phase.name, phase.began.attempt, phase.began.stamp_ns),
                parent_id=self._root_id if is_waiting else self._parent_id(),
            )
            yield EndedSpan(event.seq, span)

    def _end_attempt(self, event: StoredEvent) -> Iterator[EndedSpan]:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        attempt.attributes["trainshed.attempt.end"] = event.kind
        number = attempt.began.attempt
        span = self._make_span(
            attempt,
            event,
            span_id=self._span_id("job.attempt", number),
            parent_id=self._root_id,
            error=event.message if event.kind in {"FAILED", "RESTARTING"} else "",
        )
        yield EndedSpan(event.seq, span)

    def _end_replica(self, event: StoredEvent) -> Iterator[EndedSpan]:
        """Make the span of a replica; its start is when all replicas of the attempt ran."""
        task = event.data.get("task_name")
        if self._attempt is None or not task:  # the event that counts further replicas has no name
            return
        replica = _Open("replica", self._running or self._attempt.began)
        replica.attributes = {
            "trainshed.task": str(task),
            **_numbers(
                event.data,
                exit_code="process.exit.code",
                signal="trainshed.exit.signal",
                peak_memory_bytes="trainshed.memory.peak",
            ),
        }
        span = self._make_span(
            replica,
            event,
            span_id=self._span_id("replica", event.attempt, task),
            parent_id=self._parent_id(),
            error=event.message if _is_failure(event.data) else "",
        )
        yield EndedSpan(event.seq, span)

    def _make_root(self, event: StoredEvent) -> TraceSpan:
        began = self._accepted or event
        return TraceSpan(
            name="study" if self._job.is_study else "job",
            trace_id=self._trace_id,
            span_id=self._root_id,
            start_ns=began.stamp_ns,
            end_ns=event.stamp_ns,
            attributes={
                **self._job.attributes,
                "trainshed.job.state": event.kind,
                "trainshed.job.attempts": event.attempt,
                "trainshed.job.restarts": self._restarts,
                **({"error.type": event.kind} if event.kind == "FAILED" else {}),
            },
            links=(*_creation_links(began), *_study_links(self._job)),
            error=event.message if event.kind == "FAILED" else "",
        )

    def _make_span(
        self, part: _Open, end: StoredEvent, *, span_id: int, parent_id: int, error: str = ""
    ) -> TraceSpan:
        attempt = part.began.attempt
        return TraceSpan(
            name=part.name,
            trace_id=self._trace_id,
            span_id=span_id,
            parent_id=parent_id,
            start_ns=part.began.stamp_ns,
            end_ns=end.stamp_ns,
            attributes={
                "trainshed.job.uid": str(self._job.uid),
                "trainshed.attempt": attempt,
                **part.attributes,
            },
            events=tuple(part.events),
            error=error,
        )

    def _parent_id(self) -> int:
        """Return the span of the attempt; the root's if no attempt is open."""
        if self._attempt is None:
            return self._root_id
        return self._span_id("job.attempt", self._attempt.began.attempt)

    def _span_id(self, *parts: object) -> int:
        return job_span_id(self._job.installation, self._job.uid, *parts)


def _is_failure(data: Mapping[str, object]) -> bool:
    """Return whether a replica ended by a fault of its own, not because the server stopped it."""
    return "notice_honoured" not in data and bool(data.get("exit_code") or data.get("signal"))


def _numbers(data: Mapping[str, object], **names: str) -> dict[str, int]:
    """Return the whole numbers of an event's data as attributes; ``names`` is by key."""
    return {
        name: value
        for key, name in names.items()
        if isinstance(value := data.get(key), int) and not isinstance(value, bool)
    }


def _creation_links(accepted: StoredEvent) -> Sequence[SpanLink]:
    """Return the link to the request that created the job, if its event names it."""
    trace = accepted.data.get("trace")
    if not isinstance(trace, str):
        return ()
    parent = parse_traceparent(trace)
    return () if parent is None else (SpanLink(parent.trace_id, parent.span_id),)


def _study_links(job: TracedJob) -> Sequence[SpanLink]:
    """Return the link to the root of a trial's study."""
    if job.study_uid is None:
        return ()
    trace_id = job_trace_id(job.installation, job.study_uid)
    return (SpanLink(trace_id, job_span_id(job.installation, job.study_uid, "job")),)
