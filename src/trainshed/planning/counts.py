"""Counts in words: one reducer, and several reducers."""


def plural(count: int, word: str) -> str:
    """``1 reducer``, ``2 reducers``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
