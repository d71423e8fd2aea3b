"""Routes of uploads: in one request (media, multipart), or in pieces (resumable).

Bytes are written to the disk as they arrive; at most a megabyte of an upload is in memory.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from trainshed.api.storage_call import StorageCall
from trainshed.api.threads import THREADS
from trainshed.model.access import AccessRole
from trainshed.model.stored_objects import Checksums
from trainshed.storage.object_hashes import Hasher, check
from trainshed.storage.objects import NewObject
from trainshed.storage.uploads import Uploads, UploadSession, part
from trainshed.wire.storage_v1.multipart import MultipartReader, boundary_of
from trainshed.wire.storage_v1.requests import (
    BadStorageRequest,
    ContentRange,
    attributes_of,
    checksums_of,
    conditions_of,
    content_range,
    header_checksums,
    whole,
)
from trainshed.wire.storage_v1.resources import object_json

PIECE_BYTES = 1 << 20


async def upload(call: StorageCall) -> Response:
    """``POST`` of an upload: store an object, start a session, or store a piece (gcsfs)."""
    if "upload_id" in call.query:
        return await continue_upload(call)
    await THREADS.run(_check, call)
    kind = call.query.get("uploadType")
    if kind == "resumable":
        return await _begin(call)
    if kind in ("multipart", "media"):
        return await _whole(call, multipart=kind == "multipart")
    raise BadStorageRequest(f"uploadType must be media, multipart or resumable, got {kind!r}")


def _check(call: StorageCall) -> None:
    """Check that the caller may upload.  Raises NoSuchBucket, Forbidden, NoRoom."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    call.access.take(call.bucket, 0)


async def continue_upload(call: StorageCall) -> Response:
    """``PUT`` of a session: store a piece, and answer how many bytes are stored."""
    uploads, upload_id = call.access.uploads, call.query.get("upload_id", "")
    session = await THREADS.run(_session, call, upload_id)
    if session.done:
        await call.drain()
        return await _finish(call, upload_id)
    received = await THREADS.run(uploads.received, upload_id)
    span = _span(call, session)
    if span.first is not None and span.first <= received:
        received = await _receive(call, upload_id, span, received)
    await call.drain()
    total = received if _is_whole_object(call, span) else span.total
    if total is not None and received > total:
        raise BadStorageRequest(f"The upload must have {total} bytes, got {received}")
    return await _finish(call, upload_id) if received == total else _incomplete(received)


def cancel_upload(call: StorageCall, _: dict[str, Any]) -> Response:
    """``DELETE`` of a session: cancel the upload; Cloud Storage answers 499."""
    upload_id = call.query.get("upload_id", "")
    _session(call, upload_id)
    call.access.uploads.cancel(upload_id)
    return Response(status_code=499)


async def _whole(call: StorageCall, *, multipart: bool) -> Response:
    """Store an upload in one request; its document may have checksums."""
    reader = MultipartReader(boundary_of(_header(call, "content-type"))) if multipart else None
    hasher = Hasher()
    async with _part(call) as (path, out):

        def keep(piece: bytes) -> None:
            call.access.take(call.bucket, len(piece))
            hasher.update(piece)
            out.write(piece)

        def end() -> None:
            keep(reader.finish() if reader else b"")
            out.flush()

        async for data in _gather(call.pieces()):
            await THREADS.run(keep, reader.feed(data) if reader else data)
        await THREADS.run(end)
        document = reader.document if reader else {}
        checksums = hasher.checksums()
        check(checksums_of(document), checksums)
        check(_header_checksums(call), checksums)
        content_type = reader.content_type if reader else _header(call, "content-type")
        new = NewObject(
            bucket=call.bucket,
            name=_name(call, document),
            file=path,
            attributes=attributes_of(document, content_type),
            checksums=checksums,
        )
        stored = await THREADS.run(call.access.objects.commit, new, conditions_of(call.query))
    return JSONResponse(object_json(stored, call.base))


