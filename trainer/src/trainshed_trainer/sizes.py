"""Parses sizes in settings, such as ``512M``."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def bytes_of(text: str) -> int:
    """Parse ``1048576``, ``1024K`` or ``1M`` into bytes; ValueError lists the accepted forms."""
    match = re.fullmatch(r"([1-9][0-9]{0,17})([KMGT]?)", text)
    if not match:
        raise ValueError(f"must be bytes, or a number with K, M, G or T, got {text!r}")
    return int(match[1]) * _UNITS[match[2]]
