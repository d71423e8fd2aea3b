"""Renders rows of logs for the native API; long texts are cut."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from trainshed.model.log_line import LogLine
from trainshed.service.log.matching import Columns, utf16_columns
from trainshed.service.log.numbered import LogRow
from trainshed.storage.numbered_log import NumberedLog

Json = dict[str, Any]

#: The most characters of one text, and of a text after all texts together had the third number.
TEXT_MAX: Final = 8192
SHORT_TEXT_MAX: Final = 256
TEXTS_MAX: Final = 1 << 21


def cut_text(text: str, length_max: int = TEXT_MAX) -> tuple[str, int]:
    """Return the beginning of a text, and the number of bytes that are cut off."""
    rest = text[length_max:]
    return (text[:length_max], len(rest.encode("utf-8", "surrogatepass"))) if rest else (text, 0)


def render_window(
    log: NumberedLog | None, start: int, rows: Sequence[LogRow], tasks: Sequence[str]
) -> Json:
    """Render a window; ``log`` is None for a study, whose rows have the number of their trial."""
    document: Json = {"exact": log is None or log.is_exact, "lines": list(_render_rows(rows))}
    document |= {"tasks": list(tasks), "attempts": []}
    if log is None:
        return document
    document |= {"total": log.total, "first": start + 1}
    document["attempts"] = [
        {"attempt": one.attempt, "first": one.first, "lines": one.lines} for one in log.attempts
    ]
    if log.pruned_before_ns is not None:
        document["prunedBefore"] = str(log.pruned_before_ns)
    return document


def _render_rows(rows: Iterable[LogRow]) -> Iterable[list[Any]]:
    length = 0
    for row in rows:
        text, cut = cut_text(row.line.text, TEXT_MAX if length < TEXTS_MAX else SHORT_TEXT_MAX)
        length += len(text)
        yield _render_row(row.number, row.line, text, cut)


def _render_row(number: int | None, line: LogLine, text: str, cut: int) -> list[Any]:
    row = [number, str(line.stamp_ns), line.task_name, line.severity, text, cut]
    return [*row, line.trial] if line.trial else row


def render_hit(number: int | None, line: LogLine, columns: Columns) -> Json:
    """Render a line with matches."""
    text, cut = cut_text(line.text)
    document: Json = {
        "n": number,
        "stamp": str(line.stamp_ns),
        "task": line.task_name,
        "severity": line.severity,
        "text": text,
        "columns": utf16_columns(text, [span for span in columns if span[1] <= len(text)]),
    }
    document |= {"cutBytes": cut} if cut else {}
    return document | ({"trial": line.trial} if line.trial else {})
