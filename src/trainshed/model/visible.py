"""Text of strangers as a reader may see it: nothing in it is obeyed, hidden or turned around.

A terminal obeys escape codes and C1 controls; bidirectional controls show a name in another order
than it has; format characters hide in it.  Each is shown as the escape that means it, so that
nothing is lost.  What is shown here and what names may hold is one rule, of Unicode's categories.
"""

from collections.abc import Callable
from typing import Final

#: Controls, format characters, surrogates, separators of lines and of paragraphs.
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Scripts and emoji join letters by these; they turn and hide nothing.
_JOINERS: Final = "\u200c\u200d"
_LAYOUT: Final = "\n\t"


def hides(character: str) -> bool:
    """Whether a reader would not see a character as what it is."""
    if character.isprintable() or character in _JOINERS:
        return False
    import unicodedata  # noqa: PLC0415  # most text is ASCII, and this costs a megabyte

    return unicodedata.category(character) in _HIDDEN_CATEGORIES


def hidden(text: str) -> str | None:
    """The first hidden character of a text, as its escape; None for a text without one."""
    if text.isprintable():
        return None
    return next((_escape(character) for character in text if hides(character)), None)


def visible(text: str) -> str:
    """A text with every hidden character as its escape; ends of lines and tabs stay."""
    return text if text.isprintable() else text.translate(_BLOCK)


def visible_line(text: str) -> str:
    """As ``visible``, in one line, so that no text adds a line of its own."""
    return text if text.isprintable() else text.translate(_LINE)


def visible_json(text: str) -> str:
    """A JSON text that means the same, with every hidden character as JSON's own escape."""
    return text if text.isprintable() else text.translate(_JSON)


def _escape(character: str) -> str:
    return ascii(character)[1:-1]


def _json_escape(character: str) -> str:
    import json  # noqa: PLC0415  # hidden characters are rare, and ``--help`` has none

    return json.dumps(character)[1:-1]


class _Escapes(dict[int, str]):
    """What ``str.translate`` asks for each character, found out once for each."""

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
