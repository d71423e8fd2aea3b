"""Decides whether a request is repeated: pure functions of the answer and the number of tries."""

from typing import Final

from trainshed.engines.kubernetes.api.errors import BUSY_CODE, UNAVAILABLE_CODE

#: Number of repetitions of a request that the API server was too busy to read.
RETRIES_MAX: Final = 4
#: Limits of the seconds before a repetition.
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 10.0


def parse_retry_after(text: str | None) -> float | None:
    """Read a Retry-After header in seconds; None: there is none, or it is a date."""
    if text is None or not text.strip().isdecimal():
        return None
    return float(text.strip()[:9])


def plan_retry(status: int, retry_after_s: float | None, retries: int) -> float | None:
    """Return the seconds until a repetition; None: do not repeat the request.

    The API server answers 429, and 503 with Retry-After, before it reads a request, so repeating
    a POST is safe.  ``retries``: how often this request was repeated.
    """
    is_busy = status == BUSY_CODE or (status == UNAVAILABLE_CODE and retry_after_s is not None)
    if not is_busy or retries >= RETRIES_MAX:
        return None
    wanted_s = PAUSE_S_MIN * 2**retries if retry_after_s is None else retry_after_s
    return min(max(wanted_s, PAUSE_S_MIN), PAUSE_S_MAX)
