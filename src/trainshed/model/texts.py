"""Formats counts, lists of names, sizes and durations for messages."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

_UNIT: Final = 1024
_DECIMAL_UNITS: Final = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
#: The number of seconds from which a unit is used, the unit's seconds, and its name.
_DURATION_UNITS: Final = ((172_800.0, 86_400.0, "d"), (7_200.0, 3_600.0, "h"), (120.0, 60.0, "min"))


def count_noun(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 reducer``, ``2 reducers``, ``1,200 hosts``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_or(values: Iterable[object], limit: int = 12) -> str:
    """Return alternatives for a sentence, at most ``limit``: ``1, 2, 4 or 8``."""
    words = [str(value) for value in values]
    if len(words) > limit:
        return join_names(words, limit)
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def join_names(names: Sequence[str], limit: int) -> str:
    """Return the first ``limit`` names and the number of the others: ``a, b and 3 more``."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def shorten_repr(value: object, length_max: int = 60) -> str:
    """Return a value as Python writes it, cut after ``length_max`` characters."""
    text = repr(value)
    return text if len(text) <= length_max else f"{text[:length_max]}..."


def format_size(size_bytes: int | None) -> str:
    """Return a size in MiB or GiB: ``310 MiB``, ``2.0 GiB``."""
    mib = (size_bytes or 0) / _UNIT**2
    return f"{mib:.0f} MiB" if mib < _UNIT else f"{mib / _UNIT:.1f} GiB"


def format_decimal_size(size_bytes: float) -> str:
    """Return a size with at most three digits, in powers of 1000: ``52 GB``."""
    for unit, size in _DECIMAL_UNITS:
        if size_bytes >= size:
            return f"{size_bytes / size:.3g} {unit}"
    return f"{size_bytes:.0f} B"


def format_duration(seconds: float) -> str:
    """Return a duration, rounded up: ``90 s``, ``45 min``, ``3 h``, ``7 d``."""
    for least, unit, name in _DURATION_UNITS:
        if seconds >= least:
            return f"{math.ceil(seconds / unit)} {name}"
    return f"{math.ceil(max(seconds, 0.0))} s"


def install_command(extra: str) -> str:
    """Return the command that installs an extra from the wheels in ``dist``."""
    return f"pip install --find-links dist 'trainshed[{extra}]' (`make dist` makes dist/)"
