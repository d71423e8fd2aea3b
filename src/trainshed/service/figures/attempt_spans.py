"""Returns when the attempts of a job had their nodes."""

from trainshed.service.figures.answers import AttemptSpan
from trainshed.service.goodput.facts import goodput_facts
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord


def list_attempt_spans(store: Store, record: JobRecord) -> list[AttemptSpan]:
    """Return the spans of a job's attempts that had nodes, in order."""
    return [
        AttemptSpan(attempt=one.attempt, start=one.placed_s, end=one.ended_s)
        for one in goodput_facts(store, record).attempts
    ]
