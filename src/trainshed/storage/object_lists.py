"""Lists a bucket in pages: objects, and prefixes instead of the objects in folders."""

import base64
import binascii
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trainshed.model.stored_objects import StoredObject
from trainshed.storage.object_files import Bounds
from trainshed.storage.objects import Objects

PAGE_MAX = 1000


class BadPageToken(Exception):
    """A malformed page token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The parameters of a list: names with ``prefix``, from ``start`` until before ``end``."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    page_token: str = ""
    page_size: int = PAGE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    """One page; ``next_token`` is empty on the last page.  Unknown checksums are empty."""

    items: tuple[StoredObject, ...]
    prefixes: tuple[str, ...]
    next_token: str


def list_page(
    objects: Objects, bucket: str, query: ListQuery, check_client: Callable[[], None] = lambda: None
) -> ObjectPage:
    """Return one page of a bucket's list.  Raises BadPageToken.

    Calls ``check_client`` for each name; it may raise if the client has disconnected.
    """
    items: list[StoredObject] = []
    prefixes: list[str] = []
    size = max(1, min(query.page_size, PAGE_MAX))
    last = ""
    for name, is_prefix in _results(objects, bucket, query, check_client):
        if len(items) + len(prefixes) == size:
            return ObjectPage(items=tuple(items), prefixes=tuple(prefixes), next_token=last)
        if is_prefix:
            prefixes.append(name)
        elif stored := _find_object(objects, bucket, name):
            items.append(stored)
        last = _token(_end_of_prefix(name) if is_prefix else name.encode() + b"\0")
    return ObjectPage(items=tuple(items), prefixes=tuple(prefixes), next_token="")


def _find_object(objects: Objects, bucket: str, name: str) -> StoredObject | None:
    """Return an object; None if it was removed or the server may not read it."""
    with contextlib.suppress(PermissionError):
        return objects.listed(bucket, name)
    return None


def _results(
    objects: Objects, bucket: str, query: ListQuery, check_client: Callable[[], None]
) -> Iterator[tuple[str, bool]]:
    """Yield (name, False) for objects, and (prefix, True) once for all objects in a folder."""
    start = max(query.start.encode(), _start_of(query.page_token))
    bounds = Bounds(
        prefix=query.prefix, start=start, end=query.end.encode(), folders=query.delimiter == "/"
    )
    last = None
    for name in objects.buckets.walk(bucket).names(bounds):
        check_client()
        head, delimiter, _ = name[len(query.prefix) :].partition(query.delimiter or "\0")
        group = f"{query.prefix}{head}{delimiter}"
        if not delimiter:
            yield name, False
        elif group != last:
            last = group
            yield group, True


def _end_of_prefix(prefix: str) -> bytes:
    """Return the first bytes that sort after all names with the prefix."""
    raw = prefix.encode()
    return raw[:-1] + bytes([raw[-1] + 1])  # UTF-8 has no 0xFF


def _token(start: bytes) -> str:
    return base64.urlsafe_b64encode(start).decode("ascii")


def _start_of(token: str) -> bytes:
    try:
        return base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise BadPageToken(f"Invalid value for pageToken: {token!r}") from None
