"""Filters of logs as the Vertex commands of gcloud write them."""

import re

from trainshed.wire.times import timestamp


def render(wanted):
    """A filter as the Vertex commands of gcloud write it."""
    clauses = ['resource.type="ml_job"', f"resource.labels.job_id={_quoted(wanted.job_id)}"]
    if wanted.task_name is not None:
        clauses.append(f"resource.labels.task_name={_quoted(wanted.task_name)}")
    if wanted.trial is not None:
        clauses.append(f'labels."ml.googleapis.com/trial_id"={_quoted(wanted.trial)}')
    if wanted.from_ns is not None:
        time = _quoted(timestamp(wanted.from_ns))
        clauses.append(
            f"timestamp>={time}"
            if wanted.after_id is None
            else f"((timestamp={time} AND insertId>{_quoted(wanted.after_id)}) OR timestamp>{time})"
        )
    if wanted.before_ns is not None:
        clauses.append(f"timestamp<{_quoted(timestamp(wanted.before_ns))}")
    return " AND ".join(clauses)


def _quoted(text):
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
