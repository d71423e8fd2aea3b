"""A native API over a store and a folder with the logs of its jobs, as the tests of logs use it."""

import json
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace

from api.support import application, build_native, client, project
from databases import new_database
from store.builders import add
from trainshed.api.native.app import native_app
from trainshed.model.log_line import LOG_FOLDER, LogLine, encode, segment_name
from trainshed.service.jobs.story import Stories
from trainshed.service.log.numbered import NumberedLogs
from trainshed.service.log.pages import LogService
from trainshed.service.log.streams import Streams
from trainshed.storage.log_files import JobLog
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.steps import NewEvent, Step

NUMBERS = count(1)
JOBS = "/trainshed/v1/projects/demo/jobs"


def line(stamp_ns, text="x", task="w-0", severity="INFO"):
    return LogLine(stamp_ns=stamp_ns, task_name=task, text=text, severity=severity)


@contextmanager
def log_edge(folder, streams_max=None):
    """Yield the client, the store, the logs, and functions that write."""
    store = open_store(new_database(folder))
    job_log = JobLog(folder / "jobs")
    native = build_native(
        store=store,
        stories=Stories(store),
        logs=LogService(store, job_log),
        numbered_logs=NumberedLogs(store, job_log),
        streams=Streams(streams_max),
    )
    app = native_app(native, "1")
    app.state.permissions = type(app.state.permissions)(project)
    with client(application([], native=app)) as http:
        yield Edge(http, store, job_log, native)
    store.close()


class Edge(SimpleNamespace):
    __repr__ = object.__repr__

    def __init__(self, http, store, job_log, native):
        super().__init__(http=http, store=store, job_log=job_log, native=native)

    def add_job(self, job_id="", **changes):
        job_id = job_id or f"job{next(NUMBERS)}"
        defaults = {"kind": JobKind.ML_JOB, "display_name": "", "project": "demo"}
        return add(self.store, job_id=job_id, **{**defaults, **changes})

    def write(self, uid, lines, *, attempt=1, segment=1, torn=b""):
        folder = self.job_log.root / str(uid) / str(attempt) / LOG_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / segment_name(segment)
        path.write_bytes(b"".join(map(encode, lines)) + torn)
        return path

    def say(self, uid, *messages):
        """Store sentences of the service; return their stamps."""
        record = self.store.job_by_uid(uid)
        events = tuple(NewEvent(kind="NOTE", message=message) for message in messages)
        step = Step(uid=uid, version=record.version, state=record.job.status.state, events=events)
        assert list(self.store.apply([step])) == [True]
        return [event.stamp_ns for event in self.store.events(uid)][-len(messages) :]

    def get(self, path, caller="demo", headers=(), **query):
        headers = {"Authorization": f"Bearer {caller}", **dict(headers)}
        return self.http.get(f"{JOBS}/{path}", params=query, headers=headers)

    def window(self, job, **query):
        answer = self.get(f"{job}/logs:window", **query)
        assert answer.status_code == 200, answer.text
        return json.loads(answer.text)

    def refusal(self, path, status=400, **query):
        answer = self.get(path, **query)
        assert answer.status_code == status, answer.text
        return answer.json()["error"]["message"]
