"""Native routes of logs: a stream, a window by number, a search, a download."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter

from trainshed.api.compression import accepts_gzip
from trainshed.api.log_stream import NDJSON, LogStream, stream_lines, stream_pieces
from trainshed.api.native import models
from trainshed.api.native.callers import Known, Readable
from trainshed.api.native.limits import ATTEMPT_MAX, SEQ_MAX
from trainshed.api.native.log_models import LogHit, LogProgress, LogSearchEnd, LogWindow
from trainshed.api.native.services import Native
from trainshed.api.threads import LOG_THREADS
from trainshed.model.log_line import SEVERITIES
from trainshed.model.refusals import Code, Refusal
from trainshed.service.log.downloads import (
    LogDownloads,
    LogFormat,
    compress,
    file_name,
    render_lines,
)
from trainshed.service.log.matching import Matcher, make_matcher
from trainshed.service.log.numbered import LogSelection
from trainshed.service.log.stream import check_trial
from trainshed.service.log.text_search import HITS, HITS_MAX, LogTextSearches, TextQuery
from trainshed.service.log.windows import COUNT, COUNT_MAX, LogPosition, LogWindows

#: The most lines of a log's end in one response.
TAIL_MAX = 10_000
#: No name is longer.
NAME_LENGTH_MAX = 256
#: The most characters of a text to search for.
QUERY_LENGTH_MAX = 1000

LINES: Mapping[str, Any] = {
    "description": "One line of the log on each line of the response.",
    "content": {"application/x-ndjson": {"schema": models.Line.model_json_schema()}},
}


def matcher_of(
    *,
    q: Annotated[str | None, Query(min_length=1, max_length=QUERY_LENGTH_MAX)] = None,
    regex: bool = False,
    case: bool = False,
) -> Matcher | None:
    """Return what the lines must have; None for all lines.  Raises Refusal for a bad expression."""
    return make_matcher(q, is_expression=regex, ignores_case=not case) if q else None


Searched = Annotated[Matcher | None, Depends(matcher_of)]


def log_router(native: Native) -> APIRouter:
    """Return the route that streams a log."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])
    stories = native.stories

    @router.get(
        "/jobs/{job}/logs",
        response_class=StreamingResponse,
        responses={200: {**LINES}, 429: {"model": models.Status}},
    )
    def logs(  # noqa: PLR0913 - one parameter a word of the query
        request: Request,
        project: Readable,
        job: str,
        caller: Known,
        *,
        follow: bool = False,
        tail: Annotated[int | None, Query(ge=1, le=TAIL_MAX)] = None,
        fromLine: Annotated[int | None, Query(ge=1, le=SEQ_MAX)] = None,  # noqa: N803
        task: str | None = None,
        trial: str | None = None,
        searched: Searched,
    ) -> StreamingResponse:
        """Stream the log, one JSON object per line; ``follow`` continues until the job ends.

        ``fromLine`` is the number of the first line. ``q``, ``regex`` and ``case`` select lines as
        in a search; ``tail`` then counts the selected lines.
        """
        record = stories.find(project, job)
        check_trial(native.store, record, trial)
        cursor = native.logs.cursor(
            record, trial=trial, task=task, matcher=searched, follows=follow
        )
        starts: list[Iterator[None]] = []
        if tail:
            starts.append(cursor.skip_in_turns(tail, reads_new=follow))
        if fromLine:
            source = native.numbered_logs.numbered_source(record, trial)
            starts.insert(0, native.numbered_logs.skip_to_line(cursor, source, fromLine))
        lines = stream_lines(cursor, request.state.admit_again, follow=follow, starts=starts)
        return LogStream(native.streams, caller, lines)

    return router


def selection_of(
    task: Annotated[str | None, Query(max_length=NAME_LENGTH_MAX)] = None,
    severity: Annotated[str, Query(max_length=NAME_LENGTH_MAX)] = SEVERITIES[0],
    attempt: Annotated[int | None, Query(ge=1, le=ATTEMPT_MAX)] = None,
    trial: Annotated[str | None, Query(max_length=NAME_LENGTH_MAX)] = None,
) -> LogSelection:
    """Return which lines a call selects.  Raises Refusal for an unknown severity."""
    if severity not in SEVERITIES:
        accepted = ", ".join(SEVERITIES)
        message = f"severity must be one of {accepted}, got {severity[:40]!r}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return LogSelection(task=task, severity=severity, attempt=attempt, trial=trial)


Selected = Annotated[LogSelection, Depends(selection_of)]


def read_position(  # noqa: PLR0913 - one parameter a word of the query
    *,
    line: Annotated[int | None, Query(ge=1, le=SEQ_MAX)] = None,
    row: Annotated[int | None, Query(ge=1, le=SEQ_MAX)] = None,
    stamp: Annotated[int | None, Query(ge=0, le=SEQ_MAX)] = None,
    share: Annotated[float | None, Query(ge=0, le=1)] = None,
    end: bool = False,
    before: Annotated[int, Query(ge=0, le=COUNT_MAX)] = 0,
) -> LogPosition:
    """Return the position of a window.  Raises Refusal for several."""
    position = LogPosition(line=line, row=row, stamp_ns=stamp, share=share, before=before)
    if end and not position.is_end:
        raise Refusal(Code.INVALID_ARGUMENT, "end=true needs no line, row, stamp or share")
    return position


