"""Makes the spans of a job's life from its events: a pure function.

Each span belongs to the event that ends it, and its id is computed.  So whichever server makes the
spans of an event, before or after a kill, makes the same spans.  The root of a job that had
machines belongs to the event GOODPUT, which follows the end and says what the root tells.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from trainshed.model import event_kinds as kinds
from trainshed.model.trials import SUGGEST_S, TRIAL_CREATED, TRIAL_ENDED
from trainshed.observability.spans import (
    Attributes,
    SpanEvent,
    SpanLink,
    TraceSpan,
    job_span_id,
    job_trace_id,
    parse_traceparent,
)
from trainshed.planning.attempt_steps import ENDED_S
from trainshed.service.goodput.facts import read_end_s
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
ENDING_KINDS: Final = frozenset(
    {*PHASES, *ENDS, kinds.GOODPUT, TRIAL_CREATED, TRIAL_ENDED} - {"ACCEPTED"}
)
#: The kinds of events with which an attempt gets its nodes, or enters the queue of its engine.
_OPENS_ATTEMPT: Final = frozenset({"PLACED", "HANDED_OVER", "PREPARING"})
#: The most events of a span.
EVENTS_MAX: Final = 100
NODES_MAX: Final = 8
_NS_PER_S: Final = 1e9

#: The names of the spans that ``job_spans`` makes (docs/reference/telemetry.md).
NAMES: Final = (
    "job",
    "study",
    "study.suggest",
    "trial",
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
    trial_uids: Mapping[int, int] = field(default_factory=dict)
    """The jobs of a study's trials, by the number of the trial."""
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
    start_ns: int
    """Before the event if no server ran at the start."""
    events: list[SpanEvent] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    replicas: list[StoredEvent] = field(default_factory=list)
    """The ends of an attempt's replicas, which are stored with its own end."""


