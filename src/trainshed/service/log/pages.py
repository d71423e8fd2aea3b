"""A project's log in pages: lines of replicas and events of the service, in one order.

Pages of any size give the same entries in the same order.  A page token is the position of the last
examined entry, so the server keeps nothing for a reader and new lines do not shift pages.  A token
is bound to its filter.  A page without entries may have a token, as at Google: the next page then
continues the search of a large log.

The logs of jobs that ran at the same time must all be opened before the first entry is known.  If
that takes too long for one page, the server keeps the search for a minute, for the next page.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal
from trainshed.service.jobs.paging import digest_of, parts_of, token_of
from trainshed.service.log.matching import Matcher
from trainshed.service.log.paused import PausedSearches
from trainshed.service.log.searching import STAMP_MAX, EntryPosition, LocatedEntry, LogSearch
from trainshed.service.log.stream import LogCursor, Settle
from trainshed.storage.log_files import JobLog
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.wire.logging_v2.entries import EntriesQuery
from trainshed.wire.logging_v2.log_entry import LogEntry
from trainshed.wire.logging_v2.log_filter import read_log_filter

#: A page ends early when its texts have more characters than this.
TEXT_LENGTH_MAX: Final = 1 << 20
#: A page ends early when the search for its entries has taken this long, in seconds.
SEARCH_S_MAX: Final = 2.0
#: The most of these seconds that may pass before the first entry, while logs are opened.
OPENING_S_MAX: Final = 1.0
#: The positions before the first entry, oldest first and newest first.
_STARTS: Final = {
    False: EntryPosition(0, 0, 0),
    True: EntryPosition(STAMP_MAX, STAMP_MAX, STAMP_MAX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Entries in order; the token is empty after the last page."""

    entries: Sequence[LogEntry] = ()
    next_page_token: str = ""


class _PageEntries(NamedTuple):
    """The entries of a page, and how far the logs were searched."""

    entries: list[LogEntry]
    last: EntryPosition | None
    """The position of the last examined entry; None if all entries were examined."""
    is_paused: bool = False
    """Whether no entry was examined yet, so that the next page continues this search."""


@dataclass(frozen=True, slots=True)
class LogService:
    """The use cases of logs.  Has no state but the store and the files."""

    store: Store
    job_log: JobLog
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    settle: Settle | None = field(default=None, kw_only=True)
    _paused: PausedSearches = field(default_factory=PausedSearches, kw_only=True)

    def entries(self, project: str, query: EntriesQuery) -> LogPage:
        """Return one page of the entries of a project's jobs that match the filter.

        ``project`` is an id that the caller may read.  Raises Refusal for an invalid filter or page
        token.
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
        return search.find_entries()

    def _take_page(self, search: Iterator[LocatedEntry | None], size: int) -> _PageEntries:
        entries: list[LogEntry] = []
        length, last, begin_s = 0, None, self.clock()
        for located in search:
            elapsed_s = self.clock() - begin_s
            if located is None:
                if last is None and elapsed_s > OPENING_S_MAX:
                    return _PageEntries(entries, None, is_paused=True)
                continue
            position, entry = located
            length += len(entry.line.text) if entry else 0
            is_full = len(entries) == size or (entries and length > TEXT_LENGTH_MAX)
            if last is not None and (is_full or elapsed_s > SEARCH_S_MAX):
                return _PageEntries(entries, last)
            if entry is not None:
                entries.append(entry)
            last = position
        return _PageEntries(entries, None)

    def cursor(  # noqa: PLR0913 - the job, and which of its lines
        self,
        record: JobRecord,
        after_ns: int = 0,
        *,
        trial: str | None = None,
        task: str | None = None,
        matcher: Matcher | None = None,
        follows: bool = False,
    ) -> LogCursor:
        """Return a reader after a stamp, of all trials and tasks or of one.

        ``follows``: it reads until the job ends, and its last line is the goodput of the job.
        """
        return LogCursor(
            self.store,
            self.job_log,
            record,
            after_ns,
            trial=trial,
            task=task,
            matcher=matcher,
            settle=self.settle if follows else None,
        )


def _token_place(project: str, query: EntriesQuery) -> EntryPosition | None:
    """Return the position in the query's token; None for a first page.

    Raises Refusal (INVALID_ARGUMENT) for a token of another query.
    """
    if not query.page_token:
        return None
    digest, *position = parts_of(query.page_token) or [None]
    if not isinstance(digest, str) or not _is_place(position):
        raise _refusal("it is malformed")
    if digest != _digest(project, query):
        raise _refusal("it belongs to another filter, project or order")
    return EntryPosition(*position)


def _is_place(parts: Sequence[Any]) -> bool:
    is_whole = len(parts) == len(EntryPosition._fields)
    return is_whole and all(type(part) is int and 0 <= part <= STAMP_MAX for part in parts)


def _digest(project: str, query: EntriesQuery) -> str:
    return digest_of(project, query.filter, query.descending)


def _refusal(why: str) -> Refusal:
    accepted = "the nextPageToken of the previous response, with the same filter and orderBy"
    violation = Violation(field="pageToken", rule="wrong-type", message=why, accepted=accepted)
    message = f"pageToken: {why}. Accepted: {accepted}."
    return Refusal(Code.INVALID_ARGUMENT, message, (violation,))
