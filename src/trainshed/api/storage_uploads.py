"""Routes of uploads: in one request (media, multipart), or in pieces (resumable).

Bytes go to the disk as they arrive; a megabyte of an upload is in memory, whatever its size.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from trainshed.api.storage_call import Ask
from trainshed.model.access import AccessRole
from trainshed.model.stored_objects import Checksums
from trainshed.storage.object_hashes import Hasher, check
from trainshed.storage.object_parts import part
from trainshed.storage.objects import NewObject
from trainshed.storage.uploads import Uploads, UploadSession
from trainshed.wire.storage_v1.faults import BadStorageRequest
from trainshed.wire.storage_v1.multipart import MultipartReader, boundary_of
from trainshed.wire.storage_v1.ranges import ContentRange, content_range
from trainshed.wire.storage_v1.requests import (
    attributes_of,
    checksums_of,
    conditions_of,
    header_checksums,
    whole,
)
from trainshed.wire.storage_v1.resources import object_json

PIECE_BYTES = 1 << 20


async def upload(ask: Ask) -> Response:
    """``POST`` of an upload: all of it, the beginning of a session, or a piece (gcsfs)."""
    if "upload_id" in ask.query:
        return await continue_upload(ask)
    await run_in_threadpool(ask.shelf.need, ask.caller, ask.bucket, AccessRole.SUBMITTER)
    kind = ask.query.get("uploadType")
    if kind == "resumable":
        return await _begin(ask)
    if kind in ("multipart", "media"):
        return await _whole(ask, multipart=kind == "multipart")
    raise BadStorageRequest(f"uploadType {kind!r} is invalid: media, multipart or resumable")


async def continue_upload(ask: Ask) -> Response:
    """``PUT`` of a session: a piece, a question how far it is, or its end."""
    uploads, upload_id = ask.shelf.uploads, ask.query.get("upload_id", "")
    session = await run_in_threadpool(_session, ask, upload_id)
    if session.done:
        await ask.drain()
        return await _finished(ask, upload_id)
    received = await run_in_threadpool(uploads.received, upload_id)
    span = _span(ask, session)
    if span.first is not None and span.first <= received:
        received = await _receive(ask, upload_id, span, received)
    await ask.drain()
    total = received if _is_all_of_it(ask, span) else span.total
    if total is not None and received > total:
        raise BadStorageRequest(f"The upload has {received} bytes and was to have {total}")
    return await _finished(ask, upload_id) if received == total else _incomplete(received)


def cancel_upload(ask: Ask, _: dict[str, Any]) -> Response:
    """``DELETE`` of a session; 499 is what Cloud Storage answers to it."""
    upload_id = ask.query.get("upload_id", "")
    _session(ask, upload_id)
    ask.shelf.uploads.cancel(upload_id)
    return Response(status_code=499)


async def _whole(ask: Ask, *, multipart: bool) -> Response:
    """An upload in one request; its document says what the bytes must be."""
    reader = MultipartReader(_boundary(ask)) if multipart else None
    hasher = Hasher()
    async with _part(ask) as (path, out):

        def keep(piece: bytes) -> None:
            hasher.update(piece)
            out.write(piece)

        async for held in _gathered(ask.pieces()):
            await run_in_threadpool(keep, reader.feed(held) if reader else held)
        await run_in_threadpool(keep, reader.finish() if reader else b"")
        await run_in_threadpool(out.flush)
        document = reader.document if reader else {}
        found = hasher.checksums()
        check(checksums_of(document), found)
        check(_header_checksums(ask), found)
        content_type = reader.content_type if reader else _header(ask, "content-type")
        new = NewObject(
            bucket=ask.bucket,
            name=_name(ask, document),
            file=path,
            attributes=attributes_of(document, content_type),
            checksums=found,
        )
        stored = await run_in_threadpool(ask.shelf.objects.commit, new, conditions_of(ask.query))
    return JSONResponse(object_json(stored, ask.base))


async def _begin(ask: Ask) -> Response:
    """Open a session; its URL is on this host, and has the prefix that the caller came with."""
    document = await ask.document()
    length = {"X-Upload-Content-Length": _header(ask, "x-upload-content-length") or None}
    session = UploadSession(
        bucket=ask.bucket,
        name=_name(ask, document),
        attributes=attributes_of(document, _header(ask, "x-upload-content-type")),
        checksums=checksums_of(document),
        conditions=conditions_of(ask.query),
        total=whole({k: v for k, v in length.items() if v}, "X-Upload-Content-Length"),
    )
    upload_id = await run_in_threadpool(ask.shelf.uploads.begin, session)
    place = f"/upload/storage/v1/b/{ask.bucket}/o?uploadType=resumable&upload_id={upload_id}"
    headers = {"Location": f"{ask.base}{place}", "X-GUploader-UploadID": upload_id}
    return Response(headers=headers)


def _session(ask: Ask, upload_id: str) -> UploadSession:
    """The session, which the caller must be allowed to continue in this bucket."""
    ask.shelf.need(ask.caller, ask.bucket, AccessRole.SUBMITTER)
    session = ask.shelf.uploads.session(upload_id)
    if session.bucket != ask.bucket:
        raise BadStorageRequest("The upload session belongs to another bucket")
    return session


def _span(ask: Ask, session: UploadSession) -> ContentRange:
    """What the request brings; without a Content-Range it is the whole object."""
    header = _header(ask, "content-range")
    span = content_range(header) if header else ContentRange(first=0, last=None, total=None)
    if None not in (span.total, session.total) and span.total != session.total:
        raise BadStorageRequest(
            f"Content-Range {header!r} is invalid: the upload was announced with "
            f"{session.total} bytes"
        )
    total = session.total if span.total is None else span.total
    return ContentRange(first=span.first, last=span.last, total=total)


def _is_all_of_it(ask: Ask, span: ContentRange) -> bool:
    return span.total is None and not _header(ask, "content-range")


async def _receive(ask: Ask, upload_id: str, span: ContentRange, received: int) -> int:
    """Write what is new of the body; what came before a cut stays.  How many bytes are there."""
    uploads: Uploads = ask.shelf.uploads
    at = span.first or 0
    limit = None if span.last is None else span.last + 1
    async for held in _gathered(ask.pieces()):
        if limit is not None and at + len(held) > limit:
            raise BadStorageRequest("The body has more bytes than its Content-Range says")
        if new := held[max(0, received - at) :]:
            await run_in_threadpool(uploads.write, upload_id, received, new)
            received += len(new)
        at += len(held)
    return received


async def _finished(ask: Ask, upload_id: str) -> Response:
    claimed = _header_checksums(ask)
    stored = await run_in_threadpool(ask.shelf.uploads.finish, upload_id, claimed)
    return JSONResponse(object_json(stored, ask.base))


def _incomplete(received: int) -> Response:
    """308 says how far it is: nothing about a range where there is nothing yet."""
    headers = {"Range": f"bytes=0-{received - 1}"} if received else {}
    return Response(status_code=308, headers=headers)


@contextlib.asynccontextmanager
async def _part(ask: Ask) -> AsyncIterator[tuple[Path, BinaryIO]]:
    stack = contextlib.ExitStack()
    try:
        yield await run_in_threadpool(stack.enter_context, part(ask.shelf.objects.data_dir))
    finally:
        await run_in_threadpool(stack.close)


async def _gathered(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces worth a write; all that came, also where the body was cut off."""
    held = bytearray()
    cut: ClientDisconnect | None = None
    try:
        async for piece in pieces:
            held += piece
            if len(held) >= PIECE_BYTES:
                yield bytes(held)
                held.clear()
    except ClientDisconnect as error:
        cut = error
    if held:
        yield bytes(held)
    if cut:
        raise cut


def _name(ask: Ask, document: dict[str, Any]) -> str:
    name = ask.query.get("name") or document.get("name")
    if not isinstance(name, str) or not name:
        raise BadStorageRequest("Required parameter: name")
    return name


def _boundary(ask: Ask) -> bytes:
    return boundary_of(_header(ask, "content-type"))


def _header(ask: Ask, name: str) -> str:
    return ask.request.headers.get(name, "")


def _header_checksums(ask: Ask) -> Checksums:
    return header_checksums(",".join(ask.request.headers.getlist("x-goog-hash")))
