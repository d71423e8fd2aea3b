"""Lists in pages: continue tokens name a list that stays as it was when it began."""

import base64
import binascii
import json
import threading
from collections import OrderedDict
from typing import Any

from .history import Record
from .requests import Request, Target
from .statuses import BadRequest, Expired, TooLargeVersion
from .store import Store

Records = list[Record]
#: So many lists that are not read to their end stay.
_UNFINISHED = 64
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Lister:
    """Answers list requests; ``forget`` makes unfinished lists Expired."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._rest: OrderedDict[str, tuple[Records, int]] = OrderedDict()
        self._count = 0

    def forget(self) -> None:
        with self._lock:
            self._rest.clear()

    def list(self, request: Request, target: Target) -> tuple[Records, dict[str, Any]]:
        """The records of a page and the metadata of the list."""
        if token := request.query.get("continue"):
            records, version = self._take(token)
        else:
            self._check_version(request)
            records, version = self._store.list_records(
                target.resource.kind,
                target.namespace or None,
                request.query.get("labelSelector", ""),
                request.query.get("fieldSelector", ""),
            )
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        limit = int(request.query.get("limit") or 0)
        if limit and len(records) > limit:
            metadata["continue"] = self._keep(records[limit:], version)
            metadata["remainingItemCount"] = len(records) - limit
            records = records[:limit]
        return records, metadata

    def _check_version(self, request: Request) -> None:
        text = request.query.get("resourceVersion", "")
        match = request.query.get("resourceVersionMatch", "")
        if text in ("", "0"):
            return
        if not text.isdigit():
            raise BadRequest(f'Invalid value: "{text}": strconv.ParseUint: invalid syntax')
        version, current = int(text), self._store.resource_version
        if version > current:
            raise TooLargeVersion(version, current)
        if match == "Exact" and version < current:
            raise Expired("The resourceVersion for the provided list is too old.")

    def _keep(self, records: Records, version: int) -> str:
        with self._lock:
            self._count += 1
            key = str(self._count)
            self._rest[key] = (records, version)
            while len(self._rest) > _UNFINISHED:
                self._rest.popitem(last=False)
        text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": key})
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def _take(self, token: str) -> tuple[Records, int]:
        key = _parse_token(token)
        with self._lock:
            rest = self._rest.get(key)
        if rest is None:
            raise Expired(_TOO_OLD)
        return rest


def _parse_token(token: str) -> str:
    """The key of an unfinished list; BadRequest in the words of Go's base64 reader."""
    try:
        text = base64.urlsafe_b64decode(_pad(token))
        return str(json.loads(text)["start"])
    except (ValueError, KeyError, binascii.Error):
        position = len(token) // 4 * 4
        message = f"illegal base64 data at input byte {position}"
        raise BadRequest(f"invalid continue token: continue key is not valid: {message}") from None


def _pad(token: str) -> str:
    if len(token) % 4 == 1:
        raise ValueError(token)
    return token + "=" * (-len(token) % 4)
