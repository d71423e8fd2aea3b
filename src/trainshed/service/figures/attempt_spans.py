"""Reads from a job's events when its attempts had their nodes."""

from typing import Final

from trainshed.service.figures.answers import AttemptSpan
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord

_NS: Final = 1e9
#: The most events of each kind that are read, the newest ones.
_EVENTS_MAX: Final = 1000
#: An attempt has its nodes from the first of these events on, to the first of those.
_BEGIN: Final = ("PLACED", "PREPARING")
_END: Final = ("RESTARTING", "HELD", "SUCCEEDED", "FAILED", "CANCELLED")


def list_attempt_spans(store: Store, record: JobRecord) -> list[AttemptSpan]:
    """Return the spans of a job's newest attempts, in order."""
    starts = _first_times(store, record, _BEGIN)
    ends = _first_times(store, record, _END)
    return [
        AttemptSpan(attempt=attempt, start=start_s, end=ends.get(attempt))
        for attempt, start_s in sorted(starts.items())
        if attempt
    ]


def _first_times(store: Store, record: JobRecord, kinds: tuple[str, ...]) -> dict[int, float]:
    """Return the time of the first event of these kinds, by attempt."""
    times: dict[int, float] = {}
    for kind in kinds:
        for event in store.events_of_kind(record.uid, kind, limit=_EVENTS_MAX):
            at_s = event.stamp_ns / _NS
            times[event.attempt] = min(at_s, times.get(event.attempt, at_s))
    return times
