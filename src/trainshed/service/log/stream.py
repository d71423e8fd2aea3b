"""Reads a job's log while it grows: lines and events, each in their own order.

An event may be committed after lines with later stamps were read; it then comes late.  A log has
the lines of the job or of its trials' jobs, and its events.  The service's messages are stored
once, as events; this module returns them as lines.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple

from trainshed.model.log_line import SERVICE_TASK, SEVERITIES, LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobUid
from trainshed.service.log.matching import Matcher
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segments import Span, task_needle
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import StoredEvent
from trainshed.store.records.studies import TrialJob

READ_MAX: Final = 1000
#: A read ends early when its texts have more characters than this: there are many readers.
READ_LENGTH_MAX: Final = 1 << 19

#: Severities of event kinds other than INFO.
_GRAVE: Final = {"FAILED": "ERROR", "RESTARTING": "WARNING", "ENGINE_RETRIED": "WARNING"}


def all_events(store: Store, uid: JobUid) -> Iterator[StoredEvent]:
    """Read all events of a job."""
    seq = 0
    while events := store.events(uid, after=seq, limit=READ_MAX):
        yield from events
        seq = events[-1].seq


def newest_events(store: Store, uid: JobUid, until_ns: int | None) -> Iterator[StoredEvent]:
    """Read the events of a job until a stamp (None: all), the newest first."""
    before = None
    while events := store.events_before(uid, before=before, until_ns=until_ns, limit=READ_MAX):
        yield from events
        if len(events) < READ_MAX:
            return
        before = events[-1].seq


def line_of(event: StoredEvent) -> LogLine:
    """Return an event as a line of the log.

    Its severity is the event's own (``data["severity"]``), or that of its kind.
    """
    severity = event.data.get("severity")
    return LogLine(
        stamp_ns=event.stamp_ns,
        task_name=SERVICE_TASK,
        text=event.message,
        severity=str(severity) if severity in SEVERITIES else _GRAVE.get(event.kind, "INFO"),
    )


def wants_story(task: str | None) -> bool:
    """Whether a request for this task's lines includes the events."""
    return task in (None, SERVICE_TASK)


_NS: Final = 1_000_000_000
#: The last lines of a job may be stamped a little behind its end.
_SLACK: Final = timedelta(seconds=60)


class LogSource(NamedTuple):
    """A job whose lines are read, and its trial number if it is the job of a trial."""

    uid: JobUid
    trial: str = ""

    def marked(self, line: LogLine) -> LogLine:
        """Return a line with its trial number, which events of a trial's job do not have."""
        return line._replace(trial=self.trial) if self.trial and not line.trial else line


