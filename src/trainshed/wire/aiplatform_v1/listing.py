"""Filters of the lists of jobs and pipelines (contracts/vertex-sdk.md 8, end)."""

from collections.abc import Mapping
from typing import Final

from trainshed.model.filters import Filter
from trainshed.model.status import JobState
from trainshed.wire.aiplatform_v1.render import STATE
from trainshed.wire.list_filter import MATCHING, ORDERED, FilterWords, read_filter
from trainshed.wire.status import states_of

#: States of the dialect that no job here is ever in; all but PAUSED are of jobs only.
NEVER: Final = ("UNSPECIFIED", "PAUSED", "EXPIRED", "UPDATING", "PARTIALLY_SUCCEEDED")
NEVER_OF_PIPELINES: Final = NEVER[:2]

_FIELDS: Final = {
    "display_name": MATCHING,
    "state": MATCHING,
    "create_time": ORDERED,
    "labels": MATCHING,
}


def _states(prefix: str, never: tuple[str, ...]) -> Mapping[str, JobState | None]:
    found = {f"{prefix}_{word}": state for word, state in states_of(STATE).items()}
    return {**found, **{f"{prefix}_{word}": None for word in never}}


JOBS: Final = FilterWords(operators=_FIELDS, states=_states("JOB_STATE", NEVER))
PIPELINES: Final = FilterWords(
    operators={**_FIELDS, "training_task_definition": MATCHING},
    states=_states("PIPELINE_STATE", NEVER_OF_PIPELINES),
)


def jobs_filter(text: str) -> Filter:
    """The meaning of a filter of custom or tuning jobs.  Raises Refusal (INVALID_ARGUMENT)."""
    return read_filter(text, JOBS)


def pipelines_filter(text: str) -> Filter:
    """The meaning of a filter of training pipelines.  Raises Refusal (INVALID_ARGUMENT)."""
    return read_filter(text, PIPELINES)
