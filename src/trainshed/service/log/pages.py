"""A project's log in pages: what replicas wrote and what the service has to say, in one order.

Pages of any sizes give the same entries in the same order: a page token is the place of the last
entry that was looked at, so nothing is kept for a reader and nothing shifts while lines are added.
It is bound to the question: with another filter it would lead nowhere.  A page may have no entry
and a token all the same, as Google's: a search of a large log goes on with the next page.

Jobs that ran at the same time must all be opened before the first entry is known.  Where that takes
too long for one page, the search itself is kept for the next one, for a minute.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.service.jobs.paging import digest_of, parts_of, token_of
from trainshed.service.log.paused import PausedSearches
from trainshed.service.log.searching import STAMP_MAX, EntryPosition, LocatedEntry, LogSearch
from trainshed.service.log.stream import LogCursor
from trainshed.storage.log_files import JobLog
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.wire.logging_v2.entries import EntriesQuery
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.logging_v2.log_filter import read_log_filter

#: A page ends early when its texts are longer than this in all.
TEXT_LENGTH_MAX: Final = 1 << 20
#: A page ends early when the search for its entries has taken this long, in seconds.
SEARCH_S_MAX: Final = 2.0
#: Of these, so long may pass before the first entry, while the logs of jobs are opened.
OPENING_S_MAX: Final = 1.0
#: The places before the first entry, oldest first and newest first.
_STARTS: Final = {
    False: EntryPosition(0, 0, 0),
    True: EntryPosition(STAMP_MAX, STAMP_MAX, STAMP_MAX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Entries in order; the token is empty when these were the last."""

    entries: Sequence[LogEntry] = ()
    next_page_token: str = ""


class _PageEntries(NamedTuple):
    """The entries of a page, and how far the logs were looked through."""

    entries: list[LogEntry]
    last: EntryPosition | None
    """The place of the last entry that was looked at; None: all were."""
    is_paused: bool = False
    """Whether no entry was looked at yet: the search goes on where it stands."""


@dataclass(frozen=True, slots=True)
class LogService:
    """The use cases around logs; the store and the files are all its state."""

    store: Store
    job_log: JobLog
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _paused: PausedSearches = field(default_factory=PausedSearches, kw_only=True)

    def entries(self, project: str, query: EntriesQuery) -> LogPage:
        """One page of the entries of a project's jobs that pass the filter.

        ``project`` is an id that the caller may read.  Raises Refusal for a filter or a page token
        that means nothing.
        """
        digest, token = _digest(project, query), _token_place(project, query)
        search = self._paused.take((digest, token), self.clock())
        if search is None:
            search = self._begin(project, query, token)
        page = self._take_page(search, query.page_size)
        last = page.last
        if page.is_paused:
            last = token or _STARTS[query.descending]
            self._paused.keep((digest, last), search, self.clock())
        next_token = "" if last is None else token_of(digest, *last)
        return LogPage(entries=page.entries, next_page_token=next_token)

    def _begin(
        self, project: str, query: EntriesQuery, token: EntryPosition | None
    ) -> Iterator[LocatedEntry | None]:
        search = LogSearch(
            store=self.store,
            job_log=self.job_log,
            project=project,
            log_filter=read_log_filter(query.filter),
            token=token,
            newest_first=query.descending,
        )
        return search.look()

    def _take_page(self, search: Iterator[LocatedEntry | None], size: int) -> _PageEntries:
        entries: list[LogEntry] = []
        length, last, begin_s = 0, None, self.clock()
        for placed in search:
            elapsed_s = self.clock() - begin_s
            if placed is None:
                if last is None and elapsed_s > OPENING_S_MAX:
                    return _PageEntries(entries, None, is_paused=True)
                continue
            place, entry = placed
            length += len(entry.line.text) if entry else 0
            is_full = len(entries) == size or (entries and length > TEXT_LENGTH_MAX)
            if last is not None and (is_full or elapsed_s > SEARCH_S_MAX):
                return _PageEntries(entries, last)
            if entry is not None:
                entries.append(entry)
            last = place
        return _PageEntries(entries, None)

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


def _token_place(project: str, query: EntriesQuery) -> EntryPosition | None:
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
    return EntryPosition(*place)


def _is_place(parts: Sequence[Any]) -> bool:
    is_whole = len(parts) == len(EntryPosition._fields)
    return is_whole and all(type(part) is int and 0 <= part <= STAMP_MAX for part in parts)


def _digest(project: str, query: EntriesQuery) -> str:
    return digest_of(project, query.filter, query.descending)


def _refusal(why: str) -> Refusal:
    accepted = "the nextPageToken of the answer before, with the same filter and orderBy"
    violation = Violation(field="pageToken", rule="wrong-type", message=why, accepted=accepted)
    message = f"pageToken: {why}. Accepted: {accepted}."
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))
