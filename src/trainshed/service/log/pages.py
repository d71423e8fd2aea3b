"""A job's log: what its replicas wrote and what the service has to say, in one order, in pages.

The lines are where the runner put them and the service's words are the job's events, so nothing is
copied and nothing can be lost or doubled between two places.  Pages of any sizes give the same
entries in the same order: a page token is the place of the last entry, so nothing is kept for a
reader and nothing shifts while lines are added.  It is bound to the question: with another filter
it would lead nowhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, Final

from trainshed.model.faults import Violation
from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.service.log.stream import (
    LogCursor,
    LogSource,
    all_events,
    line_of,
    lines_of,
    sources,
    wants_story,
)
from trainshed.service.paging import digest_of, parts_of, token_of
from trainshed.storage.log_files import JobLog, Span
from trainshed.store.opening import Store
from trainshed.store.records import JobRecord, Kind
from trainshed.wire.logging_v2.entries import EntriesQuery, LogFilter, parse_filter

#: The place of an entry: its stamp in ns, and its insertId among those of one stamp.
Place = tuple[int, str]

#: A page ends early when its texts are longer than this in all.
TEXT_LENGTH_MAX: Final = 1 << 20

_STAMP_MAX: Final = (1 << 63) - 1
#: Where a line comes from, in the order of sources within one stamp.
_EVENT, _LINE = "0", "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Lines with their insertIds; the token is empty when these were the last."""

    job_id: str = ""
    lines: Sequence[tuple[str, LogLine]] = ()
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class LogService:
    """The use cases around logs; the store and the files are all its state."""

    store: Store
    job_log: JobLog

    def entries(self, project: str, query: EntriesQuery) -> LogPage:
        """One page of a job's log; an empty one where the project has no such job.

        ``project`` is an id that the caller may read.  Raises Refusal for a filter or a page token
        that means nothing.
        """
        wanted = parse_filter(query.filter)
        behind = _token_place(project, query)
        record = self._record(project, wanted.job_id)
        if record is None:
            return LogPage()
        found = self._found(record, wanted, behind, newest_first=query.descending)
        chosen, more = _first_of(found, query.page_size)
        token = token_of(_digest(project, query), *chosen[-1][0]) if more else ""
        lines = [(insert_id, line) for (_, insert_id), line in chosen]
        return LogPage(job_id=record.job.job_id, lines=lines, next_page_token=token)

    def cursor(
        self,
        record: JobRecord,
        after_ns: int = 0,
        *,
        trial: str | None = None,
        task: str | None = None,
    ) -> LogCursor:
        """A reader that stands behind a stamp, and never blocks; of all trials or tasks, or one."""
        return LogCursor(self.store, self.job_log, record, after_ns, trial=trial, task=task)

    def _record(self, project: str, job_id: str) -> JobRecord | None:
        """Jobs of AI Platform have the caller's id, those of Vertex a number of ours."""
        is_number = job_id.isdecimal()
        kinds = (Kind.CUSTOM_JOB, Kind.TUNING_JOB) if is_number else (Kind.ML_JOB,)
        found = (self.store.job(project, kind, job_id) for kind in kinds)
        return next((record for record in found if record is not None), None)

    def _found(
        self, record: JobRecord, wanted: LogFilter, token: Place | None, *, newest_first: bool
    ) -> Iterator[tuple[Place, LogLine]]:
        uid = record.uid
        behind, before = _bounds(wanted, token, newest_first=newest_first)
        span = Span(
            from_ns=behind[0],
            before_ns=None if before is None else before[0] + 1,
            task=wanted.task_name,
            newest_first=newest_first,
        )
        is_story = wanted.trial is None and wants_story(wanted.task_name)
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

    def _placed(self, source: LogSource, span: Span) -> Iterator[tuple[Place, LogLine]]:
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


def _first_of(
    found: Iterable[tuple[Place, LogLine]], size: int
) -> tuple[list[tuple[Place, LogLine]], bool]:
    """The entries of one page, at least one of those there are, and whether there are more."""
    chosen: list[tuple[Place, LogLine]] = []
    length = 0
    for place, line in found:
        length += len(line.text)
        if chosen and (len(chosen) == size or length > TEXT_LENGTH_MAX):
            return chosen, True
        chosen.append((place, line))
    return chosen, False


def _token_place(project: str, query: EntriesQuery) -> Place | None:
    """The place that the query's token names; None for a first page.

    Raises Refusal (INVALID_ARGUMENT) for a token that was not given for this question.
    """
    if not query.page_token:
        return None
    digest, *place = parts_of(query.page_token) or [None]
    if not isinstance(digest, str) or not _is_place(place):
        raise _refusal("it is malformed")
    if digest != _digest(project, query):
        raise _refusal("it belongs to another filter, project or order")
    return place[0], place[1]


def _is_place(parts: Sequence[Any]) -> bool:
    if len(parts) != 2:  # noqa: PLR2004  # as Place
        return False
    stamp_ns, insert_id = parts
    return type(stamp_ns) is int and 0 <= stamp_ns <= _STAMP_MAX and isinstance(insert_id, str)


def _digest(project: str, query: EntriesQuery) -> str:
    return digest_of(project, query.filter, query.descending)


def _refusal(why: str) -> Refusal:
    accepted = "the nextPageToken of the answer before, with the same filter and orderBy"
    violation = Violation(field="pageToken", rule="wrong-type", message=why, accepted=accepted)
    message = f"pageToken: {why}. Accepted: {accepted}."
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))
