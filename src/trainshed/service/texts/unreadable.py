"""Repairs texts that cannot be read as a job: tabs, missing blanks, a misspelled first key.

An edit is offered only if the edited text can be read as a job; it may then have violations.
"""

import re
from collections.abc import Iterator
from typing import Final

from trainshed.service.texts.answers import TextEdit, TextViolation
from trainshed.service.texts.reading import Unreadable, read_job_text
from trainshed.wire.text_nodes import Lines, Position, TextSpan

_TABBED: Final = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)
_NO_BLANK: Final = re.compile(r"^( *(?:- )?[\w-]+:)(?=[^\s/])", re.MULTILINE)
_SUGGESTED: Final = re.compile(r"did you mean (\w+) instead of ")
#: The blanks that replace a tab.
_INDENT: Final = "  "


def find_edit(text: str, violation: TextViolation) -> TextEdit | None:
    """Return an edit after which the text can be read; None if none is known."""
    lines = Lines(text)
    for span, new, title in _candidates(text, lines, violation):
        edited = text[: span.start] + new + text[span.end :]
        if _is_readable(edited):
            begin, end = lines.position(span.start), lines.position(span.end)
            return TextEdit(
                line=begin.line,
                column=begin.column,
                end_line=end.line,
                end_column=end.column,
                text=new,
                title=title,
            )
    return None


def _candidates(
    text: str, lines: Lines, violation: TextViolation
) -> Iterator[tuple[TextSpan, str, str]]:
    if violation.line is None or violation.column is None:
        return
    if suggested := _SUGGESTED.search(violation.message):
        begin = lines.offset(Position(violation.line, violation.column))
        end = begin + len(violation.field)
        yield TextSpan(begin, end), suggested[1], f"Rename to {suggested[1]}"
        return
    for pattern, new, title in _REPAIRS:
        if matches := list(pattern.finditer(text)):
            span = TextSpan(matches[0].start(), matches[-1].end())
            whole = pattern.sub(new, text)  # a part alone would not show what is behind a match
            yield span, whole[span.start : len(whole) - (len(text) - span.end)], title


def _expand_tabs(match: re.Match[str]) -> str:
    return match[0].replace("\t", _INDENT)


_REPAIRS: Final = (
    (_TABBED, _expand_tabs, "Indent with spaces"),
    (_NO_BLANK, r"\1 ", "Write a space after the colon"),
)


def _is_readable(text: str) -> bool:
    try:
        read_job_text(text, None)
    except Unreadable:
        return False
    return True
