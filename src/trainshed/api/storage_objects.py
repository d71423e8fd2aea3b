"""Routes of objects: list, get, download, change, delete, copy, move, compose."""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from starlette.responses import JSONResponse, Response, StreamingResponse

from trainshed.api.storage_call import Ask, refusal
from trainshed.model.access import AccessRole
from trainshed.model.stored_objects import Attributes
from trainshed.storage.object_hashes import PIECE_BYTES
from trainshed.storage.object_lists import PAGE_MAX, ListQuery, list_page
from trainshed.storage.object_parts import CopyTarget, compose, copy
from trainshed.wire.storage_v1.faults import BadStorageRequest
from trainshed.wire.storage_v1.ranges import byte_range
from trainshed.wire.storage_v1.requests import (
    SOURCE_CONDITION_KEYS,
    attributes_of,
    compose_sources,
    conditions_of,
    patched,
    whole,
)
from trainshed.wire.storage_v1.resources import (
    download_headers,
    object_json,
    object_list_json,
    rewrite_json,
)


def list_objects(ask: Ask, _: dict[str, Any]) -> Response:
    """``GET /storage/v1/b/BUCKET/o``."""
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.VIEWER)
    if ask.query.get("matchGlob"):
        raise BadStorageRequest("matchGlob is not supported: list with prefix and delimiter")
    query = ListQuery(
        prefix=ask.query.get("prefix", ""),
        delimiter=ask.query.get("delimiter", ""),
        start=ask.query.get("startOffset", ""),
        end=ask.query.get("endOffset", ""),
        page_token=ask.query.get("pageToken", ""),
        page_size=whole(ask.query, "maxResults") or PAGE_MAX,
    )
    page = list_page(ask.shelf.objects, ask.bucket, query)
    items = [object_json(found, ask.base) for found in page.items]
    return JSONResponse(object_list_json(items, page.prefixes, page.next_token))


def get_object(ask: Ask, _: dict[str, Any]) -> Response:
    """``GET .../o/NAME``: the resource, or with ``alt=media`` the bytes."""
    if ask.query.get("alt") == "media":
        return download(ask, _)
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.VIEWER)
    fields = ask.query.get("fields", "*")
    hashes = any(word in fields for word in ("*", "crc32c", "md5Hash"))
    found = ask.shelf.objects.get(ask.bucket, _name(ask), conditions_of(ask.query), hashes=hashes)
    return JSONResponse(object_json(found, ask.base))


def download(ask: Ask, _: dict[str, Any]) -> Response:
    """The bytes of an object, or a range of them."""
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.VIEWER)
    asked = ask.request.headers.get("range")
    found, file = ask.shelf.objects.open(
        ask.bucket, _name(ask), conditions_of(ask.query), hashes=not asked
    )
    headers = download_headers(found)
    span = byte_range(asked, found.size)
    first, end = span or (0, found.size)
    if span and first == end:
        if file:
            file.close()
        answer = refusal(416, "The requested range is not satisfiable")
        answer.headers["Content-Range"] = f"bytes */{found.size}"
        return answer
    headers["Content-Length"] = str(end - first)
    if span:
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{found.size}"
    return StreamingResponse(
        _read(file, first, end), status_code=206 if span else 200, headers=headers
    )


def patch_object(ask: Ask, document: dict[str, Any]) -> Response:
    """``PATCH .../o/NAME``: null removes, what is not named stays."""
    return _changed(ask, lambda before: patched(before, document))


def update_object(ask: Ask, document: dict[str, Any]) -> Response:
    """``PUT .../o/NAME``: the attributes are these and no others."""
    return _changed(ask, lambda _: attributes_of(document))


def delete_object(ask: Ask, _: dict[str, Any]) -> Response:
    """``DELETE .../o/NAME``."""
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.SUBMITTER)
    ask.shelf.objects.delete(ask.bucket, _name(ask), conditions_of(ask.query))
    return Response(status_code=204)


def act(ask: Ask, document: dict[str, Any]) -> Response:
    """``POST .../o/NAME/...``: copy, rewrite, move or compose."""
    match ask.words:
        case [name, "rewriteTo", "b", bucket, "o", to]:
            return JSONResponse(rewrite_json(_copied(ask, name, (bucket, to), document)))
        case [name, "copyTo", "b", bucket, "o", to]:
            return JSONResponse(_copied(ask, name, (bucket, to), document))
        case [name, "moveTo", "o", to]:
            return _moved(ask, name, to)
        case [name, "compose"]:
            return _composed(ask, name, document)
        case _:
            return refusal(501, "Objects can be copied, rewritten, moved and composed")


def _changed(ask: Ask, change: Callable[[Attributes], Attributes]) -> Response:
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.SUBMITTER)
    found = ask.shelf.objects.patch(ask.bucket, _name(ask), change, conditions_of(ask.query))
    return JSONResponse(object_json(found, ask.base))


def _copied(ask: Ask, name: str, to: tuple[str, str], document: dict[str, Any]) -> dict[str, Any]:
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.VIEWER)
    ask.shelf.need(ask.caller, to[0], AccessRole.SUBMITTER)
    objects = ask.shelf.objects
    wanted = conditions_of(ask.query, SOURCE_CONDITION_KEYS)
    found, file = objects.open(ask.bucket, name, wanted)
    try:
        target = CopyTarget(
            bucket=to[0],
            name=to[1],
            attributes=patched(found.attributes, document),
            conditions=conditions_of(ask.query),
        )
        copied = copy(objects, found, file, target)
    finally:
        if file:
            file.close()
    return object_json(copied, ask.base)


def _moved(ask: Ask, name: str, to: str) -> Response:
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.SUBMITTER)
    source = conditions_of(ask.query, SOURCE_CONDITION_KEYS)
    moved = ask.shelf.objects.move(ask.bucket, name, to, source, conditions_of(ask.query))
    return JSONResponse(object_json(moved, ask.base))


def _composed(ask: Ask, name: str, document: dict[str, Any]) -> Response:
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.SUBMITTER)
    sources, destination = compose_sources(document)
    target = CopyTarget(
        bucket=ask.bucket,
        name=name,
        attributes=attributes_of(destination),
        conditions=conditions_of(ask.query),
    )
    stored = compose(ask.shelf.objects, ask.bucket, sources, target)
    return JSONResponse(object_json(stored, ask.base))


def _name(ask: Ask) -> str:
    """The object's name; slashes that a client forgot to encode are taken as they are."""
    return "/".join(ask.words)


def _read(file: BinaryIO | None, first: int, end: int) -> Iterator[bytes]:
    """The bytes of a range; the file is closed whoever stops reading, and why."""
    if file is None:
        return
    with file:
        file.seek(first)
        while first < end and (piece := file.read(min(PIECE_BYTES, end - first))):
            first += len(piece)
            yield piece