def job_spans(job: TracedJob, events: Sequence[StoredEvent]) -> Sequence[EndedSpan]:
    """Return the spans that the events of a job end, in the order of these events.

    ``events`` are all events of the job, in order; those after its root make no span.
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
        self._held_s: float | None = None
        """When the attempt got its machines; None: it has none."""
        self._had_machines = False
        self._running: StoredEvent | None = None
        self._end: StoredEvent | None = None
        """The end of the job; its root waits for its goodput."""
        self._end_ns = 0
        self._goodput: Attributes | None = None
        self._restarts = 0
        self._trials: dict[object, StoredEvent] = {}
        """The trials of a study that have not ended, by number."""

    def follow(self, events: Sequence[StoredEvent]) -> Iterator[Iterator[EndedSpan]]:
        for event in events:
            self._accepted = self._accepted or event
            if event.kind == kinds.GOODPUT:
                self._goodput = _goodput_attributes(event.data)
            elif self._end is None:
                yield self._read(event)
            if self._end is not None and self._is_whole:
                yield iter([EndedSpan(event.seq, self._make_root(self._end))])
                return

    @property
    def _is_whole(self) -> bool:
        """Whether no event can follow that the root needs."""
        return self._goodput is not None or not self._had_machines

    def _read(self, event: StoredEvent) -> Iterator[EndedSpan]:
        kind, end_ns = event.kind, self._read_end_ns(event)
        if self._job.is_study and kind in {TRIAL_CREATED, TRIAL_ENDED}:
            yield from self._follow_trial(event)
        elif kind == _REPLICA_ENDED:
            if self._attempt is not None:
                self._attempt.replicas.append(event)
        elif kind in ENDS or kind in PHASES:
            yield from self._end_phase(event, end_ns)
        elif self._phase is not None and len(self._phase.events) < EVENTS_MAX:
            self._phase.events.append(SpanEvent(kind.lower(), event.stamp_ns))
        if kind in _OPENS_ATTEMPT:
            self._open_attempt(event)
        if kind in ENDS or PHASES.get(kind) == "queued":
            yield from self._end_attempt(event, end_ns)
        self._restarts += kind == "RESTARTING"
        if kind in ENDS:
            self._end, self._end_ns = event, end_ns
        elif kind in PHASES and not self._job.is_study:
            self._phase = _Open(f"job.{PHASES[kind]}", event, end_ns)
            self._running = event if kind == "RUNNING" else self._running

    def _read_end_ns(self, event: StoredEvent) -> int:
        """Return when an event happened: an attempt ends before its event if no server ran."""
        if event.kind not in kinds.ENDS or ENDED_S not in event.data or self._held_s is None:
            return event.stamp_ns
        return min(event.stamp_ns, round(read_end_s(event, self._held_s) * _NS_PER_S))

    def _open_attempt(self, event: StoredEvent) -> None:
        if self._job.is_study:
            return
        if self._attempt is None:
            self._attempt, self._running = _Open("job.attempt", event, event.stamp_ns), None
        if self._held_s is None and event.kind in kinds.HOLDS:
            self._held_s, self._had_machines = event.stamp_ns / _NS_PER_S, True
        nodes = event.data.get("nodes")
        if isinstance(nodes, Mapping):
            self._attempt.attributes["trainshed.nodes"] = tuple(map(str, nodes))[:NODES_MAX]

    def _end_phase(self, event: StoredEvent, end_ns: int) -> Iterator[EndedSpan]:
        phase, self._phase = self._phase, None
        if phase is not None:
            is_waiting = phase.name == "job.queued"
            span = self._make_span(
                phase,
                end_ns,
                span_id=self._span_id(phase.name, phase.began.attempt, phase.began.stamp_ns),
                parent_id=self._root_id if is_waiting else self._parent_id(),
            )
            yield EndedSpan(event.seq, span)

    def _end_attempt(self, event: StoredEvent, end_ns: int) -> Iterator[EndedSpan]:
        attempt, self._attempt, self._held_s = self._attempt, None, None
        if attempt is None:
            return
        span_id = self._span_id("job.attempt", attempt.began.attempt)
        for replica in attempt.replicas:
            if span := self._make_replica(replica, attempt, end_ns, span_id):
                yield EndedSpan(event.seq, span)
        attempt.attributes["trainshed.attempt.end"] = event.kind
        span = self._make_span(
            attempt,
            end_ns,
            span_id=span_id,
            parent_id=self._root_id,
            error=event.message if event.kind in {"FAILED", "RESTARTING"} else "",
        )
        yield EndedSpan(event.seq, span)

    def _make_replica(
        self, event: StoredEvent, attempt: _Open, end_ns: int, parent_id: int
    ) -> TraceSpan | None:
        """Make the span of a replica; its start is when all replicas of the attempt ran."""
        task, seconds = event.data.get("task_name"), event.data.get("seconds")
        if not task:  # the event that counts further replicas has no name
            return None
        start_ns = min(self._running.stamp_ns if self._running else attempt.start_ns, end_ns)
        if isinstance(seconds, int | float):
            end_ns = min(end_ns, start_ns + round(max(0.0, seconds) * _NS_PER_S))
        replica = _Open("replica", attempt.began, start_ns)
        replica.attributes = {
            "trainshed.task": str(task),
            **({"host.name": str(node)} if (node := event.data.get("node")) else {}),
            **_numbers(
                event.data,
                exit_code="process.exit.code",
                signal="trainshed.exit.signal",
                peak_memory_bytes="trainshed.memory.peak",
            ),
        }
        return self._make_span(
            replica,
            end_ns,
            span_id=self._span_id("replica", event.attempt, task),
            parent_id=parent_id,
            error=event.message if _is_failure(event.data) else "",
        )

    def _follow_trial(self, event: StoredEvent) -> Iterator[EndedSpan]:
        """Make the span of a trial that ended, and of the search before the first new trial."""
        number, suggest_s = event.data.get("trial"), event.data.get(SUGGEST_S)
        if event.kind == TRIAL_ENDED:
            began = self._trials.pop(number, None)
            if began is not None and isinstance(number, int):
                yield EndedSpan(event.seq, self._make_trial(number, began, event))
            return
        self._trials[number] = event
        if isinstance(suggest_s, int | float):
            start_ns = event.stamp_ns - round(suggest_s * _NS_PER_S)
            span = self._make_span(
                _Open("study.suggest", event, start_ns),
                event.stamp_ns,
                span_id=self._span_id("study.suggest", number),
                parent_id=self._root_id,
            )
            yield EndedSpan(event.seq, span)

    def _make_trial(self, number: int, began: StoredEvent, ended: StoredEvent) -> TraceSpan:
        trial = _Open("trial", began, began.stamp_ns)
        trial.attributes["trainshed.trial"] = str(number)
        span = self._make_span(
            trial,
            ended.stamp_ns,
            span_id=self._span_id("trial", number),
            parent_id=self._root_id,
        )
        return replace(span, links=self._trial_links(number))

    def _trial_links(self, number: int) -> Sequence[SpanLink]:
        """Return the link to the root of a trial's job, if the caller has given the job."""
        uid = self._job.trial_uids.get(number)
        return () if uid is None else (_root_link(self._job.installation, uid),)

    def _make_root(self, event: StoredEvent) -> TraceSpan:
        began = self._accepted or event
        return TraceSpan(
            name="study" if self._job.is_study else "job",
            trace_id=self._trace_id,
            span_id=self._root_id,
            start_ns=began.stamp_ns,
            end_ns=self._end_ns,
            attributes={
                **self._job.attributes,
                "trainshed.job.state": event.kind,
                "trainshed.job.attempts": event.attempt,
                "trainshed.job.restarts": self._restarts,
                **(self._goodput or {}),
                **({"error.type": event.kind} if event.kind == "FAILED" else {}),
            },
            links=(*_creation_links(began), *_study_links(self._job)),
            error=event.message if event.kind == "FAILED" else "",
        )

    def _make_span(
        self, part: _Open, end_ns: int, *, span_id: int, parent_id: int, error: str = ""
    ) -> TraceSpan:
        return TraceSpan(
            name=part.name,
            trace_id=self._trace_id,
            span_id=span_id,
            parent_id=parent_id,
            start_ns=part.start_ns,
            end_ns=max(part.start_ns, end_ns),
            attributes={
                "trainshed.job.uid": str(self._job.uid),
                "trainshed.attempt": part.began.attempt,
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


def _goodput_attributes(data: Mapping[str, object]) -> Attributes:
    """Return the goodput of a job, or its upper bound, as attributes; empty if neither is known."""
    ratios = {
        "trainshed.job.goodput": data.get("goodput"),
        "trainshed.job.goodput.at_most": data.get("at_most"),
    }
    return {name: float(ratio) for name, ratio in ratios.items() if isinstance(ratio, int | float)}


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
    return () if job.study_uid is None else (_root_link(job.installation, job.study_uid),)


def _root_link(installation: int, uid: int) -> SpanLink:
    return SpanLink(job_trace_id(installation, uid), job_span_id(installation, uid, "job"))