WindowPosition = Annotated[LogPosition, Depends(read_position)]


def log_window_router(native: Native, windows: LogWindows) -> APIRouter:
    """Return the route that returns a window of a log."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])

    @router.get("/jobs/{job}/logs:window", response_model=LogWindow)
    async def window(
        project: Readable,
        job: str,
        position: WindowPosition,
        selection: Selected,
        *,
        count: Annotated[int, Query(ge=1, le=COUNT_MAX)] = COUNT,
    ) -> Response:
        """Return some lines of a log by number, and the service's sentences between them.

        The position is one of: ``line``, a number (or the next selected line); ``row``, a position
        among the selected lines; ``stamp`` in ns, the first line with it or a later one;
        ``share``, 0 to 1; ``end`` (the default), the last lines. ``before`` lines precede it.
        ``count`` is the most numbered lines; there are fewer at the end, and if they are very
        long. ``task``, ``severity`` (or graver), ``attempt`` and ``trial`` select lines. A
        position behind the end has no lines.
        """

        def read() -> bytes:
            record = native.stories.find(project, job)
            return _as_bytes(windows.window(record, selection, position, count))

        return Response(await LOG_THREADS.run(read), media_type="application/json")

    return router


HITS_DOCUMENT: Mapping[str, Any] = {
    "description": "On each line a hit, the progress of the search, or its end.",
    "content": {
        "application/x-ndjson": {
            "schema": TypeAdapter(LogHit | LogProgress | LogSearchEnd).json_schema()
        }
    },
}


def log_search_router(native: Native, searches: LogTextSearches) -> APIRouter:
    """Return the route that searches a log."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])

    @router.get(
        "/jobs/{job}/logs:search",
        response_class=StreamingResponse,
        responses={200: {**HITS_DOCUMENT}, 429: {"model": models.Status}},
    )
    def search(  # noqa: PLR0913 - one parameter a word of the query
        request: Request,
        project: Readable,
        job: str,
        caller: Known,
        *,
        selection: Selected,
        q: Annotated[str, Query(min_length=1, max_length=QUERY_LENGTH_MAX)],
        regex: bool = False,
        case: bool = False,
        first: Annotated[int, Query(alias="from", ge=1, le=SEQ_MAX)] = 1,
        limit: Annotated[int, Query(ge=1, le=HITS_MAX)] = HITS,
    ) -> StreamingResponse:
        """Search the whole log for ``q``, and stream the hits in the order of the log.

        ``regex``: ``q`` is an expression of RE2 (the first 32,768 characters of a line are
        searched). ``case``: capital and small letters from A to Z differ. ``from`` is the number
        of the first searched line, ``limit`` the most lines. ``task``, ``severity`` (or graver),
        ``attempt`` and ``trial`` select lines. In a tuning job each hit has the number in the log
        of its trial. A search ends with the call, and after a minute.
        """
        query = TextQuery(
            text=q,
            is_expression=regex,
            ignores_case=not case,
            from_number=first,
            hits_max=limit,
        )
        steps = searches.search(native.stories.find(project, job), selection, query)
        pieces = (b"" if step is None else _as_bytes(step) + b"\n" for step in steps)
        lines = stream_pieces(pieces, request.state.admit_again)
        return LogStream(native.streams, caller, lines)

    return router


def log_download_router(native: Native, downloads: LogDownloads) -> APIRouter:
    """Return the route that sends a log as a file."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])

    @router.get(
        "/jobs/{job}/logs:download",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "The log as a file.",
                "content": {"text/plain": {"schema": {"type": "string"}}, NDJSON: {}},
            },
            429: {"model": models.Status},
        },
    )
    def download(  # noqa: PLR0913 - one parameter a word of the query
        request: Request,
        project: Readable,
        job: str,
        caller: Known,
        *,
        selection: Selected,
        log_format: Annotated[LogFormat, Query(alias="format")] = LogFormat.TEXT,
        times: bool = False,
    ) -> StreamingResponse:
        """Send the log as a file: as ``text``, or as JSON lines (``jsonl``) as ``logs`` has them.

        ``times`` adds the time, task and severity to each line of the text. ``task``,
        ``severity`` (or graver), ``attempt`` and ``trial`` select lines. The file is compressed
        with gzip while it is sent if the caller accepts that.
        """
        record = native.stories.find(project, job)
        lines = downloads.lines(record, selection)
        pieces = render_lines(lines, log_format, has_times=times)
        name = file_name(record, selection, log_format)
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
        }
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            pieces, headers["Content-Encoding"] = compress(pieces), "gzip"
        is_text = log_format is LogFormat.TEXT
        return LogStream(
            native.streams,
            caller,
            stream_pieces(pieces, request.state.admit_again),
            media_type="text/plain; charset=utf-8" if is_text else NDJSON,
            headers=headers,
        )

    return router


def _as_bytes(document: object) -> bytes:
    """Render JSON; lone surrogates become escapes."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")
