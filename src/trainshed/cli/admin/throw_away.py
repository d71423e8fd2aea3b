"""``trainshed serve --throw-away``: a temporary server, for one command or for tests.

Its data is in a temporary folder.  It ends when its standard input ends, that is, when its parent
process has ended, and ends its jobs first.  The first line of input is a key to register, which the
parent makes while the server starts.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trainshed.app.application import Application
from trainshed.cli.admin.server import serve, set_up
from trainshed.config import Settings
from trainshed.service.auth import signing_keys
from trainshed.store.decisions import cancel_step
from trainshed.store.listed_jobs import JobListQuery

#: Seconds that jobs have to end; the engine then ends the rest.
_END_S: Final = 20.0
_POLL_S: Final = 0.05
_PAGE: Final = 1000


def serve_throw_away(flags: Mapping[str, Any]) -> int:
    """Serve until the end of standard input."""
    with tempfile.TemporaryDirectory(
        prefix="trainshed-server-", ignore_cleanup_errors=True
    ) as folder:
        settings = set_up({**flags, "data_dir": folder, "port": 0, "grpc_port": 0})
        return serve(
            _allow_root_jobs(settings),
            as_json=True,
            begin=_begin,
            end=_end_jobs,
            holds_ports=False,
        )


def _allow_root_jobs(settings: Settings) -> Settings:
    """Allow jobs to run as root where no other user exists, as in a CI container.

    The jobs come from the command, which has the same rights.
    """
    if settings.isolation is None:
        return settings
    return replace(settings, isolation=settings.isolation._replace(allow_root_jobs=True))


def _begin(application: Application) -> None:
    """Register the key of the first line of input, if there is one."""
    line = sys.stdin.readline()
    if line.strip():
        signing_keys.add(application.store, json.loads(line))
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    while sys.stdin.readline():
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def _end_jobs(application: Application) -> None:
    """Cancel all jobs, and wait up to ``_END_S`` until none of them has a process."""
    store = application.store
    deadline = time.monotonic() + _END_S
    while time.monotonic() < deadline:
        rows = store.job_rows(JobListQuery(project=None, is_open=True, page_size=_PAGE))
        records = store.jobs_by_uid([row.uid for row in rows]).values()
        steps = [step for record in records if (step := cancel_step(record))]
        if steps:
            store.apply(steps)
            application.controller.wake()
        if not rows and not store.holding():
            return
        time.sleep(_POLL_S)
