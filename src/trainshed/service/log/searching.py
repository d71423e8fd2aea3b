"""Searches the logs of a project's jobs for entries that match a filter, in one order.

Lines are read from the files of the attempts and the service's messages from the events of jobs;
nothing is copied.  A job's files are opened only when the search comes to the time of the job,
because a project may have thousands of jobs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Final, NamedTuple

from trainshed.model.log_line import SERVICE_TASK, LogLine
from trainshed.model.resource_names import JobUid
from trainshed.service.log.stream import LogSource, all_events, line_of, lines_of, sources
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segments import Span
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobRecord
from trainshed.wire.logging_v2 import narrowing
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.logging_v2.log_filter import LogFilter

STAMP_MAX: Final = (1 << 63) - 1
#: A line of another machine may be stamped so long before its job's start or after its end.
_SLACK_NS: Final = 60 * 1_000_000_000
#: Sources of entries, in their order within one stamp.
_EVENT, _LINE = 0, 1
#: After so many lines without a match a search reports its position.
_OTHERS_BETWEEN: Final = 256


class EntryPosition(NamedTuple):
    """The position of an entry in a project's log; the same at every read."""

    stamp_ns: int
    uid: int
    source: int


class LocatedEntry(NamedTuple):
    """An examined entry (None if it does not match) and its position."""

    place: EntryPosition
    entry: LogEntry | None


