"""The ranges of uploads (Content-Range) and of downloads (Range)."""

import re
from dataclasses import dataclass

from trainshed.wire.storage_v1.faults import BadStorageRequest

_CONTENT = re.compile(r"bytes\s+(?:(\d{1,18})-(\d{1,18})|\*)\s*/\s*(?:(\d{1,18})|\*)", re.ASCII)
_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRange:
    """What a piece of a resumable upload is: bytes ``first`` to ``last`` of ``total``.

    ``first`` None: no bytes, a question (``bytes */10``) or the end of an upload whose size was
    not known before.  ``total`` None: the size is not known yet.
    """

    first: int | None
    last: int | None
    total: int | None


def content_range(header: str) -> ContentRange:
    """Read ``bytes 0-5/10``, ``bytes 0-5/*``, ``bytes */10`` or ``bytes */*``."""
    found = _CONTENT.fullmatch(header.strip())
    if found is None:
        raise BadStorageRequest(f"Content-Range {header!r} is invalid: write bytes 0-5/10")
    first, last, total = (int(part) if part is not None else None for part in found.groups())
    if (
        first is not None
        and last is not None
        and not first <= last < (last + 1 if total is None else total)
    ):
        raise BadStorageRequest(f"Content-Range {header!r} is invalid: first <= last < size")
    return ContentRange(first=first, last=last, total=total)


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """The half-open range of a download that asks for one; None: everything.

    Several ranges at once are answered with everything, which HTTP allows.  An empty range
    (start = end) is one that cannot be satisfied.
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size
    first = int(found[1])
    end = min(size, int(found[2]) + 1) if found[2] else size
    if found[2] and int(found[2]) < first:
        return None
    return (first, end) if first < end else (size, size)
