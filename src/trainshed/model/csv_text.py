"""Writes CSV (RFC 4180) in which no cell is a formula.

Spreadsheets run a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula, and cells
contain text of users: names of jobs, reasons of trials.  Such a text gets a leading apostrophe,
which marks a text in spreadsheets.  Numbers do not change.
"""

from collections.abc import Iterable
from typing import Final

#: The first characters of a formula; spreadsheets ignore a tab or an end of line before it.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED: Final = frozenset(',;"\r\n')


def csv_text(rows: Iterable[Iterable[object]], line_end: str = "\n") -> str:
    """Return the rows as lines of CSV; None becomes an empty cell."""
    return "".join(f"{','.join(map(_cell, row))}{line_end}" for row in rows)


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    if text.startswith(_FORMULA) and not _is_number(text):
        text = f"'{text}"
    needs_quotes = not _QUOTED.isdisjoint(text) or text != text.strip()
    return '"{}"'.format(text.replace('"', '""')) if needs_quotes else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text
