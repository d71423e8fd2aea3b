"""A job's log: what its replicas wrote and what the service has to say, in one order.

The lines are where the runner put them and the service's words are the job's events, so nothing is
copied and nothing can be lost or doubled between two places.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Final

from trainshed.model.log_line import LogLine
from trainshed.service.log_pages import Page, Place, first_of, place_of, token_of
from trainshed.service.log_sources import Source, all_events, is_told, line_of, lines_of, sources
from trainshed.service.log_stream import LogCursor
from trainshed.storage.log_files import JobLog
from trainshed.storage.log_segment import Span
from trainshed.store.base import StoreBase
from trainshed.store.records import JobRecord, Kind
from trainshed.wire.logging_v2 import filter as log_filter
from trainshed.wire.logging_v2.entry import entry
from trainshed.wire.logging_v2.filter import LogFilter
from trainshed.wire.logging_v2.request import EntriesQuery

_POLL_S: Final = 0.2

#: Where a line comes from, in the order of sources within one stamp.
_EVENT, _LINE = "0", "1"


@dataclass(frozen=True, slots=True)
class LogService:
    """The use cases around logs; the store and the files are all its state."""

    store: StoreBase
    job_log: JobLog

    def entries(self, project: str, query: EntriesQuery) -> Page:
        """One page of a job's log; an empty one where the project has no such job.

        ``project`` is an id that the caller may read.  Raises Refusal for a filter or a page token
        that means nothing.
        """
        wanted = log_filter.parse(query.filter)
        token = place_of(project, query)
        record = self._record(project, wanted.job_id)
        if record is None:
            return Page()
        found = self._found(record, wanted, token, newest_first=query.descending)
        chosen, more = first_of(found, query.page_size)
        return Page(
            entries=[
                entry(line, insert_id, project=project, job_id=record.job.job_id)
                for (_, insert_id), line in chosen
            ],
            next_page_token=token_of(chosen[-1][0], project, query) if more else "",
        )

    def cursor(
        self, record: JobRecord, after_ns: int = 0, *, trial: str | None = None
    ) -> LogCursor:
        """A reader that stands behind a stamp, and never blocks; of all trials, or of one."""
        return LogCursor(self.store, self.job_log, record, after_ns, trial)

    def follow(self, record: JobRecord, after_ns: int = 0) -> Iterator[LogLine]:
        """Lines and events behind a stamp as they come, until the job is over and all was read."""
        return self.followed(self.cursor(record, after_ns))

    def followed(self, cursor: LogCursor) -> Iterator[LogLine]:
        """What comes behind a cursor, to the end of the job; blocks while there is nothing."""
        while not cursor.is_over:
            yield from cursor.read()
            if cursor.has_all and not cursor.is_over:
                time.sleep(_POLL_S)

    def _record(self, project: str, job_id: str) -> JobRecord | None:
        """Jobs of AI Platform have the caller's id, those of Vertex a number of ours."""
        is_number = job_id.isdecimal()
        kinds = (Kind.CUSTOM_JOB, Kind.TUNING_JOB) if is_number else (Kind.ML_JOB,)
        found = (self.store.job(project, kind, job_id) for kind in kinds)
        return next((record for record in found if record is not None), None)

    def _found(
        self, record: JobRecord, wanted: LogFilter, token: Place | None, *, newest_first: bool
    ) -> Iterator[tuple[Place, LogLine]]:
        """What a filter lets through from the token on, each with its place."""
        uid = record.uid
        behind, before = _bounds(wanted, token, newest_first=newest_first)
        span = Span(
            from_ns=behind[0],
            before_ns=None if before is None else before[0] + 1,
            task=wanted.task_name,
            newest_first=newest_first,
        )
        is_story = wanted.trial is None and is_told(wanted.task_name)
        story = all_events(self.store, uid) if is_story else ()
        events = ((_place_of(uid, line, _EVENT), line) for line in map(line_of, story))
        lines = (
            self._placed(each, span)
            for each in sources(self.store, record, from_ns=behind[0], trial=wanted.trial)
        )
        in_order = sorted(events, key=_place, reverse=newest_first)
        for place, line in merge(in_order, *lines, key=_place, reverse=newest_first):
            if behind < place and (before is None or place < before):
                yield place, line

    def _placed(self, source: Source, span: Span) -> Iterator[tuple[Place, LogLine]]:
        for line in lines_of(self.job_log, source, span):
            yield _place_of(source.uid, line, _LINE), line


def _bounds(
    wanted: LogFilter, token: Place | None, *, newest_first: bool
) -> tuple[Place, Place | None]:
    """The places between which the rest of the entries lies, both excluded."""
    behind: Place = (wanted.from_ns or 0, wanted.after_id or "")
    before: Place | None = None if wanted.before_ns is None else (wanted.before_ns, "")
    if token is None:
        return behind, before
    if newest_first:
        return behind, token if before is None else min(before, token)
    return max(behind, token), before


def _place(found: tuple[Place, LogLine]) -> Place:
    return found[0]


def _place_of(uid: int, line: LogLine, source: str) -> Place:
    """The insertId ascends as a text within a stamp, and is the same at every read (7.3)."""
    return line.stamp_ns, f"{line.stamp_ns:020d}-{uid:020d}-{source}"
