"""Texts for people: local dates, durations, YAML documents, and why a job waits."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from trainshed.client.faults import Json
from trainshed.model.visible import visible


def yaml_text(resource: Json) -> str:
    """Return a resource as YAML, as gcloud's describe prints it."""
    import yaml

    def dump(*, allow_unicode: bool) -> str:
        text: str = yaml.safe_dump(resource, allow_unicode=allow_unicode, width=100)
        return text.rstrip("\n")

    text = dump(allow_unicode=True)
    # YAML's own escapes can be read back; those of ``visible`` cannot
    return text if visible(text) == text else dump(allow_unicode=False)


def date_of(stamp: Any) -> str:
    """Return a time of the API in the local time zone, to the second; empty for None."""
    return time_of(stamp).strftime("%Y-%m-%d %H:%M:%S") if stamp else ""


def clock_of(stamp: Any) -> str:
    """Return the local time of day of a time of the API; empty for None."""
    return time_of(stamp).strftime("%H:%M:%S") if stamp else ""


def time_of(stamp: str) -> datetime:
    """Parse a time of the API, in the local time zone, to microseconds."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00").astimezone()


_DAY_S: Final = 86_400
_HOUR_S: Final = 3600
_MINUTE_S: Final = 60


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units, such as ``2d 3h``, ``1h 02m`` or ``45s``."""
    whole = max(int(seconds), 0)
    if whole >= _DAY_S:
        return f"{whole // _DAY_S}d {whole % _DAY_S // _HOUR_S}h"
    if whole >= _HOUR_S:
        return f"{whole // _HOUR_S}h {whole % _HOUR_S // _MINUTE_S:02}m"
    if whole >= _MINUTE_S:
        return f"{whole // _MINUTE_S}m {whole % _MINUTE_S:02}s"
    return f"{whole}s"


def wait_lines(waiting: Json) -> Iterator[str]:
    """Yield the lines that explain why a job waits; none if it does not wait."""
    if not waiting:
        return
    yield f"waits: {waiting['reason']}: {waiting['message']}"
    if "queuePosition" in waiting:
        yield f"place in the queue: {waiting['queuePosition']}"
    if "since" in waiting:
        yield f"since: {date_of(waiting['since'])}"
    for blocker in waiting.get("blockers", ()):
        yield f"blocked by: {blocker}"
    if change := waiting.get("change"):
        yield change["text"]