class Stretch(NamedTuple):
    """The entries of one job, not opened yet; ``nearest_ns`` is their earliest possible stamp."""

    nearest_ns: int
    open: Callable[[], Iterable[Iterator[LocatedEntry]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearch:
    """A search of one project's logs; ``token`` is the position of the last earlier entry."""

    store: Store
    job_log: JobLog
    project: str
    log_filter: LogFilter
    token: EntryPosition | None
    newest_first: bool

    def find_entries(self) -> Iterator[LocatedEntry | None]:
        """Yield the matching entries in order, and the positions of some others between them.

        Yield None after opening files: the caller may stop there as well.
        """
        for located in merge_lazily(self._stretches(), newest_first=self.newest_first):
            if located is None or self._is_behind_token(located.place):
                yield located

    def _is_behind_token(self, place: EntryPosition) -> bool:
        if self.token is None:
            return True
        return place < self.token if self.newest_first else place > self.token

    @property
    def _range(self) -> tuple[int, int]:
        """Return the first stamp of the range and the first after it, in ns."""
        time_range = narrowing.time_range(self.log_filter.tree)
        from_ns = min(time_range.from_ns, STAMP_MAX)
        before_ns = (
            STAMP_MAX if time_range.before_ns is None else min(time_range.before_ns, STAMP_MAX)
        )
        if self.token is None:
            return from_ns, before_ns
        if self.newest_first:
            return from_ns, min(before_ns, self.token.stamp_ns + 1)
        return max(from_ns, self.token.stamp_ns), before_ns

    def _stretches(self) -> list[Stretch]:
        job_ids = narrowing.job_ids(self.log_filter.tree)
        if job_ids is None:
            return self._stretches_of_all()
        records = (self._record(job_id) for job_id in sorted(job_ids))
        nearest_ns = STAMP_MAX if self.newest_first else 0
        return [self._stretch(nearest_ns, record) for record in records if record is not None]

    def _stretch(self, nearest_ns: int, record: JobRecord) -> Stretch:
        return Stretch(nearest_ns, partial(self._open, record))

    def _stretches_of_all(self) -> list[Stretch]:
        from_ns, before_ns = self._range
        earliest_ns = max(0, from_ns - _SLACK_NS)
        latest_ns = min(STAMP_MAX, before_ns + _SLACK_NS)
        stretches = []
        for job in self.store.logged_jobs(self.project, earliest_ns, latest_ns):
            end_ns = STAMP_MAX if job.end_ns is None else job.end_ns + _SLACK_NS
            nearest_ns = end_ns if self.newest_first else job.create_ns - _SLACK_NS
            stretches.append(Stretch(nearest_ns, partial(self._open_uid, job.uid)))
        return stretches

    def _open_uid(self, uid: JobUid) -> list[Iterator[LocatedEntry]]:
        record = self.store.job_by_uid(uid)
        return [] if record is None else self._open(record)

    def _record(self, job_id: str) -> JobRecord | None:
        """Find a job: those of AI Platform have the caller's id, those of Vertex a number."""
        is_number = job_id.isdecimal()
        kinds = (JobKind.CUSTOM_JOB, JobKind.TUNING_JOB) if is_number else (JobKind.ML_JOB,)
        records = (self.store.job(self.project, kind, job_id) for kind in kinds)
        return next((record for record in records if record is not None), None)

    def _open(self, record: JobRecord) -> list[Iterator[LocatedEntry]]:
        from_ns, _ = self._range
        trials = narrowing.trial_numbers(self.log_filter.tree)
        return [
            self._events(record),
            *(
                self._lines(record, source)
                for source in sources(self.store, record, from_ns=from_ns)
                if trials is None or source.trial in trials
            ),
        ]

    def _events(self, record: JobRecord) -> Iterator[LocatedEntry]:
        if not self._wants_events():
            return
        from_ns, before_ns = self._range
        lines = (line_of(event) for event in all_events(self.store, record.uid))
        in_range = [line for line in lines if from_ns <= line.stamp_ns < before_ns]
        in_order = sorted(in_range, key=_stamp_of, reverse=self.newest_first)
        yield from self._find_matches(record, record.uid, in_order, _EVENT)

    def _wants_events(self) -> bool:
        """Whether entries of the service, which belong to no trial, may match."""
        tasks = narrowing.task_names(self.log_filter.tree)
        is_of_trial = narrowing.trial_numbers(self.log_filter.tree) is not None
        return not is_of_trial and (tasks is None or SERVICE_TASK in tasks)

    def _lines(self, record: JobRecord, source: LogSource) -> Iterator[LocatedEntry]:
        from_ns, before_ns = self._range
        span = Span(
            from_ns=from_ns,
            before_ns=None if before_ns == STAMP_MAX else before_ns,
            newest_first=self.newest_first,
            holds=narrowing.byte_clauses(
                self.log_filter.tree,
                project=self.project,
                job_id=record.job.job_id,
                trial=source.trial,
            ),
        )
        lines = lines_of(self.job_log, source, span)
        yield from self._find_matches(record, source.uid, lines, _LINE)

    def _find_matches(
        self, record: JobRecord, uid: JobUid, lines: Iterable[LogLine], source: int
    ) -> Iterator[LocatedEntry]:
        """Yield the matching entries, and the positions of every 256th other one and the last."""
        matches, job_id = self.log_filter.matches, record.job.job_id
        last = None
        for number, line in enumerate(lines, start=1):
            entry = LogEntry(line, uid, source, project=self.project, job_id=job_id)
            place = EntryPosition(line.stamp_ns, uid, source)
            last = None if matches(entry) else place
            if last is None:
                yield LocatedEntry(place, entry)
            elif number % _OTHERS_BETWEEN == 0:
                yield LocatedEntry(place, None)
        if last is not None:
            yield LocatedEntry(last, None)


def _stamp_of(line: LogLine) -> int:
    return line.stamp_ns


def merge_lazily(
    stretches: Sequence[Stretch], *, newest_first: bool
) -> Iterator[LocatedEntry | None]:
    """Merge the entries of many jobs; a job is opened when the merge comes to its time.

    Yields None before it opens a source: of a thousand jobs that ran at the same time all are
    opened before the first entry is known.
    """
    sign = -1 if newest_first else 1
    waiting = sorted(stretches, key=lambda stretch: sign * stretch.nearest_ns, reverse=True)
    heads: list[_Head] = []
    numbers = count()
    while waiting or heads:
        while waiting and (not heads or sign * waiting[-1].nearest_ns <= heads[0].key[0]):
            for iterator in waiting.pop().open():
                yield None
                if head := _next_head(iterator, next(numbers), sign):
                    heappush(heads, head)
        if heads:
            head = heads[0]
            yield head.located
            if following := _next_head(head.iterator, head.number, sign):
                heapreplace(heads, following)
            else:
                heappop(heads)


class _Head(NamedTuple):
    """The next entry of an iterator; the number makes heads of equal position comparable."""

    key: tuple[int, ...]
    number: int
    located: LocatedEntry
    iterator: Iterator[LocatedEntry]


def _next_head(iterator: Iterator[LocatedEntry], number: int, sign: int) -> _Head | None:
    located = next(iterator, None)
    if located is None:
        return None
    return _Head(tuple(sign * part for part in located.place), number, located, iterator)
