"""The answers of the routes that read a log by number.

A line of a file has a number, from 1 in the order of the job's log.  The service's sentences are
events: they stand between the lines, by their stamps, without a number, and may come late.  When
old lines are pruned, the numbers shift; stamps stay.  Stamps are decimal strings of nanoseconds
since 1970, because they exceed the whole numbers of JavaScript.
"""

from typing import Literal

from pydantic import BaseModel

#: [number (null: a sentence of the service, or a study), stamp, task, severity, text, bytes of the
#: text that are cut off (0: none), trial (in a study only)].
Row = tuple[int | None, str, str, str, str, int] | tuple[int | None, str, str, str, str, int, str]


class LogAttempt(BaseModel):
    """The numbers of an attempt's lines: ``lines`` lines from the number ``first`` on."""

    attempt: int
    first: int
    lines: int


class LogWindow(BaseModel):
    """A part of a log.

    ``total`` is the number of lines that match the filter; absent for a study.  ``exact`` is false
    while the server has not counted all of a very long log: ``total``, ``first`` and the numbers
    are then estimates, and the next call counts on.  ``first`` is the position among the matching
    lines, from 1, of the first numbered row; without such a row, of the row that would follow; it
    equals that row's number if there is no filter.  ``tasks`` are the names of the replicas.
    ``prunedBefore``: the lines before this stamp were removed; absent if none were.
    ``unreadBefore``, ``unreadFrom`` (in a study only): the lines before a stamp, or from it on,
    were not examined, because a window takes a few seconds at most; a window with this stamp
    continues.
    """

    total: int | None = None
    exact: bool
    first: int | None = None
    lines: list[Row]
    tasks: list[str]
    attempts: list[LogAttempt]
    prunedBefore: str | None = None
    unreadBefore: str | None = None
    unreadFrom: str | None = None


class LogHit(BaseModel):
    """A line with a match.

    ``columns`` are the matches: pairs of the first column and the one after the last, from 0, in
    UTF-16 code units as JavaScript counts; at most 100, and only within the text that is sent.
    ``cutBytes``: the bytes of the text that are cut off; absent if none.
    """

    n: int | None
    stamp: str
    task: str
    severity: str
    text: str
    columns: list[tuple[int, int]]
    cutBytes: int | None = None
    trial: str | None = None


class LogProgress(BaseModel):
    """The searched share of the log, 0 to 1."""

    searched: float


class LogSearchEnd(BaseModel):
    """The last line of a search.

    ``complete`` is whether the search reached the end of the log.  If not, because ``hits``
    reached the limit or the search took a minute, a search with ``from=next`` continues it;
    ``next`` is absent after a complete search, and in a study.
    """

    done: Literal[True]
    hits: int
    complete: bool
    next: int | None = None
