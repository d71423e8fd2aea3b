"""Parses gcloud's forms of a duration: ``120s``, ``2m``, ``1h30m``, ``2d``, or plain seconds."""

import math
import re
from typing import Final

_UNIT_S: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PARTS: Final = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s?)?", re.ASCII
)

#: The accepted form, for refusals.
FORM: Final = "a duration such as 120s, 2m or 1h30m"


def seconds_of(text: str) -> float:
    """Return the seconds of a duration.  Raises ValueError for any other text."""
    match = _PARTS.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not {FORM}")
    seconds = sum(float(match[unit] or 0) * length for unit, length in _UNIT_S.items())
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is not {FORM}")
    return seconds


def duration_of(seconds: float) -> str:
    """Return a duration as in the JSON of both dialects: ``120s``."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
