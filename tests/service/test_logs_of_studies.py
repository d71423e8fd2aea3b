"""The log of a tuning job: the lines of all its trials in one order, however many there are."""

import resource
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import pytest

from service.log_reading import read_page
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.model.job import JobSpec
from trainshed.model.log_line import LOG_FOLDER, LogLine
from trainshed.model.roles import Dialect
from trainshed.model.status import JobState, JobStatus
from trainshed.model.study import Metric, StudySpec
from trainshed.service.log import stream as log_stream
from trainshed.service.log.pages import LogService
from trainshed.service.log.stream import sources
from trainshed.storage.log_files import JobLog
from trainshed.store.records.studies import TrialJob
from trainshed.wire.logging_v2.entries import EntriesQuery

TRIALS, LINES = 60, 3
STUDY_UID = 7


class FakeJob(NamedTuple):
    spec: JobSpec
    status: JobStatus
    job_id: str = "census"


class FakeRecord(NamedTuple):
    uid: int
    job: FakeJob


class OneStudy:
    """A store with one study and nothing to say of it."""

    def __init__(self, uids):
        self._uids = uids
        spec = JobSpec(
            dialect=Dialect.ML_V1,
            job_id="census",
            study=StudySpec(metrics=(Metric(metric_id="acc"),), parameters=()),
        )
        now = datetime(2026, 11, 21, tzinfo=UTC)
        status = JobStatus(state=JobState.SUCCEEDED, create_time=now, update_time=now)
        self.record = FakeRecord(STUDY_UID, FakeJob(spec, status))

    def trial_jobs(self, _uid):
        return [TrialJob(number=n, job_uid=uid) for n, uid in enumerate(self._uids, start=1)]

    def job(self, *_name):
        return self.record

    def job_by_uid(self, _uid):
        return self.record

    def events(self, *_args, **_more):
        return []


@pytest.fixture
def logs(tmp_path):
    """Each trial writes a line, each another one, and so on."""
    uids = range(100, 100 + TRIALS)
    clock = count(1_000_000_000, 1_000)
    writers = [
        SegmentWriter(tmp_path / str(uid) / "1" / LOG_FOLDER, clock=lambda: next(clock))
        for uid in uids
        if (tmp_path / str(uid) / "1").mkdir(parents=True) is None
    ]
    for line in range(LINES):
        for number, writer in enumerate(writers, start=1):
            writer.line("master-replica-0", f"{number}:{line}", severity="INFO", stream="stdout")
            writer.flush()
    for writer in writers:
        writer.close()
    return LogService(OneStudy(uids), JobLog(tmp_path))


IN_ORDER = [f"{number}:{line}" for line in range(LINES) for number in range(1, TRIALS + 1)]


@contextmanager
def so_many_more_files(more):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_descriptors = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = (descriptor for descriptor in count() if descriptor not in open_descriptors)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, more, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def page(logs, size, **more):
    query = 'resource.type="ml_job" AND resource.labels.job_id="census"'
    log_page = read_page(logs, "p", EntriesQuery(filter=query, page_size=size, **more))
    return [entry["jsonPayload"]["message"] for entry in log_page.entries]


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_holds_only_the_logs_open_that_it_shows(logs, descending):
    with so_many_more_files(TRIALS // 2):
        messages = page(logs, 10, descending=descending)
    assert messages == (IN_ORDER[::-1] if descending else IN_ORDER)[:10]


@pytest.mark.parametrize("descending", [False, True])
def test_a_page_of_all_lines_has_each_once_and_in_order(logs, descending):
    messages = page(logs, 1000, descending=descending)
    assert messages == (IN_ORDER[::-1] if descending else IN_ORDER)


def test_lines_come_in_the_order_of_time_and_not_trial_by_trial(logs, monkeypatch):
    monkeypatch.setattr(log_stream, "READ_MAX", 7)
    cursor = logs.cursor(logs.store.record)
    all_lines: list[LogLine] = []
    while not cursor.is_over:
        lines = cursor.read()
        assert len(lines) <= 7
        all_lines += lines
    assert [line.text for line in all_lines] == IN_ORDER
    assert [line.trial for line in all_lines] == [text.partition(":")[0] for text in IN_ORDER]


def test_trials_that_ended_long_before_are_not_looked_at(logs):
    record = logs.store.record
    later_ns = int(datetime(2026, 11, 22, tzinfo=UTC).timestamp()) * 10**9
    assert len(sources(logs.store, record, from_ns=later_ns)) == TRIALS
    over = datetime(2026, 11, 21, tzinfo=UTC)
    jobs = [TrialJob(number=1, job_uid=100, end_time=over), TrialJob(number=2, job_uid=101)]
    logs.store.trial_jobs = lambda _uid: jobs
    assert [source.trial for source in sources(logs.store, record, from_ns=later_ns)] == ["2"]
