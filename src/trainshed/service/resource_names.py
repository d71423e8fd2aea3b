"""The names of resources, as both dialects write them in URLs and answers."""

from datetime import UTC, datetime, timedelta

from trainshed.store.records import ML_KINDS, Kind

_EPOCH = datetime.fromtimestamp(0, UTC)


def job_name(kind: Kind, project: str, location: str, job_id: str) -> str:
    """``projects/P/jobs/J``, or ``projects/P/locations/L/customJobs/J``.

    The job of an ml v1 trial is ``projects/P/jobs/J/trials/N``, its id being ``J/trials/N``.
    """
    if kind in ML_KINDS:
        return f"projects/{project}/jobs/{job_id}"
    return f"{parent(project, location)}/{kind.value}/{job_id}"


def parent(project: str, location: str) -> str:
    """``projects/P/locations/L``."""
    return f"projects/{project}/locations/{location}"


def stamp_ns(time: datetime) -> int:
    """Nanoseconds since 1970, exactly: a float would lose the last digits."""
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000
