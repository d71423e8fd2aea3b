"""Holds back a job's ``endTime`` from a gcloud that streams its log, until it has read the log.

``gcloud ai-platform jobs submit training --stream-logs`` and ``jobs stream-logs`` read no entry
younger than 5 s.  After two polls without entries gcloud requests the job, and stops at once if
the job has an ``endTime``.  So the last lines of a job that wrote nothing before would be lost.
Other commands and clients get ``endTime`` with the final state.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from trainshed.wire.times import time_of

#: The name of a streaming command in gcloud's User-Agent.
_STREAMING: Final = re.compile(
    r"\bcommand/gcloud\.(?:alpha\.|beta\.)?(?:ai-platform|ml-engine)\.jobs\."
    r"(?:submit\.training|stream-logs)(?:\s|$)"
)
#: gcloud's 5 s, and 5 s more for a client whose clock is late.
_HELD: Final = timedelta(seconds=10)


def without_fresh_end(
    document: Mapping[str, Any], user_agent: str, now: datetime
) -> Mapping[str, Any]:
    """Return an ml v1 job without an ``endTime`` that a streaming gcloud must not see yet."""
    if "jobId" not in document or not _STREAMING.search(user_agent):
        return document
    end = time_of(document.get("endTime"))
    if end is None or now - end >= _HELD:
        return document
    return {name: value for name, value in document.items() if name != "endTime"}
