"""Filters of logs as the Vertex commands of gcloud write them."""

import re

from trainshed.wire.times import timestamp


def render(  # noqa: PLR0913 - the clauses
    job_id, *, task_name=None, trial=None, from_ns=None, after_id=None, before_ns=None
):
    """A filter as the Vertex commands of gcloud write it (docs/sources/gcloud.md 7.1).

    gcloud never writes the clause of a trial, which is ours.
    """
    clauses = ['resource.type="ml_job"', f"resource.labels.job_id={_quoted(job_id)}"]
    if task_name is not None:
        clauses.append(f"resource.labels.task_name={_quoted(task_name)}")
    if trial is not None:
        clauses.append(f'labels."ml.googleapis.com/trial_id"={_quoted(trial)}')
    if from_ns is not None:
        time = _quoted(timestamp(from_ns))
        clauses.append(
            f"timestamp>={time}"
            if after_id is None
            else f"((timestamp={time} AND insertId>{_quoted(after_id)}) OR timestamp>{time})"
        )
    if before_ns is not None:
        clauses.append(f"timestamp<{_quoted(timestamp(before_ns))}")
    return " AND ".join(clauses)


def _quoted(text):
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