async def _begin(call: StorageCall) -> Response:
    """Open a session; its URL has the host and the prefix of the caller's request."""
    document = await call.document()
    length = {"X-Upload-Content-Length": _header(call, "x-upload-content-length") or None}
    session = UploadSession(
        bucket=call.bucket,
        name=_name(call, document),
        attributes=attributes_of(document, _header(call, "x-upload-content-type")),
        checksums=checksums_of(document),
        conditions=conditions_of(call.query),
        total=whole({k: v for k, v in length.items() if v}, "X-Upload-Content-Length"),
    )
    upload_id = await THREADS.run(call.access.uploads.begin, session)
    path = f"/upload/storage/v1/b/{call.bucket}/o?uploadType=resumable&upload_id={upload_id}"
    headers = {"Location": f"{call.base}{path}", "X-GUploader-UploadID": upload_id}
    return Response(headers=headers)


def _session(call: StorageCall, upload_id: str) -> UploadSession:
    """Return the session, which must be of this bucket."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    session = call.access.uploads.session(upload_id)
    if session.bucket != call.bucket:
        raise BadStorageRequest("The upload session belongs to another bucket")
    return session


def _span(call: StorageCall, session: UploadSession) -> ContentRange:
    """Return the range of a request; without a Content-Range the whole object."""
    header = _header(call, "content-range")
    span = content_range(header) if header else ContentRange(first=0, last=None, total=None)
    if None not in (span.total, session.total) and span.total != session.total:
        raise BadStorageRequest(
            f"Content-Range must have the total {session.total}, as announced, got {header!r}"
        )
    total = session.total if span.total is None else span.total
    return ContentRange(first=span.first, last=span.last, total=total)


def _is_whole_object(call: StorageCall, span: ContentRange) -> bool:
    return span.total is None and not _header(call, "content-range")


async def _receive(call: StorageCall, upload_id: str, span: ContentRange, received: int) -> int:
    """Write new bytes, also of a body that is cut off; return how many the session has."""
    uploads: Uploads = call.access.uploads
    body_offset = span.first or 0
    limit = None if span.last is None else span.last + 1

    def keep(offset: int, new: bytes) -> None:
        call.access.take(call.bucket, len(new))
        uploads.write(upload_id, offset, new)

    async for data in _gather(call.pieces()):
        if limit is not None and body_offset + len(data) > limit:
            raise BadStorageRequest("The body has more bytes than its Content-Range says")
        if new := data[max(0, received - body_offset) :]:
            await THREADS.run(keep, received, new)
            received += len(new)
        body_offset += len(data)
    return received


async def _finish(call: StorageCall, upload_id: str) -> Response:
    expected = _header_checksums(call)
    stored = await THREADS.run(call.access.uploads.finish, upload_id, expected)
    return JSONResponse(object_json(stored, call.base))


def _incomplete(received: int) -> Response:
    """Return a 308 with the received range; without a range if no byte was received."""
    headers = {"Range": f"bytes=0-{received - 1}"} if received else {}
    return Response(status_code=308, headers=headers)


@contextlib.asynccontextmanager
async def _part(call: StorageCall) -> AsyncIterator[tuple[Path, BinaryIO]]:
    stack = contextlib.ExitStack()
    try:
        yield await THREADS.run(stack.enter_context, part(call.access.objects.data_dir))
    finally:
        await THREADS.run(stack.close)


async def _gather(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join bytes into larger pieces; yield all that arrived, also if the body is cut off."""
    data = bytearray()
    cut: ClientDisconnect | None = None
    try:
        async for piece in pieces:
            data += piece
            if len(data) >= PIECE_BYTES:
                yield bytes(data)
                data.clear()
    except ClientDisconnect as error:
        cut = error
    if data:
        yield bytes(data)
    if cut:
        raise cut


def _name(call: StorageCall, document: dict[str, Any]) -> str:
    name = call.query.get("name") or document.get("name")
    if not isinstance(name, str) or not name:
        raise BadStorageRequest("Required parameter: name")
    return name


def _header(call: StorageCall, name: str) -> str:
    return call.request.headers.get(name, "")


def _header_checksums(call: StorageCall) -> Checksums:
    return header_checksums(",".join(call.request.headers.getlist("x-goog-hash")))
