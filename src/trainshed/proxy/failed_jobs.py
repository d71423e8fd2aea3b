"""Reports failed jobs with the end of their logs, for the output of a test or of a CI run."""

from collections.abc import Iterator
from typing import Final

from trainshed.client.collections import path_of
from trainshed.client.faults import Json
from trainshed.client.http import Server

#: The number of lines of each log that are printed.
LINES: Final = 40
_LIST: Final = path_of("trainshed", "v1", "projects", "-", "jobs")
_FAILED: Final = {"state": "FAILED", "pageSize": 1000}


class FailedJobs:
    """Reports every failed job once."""

    def __init__(self, server: Server) -> None:
        """``server`` is called with a token that may read all projects."""
        self._server = server
        self._reported: set[str] = set()

    def reports(self) -> Iterator[str]:
        """Yield a text for each job that has failed since the last call.

        Raises ServerRefusal and Unreachable.
        """
        page = self._server.call("GET", _LIST, query=_FAILED)
        for row in reversed(page["jobs"]):
            if row["uid"] not in self._reported:
                self._reported.add(row["uid"])
                yield self._report(row)

    def _report(self, row: Json) -> str:
        job = row["name"].rpartition("/")[2]
        path = path_of("trainshed", "v1", "projects", row["project"], "jobs", job)
        error = self._server.call("GET", path).get("error", "")
        lines = self._server.lines(f"{path}/logs", {"tail": LINES})
        texts = [f"  {line.get('task') or 'service'} | {line['message']}" for line in lines]
        head = f"trainshed: job {row['displayName']} failed: {error}"
        return "\n".join([head, f"  {row['name']}, the last lines of its log:", *texts, ""])
