"""What belongs to a job's log: its own lines or those of its trials' jobs (R19), and its story.

The service's own words are kept once, as events; here they become lines.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from trainshed.model.log_line import SERVICE_TASK, SEVERITIES, LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobUid
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segment import Span
from trainshed.store.opening import Store
from trainshed.store.records import JobRecord, StoredEvent, TrialJob

_READ_MAX: Final = 1000

#: Kinds of events that are more than a piece of news.
_GRAVE: Final = {"FAILED": "ERROR", "RESTARTING": "WARNING", "ENGINE_RETRIED": "WARNING"}


def all_events(store: Store, uid: JobUid) -> Iterator[StoredEvent]:
    """The whole story of a job."""
    seq = 0
    while events := store.events(uid, after=seq, limit=_READ_MAX):
        yield from events
        seq = events[-1].seq


def line_of(event: StoredEvent) -> LogLine:
    """A sentence of a job's story as a line of its log.

    Its severity is the event's own (``data["severity"]``), or follows from its kind.
    """
    own = event.data.get("severity")
    return LogLine(
        stamp_ns=event.stamp_ns,
        task_name=SERVICE_TASK,
        text=event.message,
        severity=str(own) if own in SEVERITIES else _GRAVE.get(event.kind, "INFO"),
    )


def wants_story(task: str | None) -> bool:
    """Whether somebody who asks for the lines of this task asks for the story."""
    return task in (None, SERVICE_TASK)


_NS: Final = 1_000_000_000
#: The last lines of a job may be stamped a little behind its end.
_SLACK: Final = timedelta(seconds=60)


class LogSource(NamedTuple):
    """A job whose lines are asked for, and the trial that it is of, if it is of one."""

    uid: JobUid
    trial: str = ""

    def marked(self, line: LogLine) -> LogLine:
        """A line with its trial: what the service says of a trial's job does not bear it."""
        return line._replace(trial=self.trial) if self.trial and not line.trial else line


def sources(
    store: Store, record: JobRecord, *, from_ns: int = 0, trial: str | None = None
) -> tuple[LogSource, ...]:
    """The jobs whose lines are asked for.

    Trials that ended before ``from_ns`` are left out: a study may have a thousand.
    """
    spec = record.job.spec
    if not spec.is_study:
        own = spec.trial.trial_id if spec.trial else ""
        return (LogSource(record.uid, own),) if trial in (None, own) else ()
    since = datetime.fromtimestamp(from_ns // _NS, UTC) - _SLACK
    jobs = store.trial_jobs(record.uid)
    wanted = (job for job in jobs if _is_wanted(job, since, trial))
    return tuple(LogSource(job.job_uid, str(job.number)) for job in wanted)


def story_of(store: Store, record: JobRecord, trial: str | None) -> LogSource | None:
    """Whose events are told: the job's own, or those of a trial's job where one trial is asked for.

    None for a trial that is not there.
    """
    if trial is None:
        return LogSource(record.uid)
    return next(iter(sources(store, record, trial=trial)), None)


def check_trial(store: Store, record: JobRecord, trial: str | None) -> None:
    """Refuse a trial that is not there, or not yet, instead of telling nothing of it."""
    if trial is None or sources(store, record, trial=trial):
        return
    job = record.job
    if not job.spec.is_study:
        raise Refusal(Code.NOT_FOUND, f"job {job.job_id} has no trials: it is no tuning job")
    numbers = [each.number for each in store.trial_jobs(record.uid)]
    there = f"{numbers[0]} to {numbers[-1]}, {len(numbers)} in all" if numbers else "none yet"
    raise Refusal(
        Code.NOT_FOUND, f"tuning job {job.job_id} has no trial {trial}; there are: {there}"
    )


def lines_of(job_log: JobLog, source: LogSource, span: Span) -> Iterator[LogLine]:
    """The lines of a source in a span, one by one.

    No file is held open before the second line is asked for: where a thousand sources are merged,
    most are not come to.
    """
    for first in list(islice(job_log.read(source.uid, span), 1)):
        yield source.marked(first)
        if span.newest_first:
            rest = replace(span, before_ns=first.stamp_ns)
        else:
            rest = replace(span, from_ns=first.stamp_ns + 1)
        yield from map(source.marked, job_log.read(source.uid, rest))


def _is_wanted(job: TrialJob, since: datetime, trial: str | None) -> bool:
    is_recent = job.end_time is None or job.end_time >= since
    return is_recent and trial in (None, str(job.number))
