"""Reads the figures of jobs over time from a server."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trainshed.client.faults import Json

if TYPE_CHECKING:
    from trainshed.client.http import Server

#: The longest time in seconds for which a caller requests the rest of event files.
READ_S_MAX: Final = 300.0


def read_usage(
    server: "Server",
    path: str,
    *,
    attempt: int | None = None,
    since_s: float | None = None,
    points_max: int | None = None,
) -> Json:
    """Return what the replicas and GPUs of a job used; ``path`` is that of the job.

    ``since_s`` is in seconds since 1970.  Raises as ``Server.call`` does.
    """
    query = {"attempt": attempt, "since": since_s, "points": points_max}
    return server.call("GET", f"{path}/usage", query=query)


def read_scalars(
    server: "Server",
    path: str,
    names: Sequence[str] = (),
    *,
    points_max: int | None = None,
    limit_s: float = READ_S_MAX,
) -> Json:
    """Return the scalars of a job, all of its event files included; ``path`` is that of the job.

    A server reads large event files in several calls.  After ``limit_s`` seconds the answer is
    returned as it is, and its ``complete`` is false.  Raises as ``Server.call`` does.
    """
    until_s = time.monotonic() + limit_s
    query = {"names": list(names), "points": points_max}
    while True:
        answer = server.call("GET", f"{path}/scalars", query=query)
        if answer["complete"] or time.monotonic() >= until_s:
            return answer


def list_progress(server: "Server", project: str, job: str | None = None) -> Json:
    """Return how far the running jobs of a project are; ``-`` means all visible projects.

    With ``job``, its id, only that job is read.
    """
    return server.call("GET", f"/trainshed/v1/projects/{project}/progress", query={"job": job})
