"""Errors that are known by the line that names them, and a sentence on what helps."""

from typing import NamedTuple


class KnownError(NamedTuple):
    """One error."""

    error: str
    """A pattern of the line that names it."""
    advice: str
    """The sentence, with the pattern's first group that matched as ``{0}``."""
