"""What HTTP brings, as the chain wants it."""

from collections.abc import Mapping
from typing import Final

from starlette.types import Receive, Scope

from trainshed.api.chain import Passage
from trainshed.api.guards import is_loopback

_FIELDS: Final[Mapping[bytes, str]] = {
    b"authorization": "authorization",
    b"content-type": "content_type",
    b"host": "host",
    b"origin": "origin",
    b"sec-fetch-site": "fetch_site",
    b"user-agent": "user_agent",
}


def passage_of(scope: Scope) -> Passage:
    """The call as far as its head tells.  HEAD is GET; the server leaves the body out."""
    verb: str = scope["method"]
    client = scope.get("client")
    passage = Passage(
        verb="GET" if verb == "HEAD" else verb,
        path=(scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
        query_string=scope["query_string"].decode("latin-1"),
        loopback=client is not None and is_loopback(client[0]),
    )
    for name, value in scope["headers"]:
        field = _FIELDS.get(name)
        if field:
            setattr(passage, field, value.decode("latin-1"))
    return passage


def length_of(scope: Scope) -> int:
    """The announced length of the body; 0 where none is announced."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def read_body(receive: Receive, begun: bytes, bytes_max: int) -> bytes:
    """The rest of a body behind its first part, or ``bytes_max + 1`` bytes of a longer one."""
    parts, size, more = [begun], len(begun), True
    while more and size <= bytes_max:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    return b"".join(parts)[: bytes_max + 1]