def sources(
    store: Store, record: JobRecord, *, from_ns: int = 0, trial: str | None = None
) -> tuple[LogSource, ...]:
    """List the jobs whose lines are read.

    Trials that ended before ``from_ns`` are left out, because a study may have a thousand.
    """
    spec = record.job.spec
    if not spec.is_study:
        trial_id = spec.trial.trial_id if spec.trial else ""
        return (LogSource(record.uid, trial_id),) if trial in (None, trial_id) else ()
    since = datetime.fromtimestamp(from_ns // _NS, UTC) - _SLACK
    jobs = store.trial_jobs(record.uid)
    matches = (job for job in jobs if _is_wanted(job, since, trial))
    return tuple(LogSource(job.job_uid, str(job.number)) for job in matches)


def story_of(store: Store, record: JobRecord, trial: str | None) -> LogSource | None:
    """Return the uid whose events are shown: of the job, or of the job of the requested trial.

    None for a trial that does not exist.
    """
    if trial is None:
        return LogSource(record.uid)
    return next(iter(sources(store, record, trial=trial)), None)


def check_trial(store: Store, record: JobRecord, trial: str | None) -> None:
    """Raise Refusal for a trial that does not exist, instead of showing an empty log."""
    if trial is None or sources(store, record, trial=trial):
        return
    job = record.job
    if not job.spec.is_study:
        raise Refusal(Code.NOT_FOUND, f"job {job.job_id} has no trials: it is not a tuning job")
    numbers = [row.number for row in store.trial_jobs(record.uid)]
    trials = f"{numbers[0]} to {numbers[-1]}, {len(numbers)} in all" if numbers else "none yet"
    raise Refusal(
        Code.NOT_FOUND, f"tuning job {job.job_id} has no trial {trial}; its trials: {trials}"
    )


def lines_of(job_log: JobLog, source: LogSource, span: Span) -> Iterator[LogLine]:
    """Yield the lines of a source in a span.

    No file stays open before the second line is requested: of a thousand merged sources most are
    never read.
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


#: Adds the last event of an ended job, by uid, unless it has it.
Settle = Callable[[int], object]


class LogCursor:
    """A position in the log of one job; reads never block."""

    def __init__(  # noqa: PLR0913 - the job, and which of its lines
        self,
        store: Store,
        job_log: JobLog,
        record: JobRecord,
        after_ns: int,
        *,
        trial: str | None = None,
        task: str | None = None,
        matcher: Matcher | None = None,
        settle: Settle | None = None,
    ) -> None:
        """Begin after a stamp.  ``trial``: only the log of this trial's job.

        ``task``: only the lines of one replica, or of ``service``.  ``matcher``: only lines with
        this text.  ``settle`` is called by ``settle_end``.
        """
        self._trial = trial
        self._task = task
        self._matcher = matcher
        self._store = store
        self._settle = settle if wants_story(task) else None
        self._job_log = job_log
        self._record = record
        self._story = story_of(store, record, trial)
        self._after_ns = after_ns
        self._line_ns: dict[int, int] = {}
        """How far each source was read; the sources of a tuning job are its trials' jobs."""
        self._seq: int | None = None
        """The seq of the last event that was read; None: none yet."""
        self._until_ns: int | None = None
        """The stamp of the last line that is read; None: lines are read until the end."""
        self.examined_ns: int | None = None
        """The stamp until which ``skip_in_turns`` went back; None if it was not stopped early."""
        self.until_ns: int | None = None
        """The stamp until which the last read was complete; None if it reached the end."""
        self.has_all = False
        """Whether the last read reached the end of the log at that time."""
        self.is_over = False
        """Whether the job is final and all of its log was read."""
        self.must_settle = False
        """Whether the job is final, and the caller calls ``settle_end`` before the next read."""

    def settle_end(self) -> None:
        """Add the last event of the job, once; may take seconds, as it reads the job's usage."""
        if self.must_settle and self._settle is not None:
            self._settle(self._story.uid if self._story else self._record.uid)
        self._settle, self.must_settle = None, False

    def skip_in_turns(
        self, count: int, before_ns: int | None = None, *, reads_new: bool = True
    ) -> Generator[None, None, None]:
        """Move to the last ``count`` lines (at least one) of the current log, or before a stamp.

        Yields after each examined line, because the last lines with a text may be far.
        ``reads_new`` is whether lines that are written later are read.

        A caller that stops earlier has moved to the last examined line, ``examined_ns``.
        """
        match_ns: int | None = None
        if not reads_new:
            self._until_ns = 0
        try:
            for line in self._newest_lines(before_ns):
                if self._until_ns is not None:
                    self._until_ns = max(self._until_ns, line.stamp_ns)
                self.examined_ns = line.stamp_ns
                if self._matches(line):
                    match_ns, count = line.stamp_ns, count - 1
                if not count:
                    break
                yield
            self.examined_ns = None
        finally:
            first_ns = match_ns if self.examined_ns is None else self.examined_ns
            self._after_ns = max(self._after_ns, (first_ns or 0) - 1)

    def _newest_lines(self, before_ns: int | None) -> Iterator[LogLine]:
        """Yield the lines before a stamp, the newest first: matches, and some others."""
        span = Span(newest_first=True, before_ns=before_ns, holds=self._holds)
        streams = [lines_of(self._job_log, source, span) for source in self._sources()]
        if self._story and wants_story(self._task):
            until_ns = None if before_ns is None else before_ns - 1
            events = newest_events(self._store, self._story.uid, until_ns)
            streams.append(map(self._as_line, events))
        return merge(*streams, key=lambda line: -line.stamp_ns)

    def skip_to(self, stamp_ns: int) -> None:
        """Move to the first line with a stamp or a later one."""
        self._after_ns = max(self._after_ns, stamp_ns - 1)

    def read(self) -> list[LogLine]:
        """Return the new lines, a few thousand at most; often none."""
        uid = self._story.uid if self._story else self._record.uid
        record = self._store.job_by_uid(uid)
        is_final = record is None or record.job.status.state.is_final
        lines, until_ns = self._new_lines()
        seq = self._last_seq(uid) if self._seq is None else self._seq
        events = self._store.events(uid, after=seq, limit=READ_MAX)
        self.has_all = until_ns is None and len(events) < READ_MAX
        is_cut = until_ns is None and not self.has_all
        self.until_ns = events[-1].stamp_ns if is_cut else until_ns
        if until_ns is not None:  # later events wait for the lines before them
            events = [event for event in events if event.stamp_ns <= until_ns]
        self._seq = events[-1].seq if events else seq
        self.is_over = is_final and self.has_all
        if self.is_over and self._settle is not None:
            # accounting may have added the event since the events were read: read them again
            self.must_settle, self.is_over, self.has_all = True, False, False
        story = [self._as_line(e) for e in events if self._shows(e)]
        return sorted(filter(self._matches, (*story, *lines)), key=lambda line: line.stamp_ns)

    def _last_seq(self, uid: JobUid) -> int:
        """Return the seq of the last event that is not read, because it is before the begin."""
        if self._after_ns <= 0:
            return 0
        events = self._store.events_before(uid, until_ns=self._after_ns, limit=1)
        return events[0].seq if events else 0

    @property
    def _holds(self) -> tuple[tuple[bytes, ...], ...]:
        """What the bytes of a line must hold; other lines tell that a search goes on."""
        task = () if self._task is None else ((task_needle(self._task).lower(),),)
        return (*task, *(self._matcher.clauses if self._matcher else ()))

    def _matches(self, line: LogLine) -> bool:
        if self._until_ns is not None and line.stamp_ns > self._until_ns:
            return False
        is_of_task = self._task in (None, line.task_name)
        return is_of_task and (self._matcher is None or bool(self._matcher.columns(line.text)))

    def _shows(self, event: StoredEvent) -> bool:
        is_new = event.stamp_ns > self._after_ns
        return is_new and self._story is not None and wants_story(self._task)

    def _as_line(self, event: StoredEvent) -> LogLine:
        return self._story.marked(line_of(event)) if self._story else line_of(event)

    def _new_lines(self) -> tuple[list[LogLine], int | None]:
        """Return the lines after the marks, and until which stamp they are complete (None: all)."""
        entries, more = _take_first(merge(*map(self._lines, self._sources())))
        self._line_ns |= {uid: stamp_ns for stamp_ns, uid, _ in entries}
        return [line for _, _, line in entries], entries[-1][0] if more else None

    def _lines(self, source: LogSource) -> Iterator[tuple[int, int, LogLine]]:
        from_ns = max(0, self._read_until(source) + 1)
        span = Span(from_ns=from_ns, holds=self._holds)
        for line in lines_of(self._job_log, source, span):
            yield line.stamp_ns, source.uid, line

    def _read_until(self, source: LogSource) -> int:
        return self._line_ns.get(source.uid, self._after_ns)

    def _sources(self) -> Sequence[LogSource]:
        return sources(self._store, self._record, from_ns=self._after_ns, trial=self._trial)


def _take_first(
    entries: Iterable[tuple[int, int, LogLine]],
) -> tuple[list[tuple[int, int, LogLine]], bool]:
    """Return the first lines, and whether there may be more."""
    chosen: list[tuple[int, int, LogLine]] = []
    length = 0
    for entry in entries:
        chosen.append(entry)
        length += len(entry[2].text)
        if len(chosen) == READ_MAX or length >= READ_LENGTH_MAX:
            return chosen, True
    return chosen, False
