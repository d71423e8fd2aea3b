"""Finds the names that misspelled ones probably mean, for refusals and notes."""

import difflib
import re
from collections.abc import Iterable

_SEPARATORS = re.compile(r"[-_\s.]")


def letters_of(name: str) -> str:
    """Return a name in small letters, without hyphens, underscores, dots and blanks."""
    return _SEPARATORS.sub("", name).lower()


def nearest_name(word: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name whose letters are most like a word's; None if none is alike.

    ``cutoff`` is the least share of equal letters, from 0 to 1.
    """
    by_letters = {letters_of(name): name for name in names}
    near = difflib.get_close_matches(letters_of(word), by_letters, n=1, cutoff=cutoff)
    return by_letters[near[0]] if near else None


def did_you_mean(name: str | None) -> str:
    """Return ``; did you mean X?`` for a name, and nothing for None."""
    return f"; did you mean {name}?" if name else ""
