"""How resources read for people: dates in the own time zone, documents as YAML, why a job waits."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from trainshed.client.faults import Json
from trainshed.model.visible import visible


def printed(resource: Json) -> str:
    """A resource as gcloud's describe prints it."""
    import yaml  # noqa: PLC0415  # JSON does without

    def dumped(*, allow_unicode: bool) -> str:
        text: str = yaml.safe_dump(resource, allow_unicode=allow_unicode, width=100)
        return text.rstrip("\n")

    text = dumped(allow_unicode=True)
    # YAML's own escapes keep the meaning, which those of the cleaner would not
    return text if visible(text) == text else dumped(allow_unicode=False)


def date_of(stamp: Any) -> str:
    """A time of the API in the local time zone, to the second; empty for none."""
    return time_of(stamp).strftime("%Y-%m-%d %H:%M:%S") if stamp else ""


def clock_of(stamp: Any) -> str:
    """The same without the day."""
    return time_of(stamp).strftime("%H:%M:%S") if stamp else ""


def time_of(stamp: str) -> datetime:
    """A time of the API, in the local time zone; nanoseconds are cut."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00").astimezone()


def why_it_waits(waiting: Json) -> Iterator[str]:
    """The explanation of a waiting job, line by line."""
    if not waiting:
        return
    yield f"waits: {waiting['reason']}: {waiting['message']}"
    if "queuePosition" in waiting:
        yield f"place in the queue: {waiting['queuePosition']}"
    if "since" in waiting:
        yield f"since: {date_of(waiting['since'])}"
    for blocker in waiting.get("blockers", ()):
        yield f"in its way: {blocker}"
    if change := waiting.get("change"):
        yield change["text"]
