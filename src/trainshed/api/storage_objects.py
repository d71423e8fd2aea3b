"""Routes of objects: list, get, download, change, delete, copy, move, compose."""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from starlette.responses import JSONResponse, Response, StreamingResponse

from trainshed.api.storage_call import StorageCall, refusal
from trainshed.model.access import AccessRole
from trainshed.model.stored_objects import Attributes
from trainshed.storage.object_hashes import PIECE_BYTES
from trainshed.storage.object_lists import PAGE_MAX, ListQuery, list_page
from trainshed.storage.object_parts import CopyTarget, compose, copy
from trainshed.wire.storage_v1.requests import (
    SOURCE_CONDITION_KEYS,
    BadStorageRequest,
    attributes_of,
    byte_range,
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


def list_objects(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET /storage/v1/b/BUCKET/o``."""
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    if call.query.get("matchGlob"):
        raise BadStorageRequest("matchGlob is not supported: list with prefix and delimiter")
    query = ListQuery(
        prefix=call.query.get("prefix", ""),
        delimiter=call.query.get("delimiter", ""),
        start=call.query.get("startOffset", ""),
        end=call.query.get("endOffset", ""),
        page_token=call.query.get("pageToken", ""),
        page_size=whole(call.query, "maxResults") or PAGE_MAX,
    )
    page = list_page(call.access.objects, call.bucket, query)
    items = [object_json(found, call.base) for found in page.items]
    return JSONResponse(object_list_json(items, page.prefixes, page.next_token))


def get_object(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET .../o/NAME``: the resource, or with ``alt=media`` the bytes."""
    if call.query.get("alt") == "media":
        return download(call, _)
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    fields = call.query.get("fields", "*")
    hashes = any(word in fields for word in ("*", "crc32c", "md5Hash"))
    found = call.access.objects.get(
        call.bucket, _name(call), conditions_of(call.query), hashes=hashes
    )
    return JSONResponse(object_json(found, call.base))


def download(call: StorageCall, _: dict[str, Any]) -> Response:
    """The bytes of an object, or a range of them."""
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    asked = call.request.headers.get("range")
    found, file = call.access.objects.open(
        call.bucket, _name(call), conditions_of(call.query), hashes=not asked
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


def patch_object(call: StorageCall, document: dict[str, Any]) -> Response:
    """``PATCH .../o/NAME``: null removes, what is not named stays."""
    return _changed(call, lambda before: patched(before, document))


def update_object(call: StorageCall, document: dict[str, Any]) -> Response:
    """``PUT .../o/NAME``: the attributes are these and no others."""
    return _changed(call, lambda _: attributes_of(document))


def delete_object(call: StorageCall, _: dict[str, Any]) -> Response:
    """``DELETE .../o/NAME``."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    call.access.objects.delete(call.bucket, _name(call), conditions_of(call.query))
    return Response(status_code=204)


def act(call: StorageCall, document: dict[str, Any]) -> Response:
    """``POST .../o/NAME/...``: copy, rewrite, move or compose."""
    match call.words:
        case [name, "rewriteTo", "b", bucket, "o", to]:
            return JSONResponse(rewrite_json(_copied(call, name, (bucket, to), document)))
        case [name, "copyTo", "b", bucket, "o", to]:
            return JSONResponse(_copied(call, name, (bucket, to), document))
        case [name, "moveTo", "o", to]:
            return _moved(call, name, to)
        case [name, "compose"]:
            return _composed(call, name, document)
        case _:
            return refusal(501, "Objects can be copied, rewritten, moved and composed")


def _changed(call: StorageCall, change: Callable[[Attributes], Attributes]) -> Response:
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    found = call.access.objects.patch(call.bucket, _name(call), change, conditions_of(call.query))
    return JSONResponse(object_json(found, call.base))


def _copied(
    call: StorageCall, name: str, to: tuple[str, str], document: dict[str, Any]
) -> dict[str, Any]:
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    call.access.need(call.caller, to[0], AccessRole.SUBMITTER)
    objects = call.access.objects
    wanted = conditions_of(call.query, SOURCE_CONDITION_KEYS)
    found, file = objects.open(call.bucket, name, wanted)
    try:
        target = CopyTarget(
            bucket=to[0],
            name=to[1],
            attributes=patched(found.attributes, document),
            conditions=conditions_of(call.query),
        )
        copied = copy(objects, found, file, target)
    finally:
        if file:
            file.close()
    return object_json(copied, call.base)


def _moved(call: StorageCall, name: str, to: str) -> Response:
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    source = conditions_of(call.query, SOURCE_CONDITION_KEYS)
    moved = call.access.objects.move(call.bucket, name, to, source, conditions_of(call.query))
    return JSONResponse(object_json(moved, call.base))


def _composed(call: StorageCall, name: str, document: dict[str, Any]) -> Response:
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    sources, destination = compose_sources(document)
    target = CopyTarget(
        bucket=call.bucket,
        name=name,
        attributes=attributes_of(destination),
        conditions=conditions_of(call.query),
    )
    stored = compose(call.access.objects, call.bucket, sources, target)
    return JSONResponse(object_json(stored, call.base))


def _name(call: StorageCall) -> str:
    """The object's name; slashes that a client forgot to encode are taken as they are."""
    return "/".join(call.words)


def _read(file: BinaryIO | None, first: int, end: int) -> Iterator[bytes]:
    """The bytes of a range; the file is closed whoever stops reading, and why."""
    if file is None:
        return
    with file:
        file.seek(first)
        while first < end and (piece := file.read(min(PIECE_BYTES, end - first))):
            first += len(piece)
            yield piece
