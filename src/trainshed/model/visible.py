"""Escapes hidden characters in text of users, so that it cannot control or mislead a terminal.

A terminal executes escape codes and C1 controls; bidirectional controls change the order of a
name's letters; format characters are invisible.  Each is shown as its escape, so that no
information is lost.  The same rule, by Unicode's categories, decides which characters names may
contain.
"""

from collections.abc import Callable
from typing import Final

#: Controls, format characters, surrogates, separators of lines and of paragraphs.
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Scripts and emoji join letters with these; they neither hide nor reorder text.
_JOINERS: Final = "\u200c\u200d"
_LAYOUT: Final = "\n\t"


def hides(character: str) -> bool:
    """Whether a character is invisible or changes how text is shown."""
    if character.isprintable() or character in _JOINERS:
        return False
    import unicodedata  # noqa: PLC0415  # most text is ASCII, and this costs a megabyte

    return unicodedata.category(character) in _HIDDEN_CATEGORIES


def hidden(text: str) -> str | None:
    """Return the first hidden character of a text, as its escape; None if there is none."""
    if text.isprintable():
        return None
    return next((_escape(character) for character in text if hides(character)), None)


def visible(text: str) -> str:
    """Return a text with every hidden character escaped, except ends of lines and tabs."""
    return text if text.isprintable() else text.translate(_BLOCK)


def visible_line(text: str) -> str:
    """Escape as ``visible`` does, and also ends of lines, so that the text stays in one line."""
    return text if text.isprintable() else text.translate(_LINE)


def visible_json(text: str) -> str:
    """Return an equal JSON text, with every hidden character as JSON's own escape."""
    return text if text.isprintable() else text.translate(_JSON)


def _escape(character: str) -> str:
    return ascii(character)[1:-1]


def _json_escape(character: str) -> str:
    import json  # noqa: PLC0415  # hidden characters are rare, and ``--help`` has none

    return json.dumps(character)[1:-1]


class _Escapes(dict[int, str]):
    """The table for ``str.translate``, which computes each character once."""

    def __init__(self, escape: Callable[[str], str], layout: str) -> None:
        super().__init__((ord(character), character) for character in layout)
        self._escape = escape

    def __missing__(self, code: int) -> str:
        character = chr(code)
        escaped = self[code] = self._escape(character) if hides(character) else character
        return escaped


_BLOCK: Final = _Escapes(_escape, _LAYOUT)
_LINE: Final = _Escapes(_escape, "")
_JSON: Final = _Escapes(_json_escape, _LAYOUT)
