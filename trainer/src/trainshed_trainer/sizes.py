"""How sizes are written in settings."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def bytes_of(text: str) -> int:
    """The bytes of ``1048576``, ``1024K`` or ``1M``; ``ValueError``, with what is accepted."""
    match = re.fullmatch(r"([1-9][0-9]{0,17})([KMGT]?)", text)
    if not match:
        raise ValueError(f"{text!r}: bytes, or a number with K, M, G or T")
    return int(match[1]) * _UNITS[match[2]]
