"""Reads the times of a job and its attempts from its stored events."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from trainshed.model import event_kinds as kinds
from trainshed.model.attempt import AttemptKey
from trainshed.planning.attempt_steps import (
    ENDED_S,
    NOTICE_S,
    SKEW_S,
    STEPS_READ,
    StepsMade,
    read_steps_made,
)
from trainshed.planning.goodput import AttemptTimes, JobTimes
from trainshed.service.costs.held_gpus import HeldSize, count_held_gpus, count_vcpus
from trainshed.service.goodput.moments import add_steps, subtract_clock_sets
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import StoredEvent

#: The number of events of a job that are read together, and the most that are read.
_EVENTS_AT_ONCE: Final = 1_000
EVENTS_MAX: Final = 20_000

#: Returns the first and the last step of an attempt, which may live; None if there are none.
ReadSteps = Callable[[AttemptKey], StepsMade | None]


def goodput_facts(
    store: Store, record: JobRecord, read_steps: ReadSteps = lambda _: None
) -> JobTimes:
    """Return the times of a job and its attempts.  Raises StoreFault.

    The steps of an attempt come from the event of its end, else from ``read_steps``.
    """
    demand = store.demand(record.uid)
    size = HeldSize(count_held_gpus(store, record.uid, demand), count_vcpus(demand))
    events = read_events(store, record.uid)
    return job_times(store, record, size, events, list_attempts(store, record, events, read_steps))


def list_attempts(
    store: Store, record: JobRecord, events: Sequence[StoredEvent], read_steps: ReadSteps
) -> Sequence[AttemptTimes]:
    """Return the times of all attempts that had machines, with their steps.

    Steps come from the event of an attempt's end, from the event of the job's goodput, else from
    ``read_steps``.
    """
    skew_s = store.clock_skew_s()
    end = find_end_event(store, record.uid, events)
    if end is not None and STEPS_READ in end.data:
        read_steps, skew_s = partial(_read_stored_steps, end.data), 0.0
    now_s = store.now().timestamp()
    return [
        _add_steps(attempt, partial(read_steps, key), skew_s, now_s)
        for attempt in list_attempt_times(events)
        if (key := AttemptKey(record.uid, attempt.attempt))
    ]


def job_times(
    store: Store,
    record: JobRecord,
    size: HeldSize,
    events: Sequence[StoredEvent],
    attempts: Sequence[AttemptTimes],
) -> JobTimes:
    """Return the times of a job on the clock of now, from ``list_attempts``."""
    status = record.job.status
    times = JobTimes(
        accepted_s=_seconds(status.create_time) or 0.0,
        ended_s=_job_ended_s(events, attempts, _seconds(status.end_time)),
        attempts=tuple(replace(attempt, gpus=size.gpus, vcpus=size.vcpus) for attempt in attempts),
    )
    return subtract_clock_sets(times, store.clock_sets())


def find_end_event(store: Store, uid: int, events: Sequence[StoredEvent]) -> StoredEvent | None:
    """Return the event with the goodput of a job, in its events; None before it was stored."""
    if len(events) >= EVENTS_MAX:  # the last ones were not read
        events = store.events_of_kind(uid, kinds.GOODPUT, limit=1)
    return next((event for event in reversed(events) if event.kind == kinds.GOODPUT), None)


def _read_stored_steps(data: Mapping[str, Any], key: AttemptKey) -> StepsMade | None:
    """Read the steps of an attempt from the data of the event with the goodput of its job."""
    by_attempt = data[STEPS_READ]
    values = by_attempt.get(str(key.attempt)) if isinstance(by_attempt, dict) else None
    return read_steps_made(values) if isinstance(values, dict) else None


def read_events(store: Store, uid: int) -> Sequence[StoredEvent]:
    """Return the events of a job in order, at most the first ``EVENTS_MAX``."""
    events: list[StoredEvent] = []
    while len(events) < EVENTS_MAX:
        seq = events[-1].seq if events else 0
        events += (page := store.events(uid, after=seq, limit=_EVENTS_AT_ONCE))
        if len(page) < _EVENTS_AT_ONCE:
            break
    return events


def _job_ended_s(
    events: Sequence[StoredEvent], attempts: Sequence[AttemptTimes], noted_s: float | None
) -> float | None:
    """Return when a job ended: with its last attempt, or at ``noted_s`` if it waited."""
    end = next((event for event in reversed(events) if event.kind in kinds.ENDS), None)
    if noted_s is None or end is None or not attempts:
        return noted_s
    return min(noted_s, read_end_s(end, attempts[-1].placed_s))


def _add_steps(
    attempt: AttemptTimes, read_steps: Callable[[], StepsMade | None], skew_s: float, now_s: float
) -> AttemptTimes:
    """Add the steps of an attempt whose last event does not have them."""
    if attempt.first_step_s is not None:
        return attempt
    end_s = now_s if attempt.ended_s is None else attempt.ended_s
    return add_steps(attempt, read_steps(), skew_s, end_s)


def list_attempt_times(events: Iterable[StoredEvent]) -> Sequence[AttemptTimes]:
    """Return the times of all attempts that had machines, from the events of their job."""
    by_attempt: Mapping[int, list[StoredEvent]] = defaultdict(list)
    for event in events:
        by_attempt[event.attempt].append(event)
    attempts = (_attempt_times(number, by_attempt[number]) for number in sorted(by_attempt))
    return [attempt for attempt in attempts if attempt is not None]


def _attempt_times(number: int, events: Sequence[StoredEvent]) -> AttemptTimes | None:
    """Return the times of an attempt; None if it never had machines."""
    placed_s = _first(events, kinds.HOLDS)
    if placed_s is None:
        return None
    end = next((event for event in events if event.kind in kinds.ENDS), None)
    ended_s = read_end_s(end, placed_s) if end else None
    stop_s = _stop_s(events, end, ended_s)
    attempt = AttemptTimes(
        attempt=number,
        placed_s=placed_s,
        running_s=_first(events, {kinds.RUNNING}),
        ended_s=ended_s,
        stop_s=stop_s,
        hangs=tuple(_list_hangs(events)),
        has_failed=end is not None and end.kind in kinds.FAILS and stop_s is None,
    )
    if end is None or ended_s is None:
        return attempt
    return add_steps(attempt, read_steps_made(end.data), _skew_s(end), _stamp(end))


def read_end_s(end: StoredEvent, placed_s: float) -> float:
    """Return when an attempt ended, from its last event: the event is later if no server ran.

    A time outside of the attempt, by a wrong clock, does not count.
    """
    ended_s, noted_s = end.data.get(ENDED_S), _stamp(end)
    if isinstance(ended_s, int | float) and placed_s <= ended_s - _skew_s(end) <= noted_s:
        return float(ended_s) - _skew_s(end)
    return noted_s


def _skew_s(end: StoredEvent) -> float:
    """Return by how much the machine's clock was ahead of the store's at the end of an attempt."""
    skew_s = end.data.get(SKEW_S)
    return float(skew_s) if isinstance(skew_s, int | float) else 0.0


def _stop_s(
    events: Sequence[StoredEvent], end: StoredEvent | None, ended_s: float | None
) -> float | None:
    """Return when an attempt got its notice, from the server or a cluster; None without one."""
    stop_s = _first(events, kinds.STOPS)
    notice_s = end.data.get(NOTICE_S) if end else None
    if stop_s is None and ended_s is not None and isinstance(notice_s, int | float):
        return ended_s - notice_s
    return stop_s


def _first(events: Sequence[StoredEvent], of_kinds: frozenset[str] | set[str]) -> float | None:
    """Return the time of the first event of some kinds; None without one."""
    return next((_stamp(event) for event in events if event.kind in of_kinds), None)


def _list_hangs(events: Sequence[StoredEvent]) -> Iterator[tuple[float, float]]:
    """Yield begin and end of the hangs of replicas; one that did not recover has no end."""
    for index, event in enumerate(events):
        if event.kind != kinds.HUNG:
            continue
        seconds = event.data.get("seconds")
        begin_s = _stamp(event) - (float(seconds) if isinstance(seconds, int | float) else 0.0)
        recovered = (
            _stamp(later)
            for later in events[index + 1 :]
            if later.kind == kinds.RECOVERED
            and later.data.get("task_name") == event.data.get("task_name")
        )
        yield begin_s, next(recovered, math.inf)


def _stamp(event: StoredEvent) -> float:
    return event.stamp_ns / 1e9


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
