"""Filters of ``jobs.list`` (contracts/vertex-sdk.md 7.1): ``jobId:census* AND state:FAILED``."""

from typing import Final

from trainshed.model.filters import Filter
from trainshed.wire.list_filter import read_filter
from trainshed.wire.list_filter_words import MATCHING, ORDERED, FilterWords
from trainshed.wire.ml_v1.states import STATE
from trainshed.wire.telling import states_of

WORDS: Final = FilterWords(
    operators={
        "job_id": MATCHING,
        "state": MATCHING,
        "create_time": ORDERED,
        "labels": MATCHING,
    },
    states={**states_of(STATE), "STATE_UNSPECIFIED": None},
)


def jobs_filter(text: str) -> Filter:
    """The meaning of a filter.  Raises Refusal (INVALID_ARGUMENT)."""
    return read_filter(text, WORDS)
