"""Searches the log of a job, or of all trials of a study, for a text or an expression."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from trainshed.model.log_line import LogLine
from trainshed.model.refusals import Code, Refusal
from trainshed.service.log.log_rows import Json, render_hit
from trainshed.service.log.matching import Columns, Matcher, make_matcher
from trainshed.service.log.numbered import LogSelection, NumberedLogs, OpenLog, count_in_turns
from trainshed.service.log.stream import LogSource, sources
from trainshed.storage.log_segments import decode_line
from trainshed.storage.numbered_log import NumberedPiece
from trainshed.store.records.jobs import JobRecord

#: The most hits of one search: by default, and at most.
HITS: Final = 1000
HITS_MAX: Final = 10_000
#: A search ends after so many seconds; the next one continues it.
SEARCH_S_MAX: Final = 60.0
#: The share between two messages of progress.
_SHARE_STEP: Final = 0.005
_NEWLINE: Final = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextQuery:
    """What to search for, from which line on, and the most hits."""

    text: str
    is_expression: bool = False
    ignores_case: bool = True
    from_number: int = 1
    hits_max: int = HITS


class Hit(NamedTuple):
    """A line with matches; the number is None for a sentence of the service."""

    number: int | None
    line: LogLine
    columns: Columns


class Progress(NamedTuple):
    """How far the log is searched: its share, the number of the next line, the last stamp."""

    share: float = 0.0
    next_number: int = 0
    until_ns: int = 0


@dataclass(frozen=True, slots=True)
class LogTextSearches:
    """Searches logs.  Thread-safe."""

    logs: NumberedLogs
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)

    def search(
        self, record: JobRecord, selection: LogSelection, query: TextQuery
    ) -> Iterator[Json | None]:
        """Yield hits in the order of the log, progress, and the end; None: time to pause.

        Raises Refusal at once for a bad expression and a trial that does not exist.
        """
        matcher = make_matcher(
            query.text, is_expression=query.is_expression, ignores_case=query.ignores_case
        )
        source = self.logs.source(record, selection.trial)
        if source is not None:
            return self._render(self._search_one(source, selection, matcher, query), query)
        if query.from_number > 1 or selection.attempt is not None:
            message = "from and attempt need one trial of a tuning job: name it (trial=N)"
            raise Refusal(Code.INVALID_ARGUMENT, message)
        steps = self._search_study(record, selection, matcher, query)
        return self._render(steps, query, has_numbers=False)

    def _render(
        self, steps: Iterator[Hit | Progress], query: TextQuery, *, has_numbers: bool = True
    ) -> Iterator[Json | None]:
        hits, line_hits, next_number, share = 0, 0, query.from_number, 0.0
        end_s = self.clock() + SEARCH_S_MAX
        for step in steps:
            if isinstance(step, Hit):
                hits += 1
                if step.number is not None:
                    line_hits, next_number = line_hits + 1, step.number + 1
                yield render_hit(step.number, step.line, step.columns)
            else:
                next_number = max(next_number, step.next_number)
                is_further = step.share >= share + _SHARE_STEP
                share = step.share if is_further else share
                yield {"searched": round(share, 4)} if is_further else None
            if line_hits == query.hits_max or self.clock() > end_s:
                end = {"done": True, "hits": hits, "complete": False}
                yield {**end, "next": next_number} if has_numbers else end
                return
        yield {"done": True, "hits": hits, "complete": True}

    def _search_study(
        self, record: JobRecord, selection: LogSelection, matcher: Matcher, query: TextQuery
    ) -> Iterator[Hit | Progress]:
        """Search the study's own sentences, then the log of each trial."""
        own = self.logs.open(LogSource(record.uid), selection)
        yield from _find_sentences(own, matcher, None)
        trials = sources(self.logs.store, record)
        for at, source in enumerate(trials):
            for step in self._search_one(source, selection, matcher, query):
                if isinstance(step, Progress):
                    step = step._replace(share=(at + step.share) / len(trials))  # noqa: PLW2901
                yield step

    def _search_one(
        self, source: LogSource, selection: LogSelection, matcher: Matcher, query: TextQuery
    ) -> Iterator[Hit | Progress]:
        log = self.logs.open(source, selection)
        yield from (Progress() for _ in count_in_turns(log.numbered, self.clock))
        yield from _merge_hits(
            _find_lines(log, selection, matcher, query.from_number),
            _find_sentences(log, matcher, _stamp_of(log, query.from_number - 1)),
        )


def _find_lines(
    log: OpenLog, selection: LogSelection, matcher: Matcher, first: int
) -> Iterator[Hit | Progress]:
    takes = selection.line_filter.takes
    for piece in log.numbered.pieces(first):
        number, scanned = piece.first, 0
        for candidate in matcher.candidates(piece.data):
            if candidate is None:
                yield Progress()
                continue
            start, data = candidate
            number += piece.data.count(_NEWLINE, scanned, start)
            scanned = start
            line = decode_line(data) if number >= first else None
            if line is None or not takes(line.task_name, line.severity):
                continue
            if columns := matcher.columns(line.text):
                yield Hit(number, log.source.marked(line), columns)
        count = piece.data.count(_NEWLINE)
        last = decode_line(_line_of(piece, piece.first + count - 1))
        yield Progress(piece.share, piece.first + count, last.stamp_ns if last else 0)


def _find_sentences(log: OpenLog, matcher: Matcher, after_ns: int | None) -> Iterator[Hit]:
    for line in log.sentences:
        is_behind = after_ns is None or line.stamp_ns > after_ns
        if is_behind and (columns := matcher.columns(line.text)):
            yield Hit(None, line, columns)


def _merge_hits(
    steps: Iterator[Hit | Progress], sentences: Iterator[Hit]
) -> Iterator[Hit | Progress]:
    """Yield the sentences between the hits of lines, by their stamps."""
    sentence = next(sentences, None)
    for step in steps:
        stamp_ns = step.line.stamp_ns if isinstance(step, Hit) else step.until_ns
        while sentence and sentence.line.stamp_ns <= stamp_ns:
            yield sentence
            sentence = next(sentences, None)
        yield step
    yield from chain([sentence] if sentence else [], sentences)


def _stamp_of(log: OpenLog, number: int) -> int | None:
    """Return the stamp of the line with a number; None without one, or if it is damaged."""
    piece = next(log.numbered.pieces(number), None) if number else None
    line = decode_line(_line_of(piece, number)) if piece else None
    return line.stamp_ns if line else None


def _line_of(piece: NumberedPiece, number: int) -> bytes:
    lines = piece.data.split(_NEWLINE)
    return lines[number - piece.first] if number - piece.first < len(lines) else b""
