"""The storage API's routes: the part of Cloud Storage that gcloud and the SDKs use."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, BinaryIO

from starlette.responses import JSONResponse, Response

from trainshed.api.announced_bytes import AnnouncedBytes
from trainshed.api.call import RawMethod
from trainshed.api.storage_call import (
    BucketAccess,
    BucketOwners,
    Handler,
    StorageCall,
    blocking,
    method,
    refusal,
)
from trainshed.api.storage_uploads import cancel_upload, continue_upload, upload
from trainshed.api.threads import THREADS
from trainshed.model.access import AccessRole
from trainshed.model.stored_objects import Attributes
from trainshed.service.upkeep.project_bytes import ProjectBytes
from trainshed.storage.buckets import BUCKET_RULE, is_bucket_name
from trainshed.storage.object_hashes import PIECE_BYTES
from trainshed.storage.object_lists import PAGE_MAX, ListQuery, list_page
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Target, Uploads, compose, copy
from trainshed.wire.storage_v1.requests import (
    SOURCE_CONDITION_KEYS,
    BadStorageRequest,
    attributes_of,
    byte_range,
    compose_sources,
    conditions_of,
    patch_attributes,
    whole,
)
from trainshed.wire.storage_v1.resources import (
    bucket_json,
    bucket_list_json,
    download_headers,
    layout_json,
    object_json,
    object_list_json,
    rewrite_json,
)

#: Objects up to this size are read at once: each piece of a stream costs two thread switches.
_AT_ONCE_BYTES_MAX = 256 << 10
#: Bytes written at once: asyncio copies what a socket does not accept, and TLS copies twice.
_WRITTEN_BYTES = 256 << 10


def list_buckets(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET /storage/v1/b?project=P``: list the project's buckets, by name."""
    prefix, after = call.query.get("prefix", ""), call.query.get("pageToken", "")
    visible = call.access.visible(call.caller, call.query.get("project", ""))
    names = [name for name in visible if name.startswith(prefix) and name > after]
    size = max(1, min(whole(call.query, "maxResults") or PAGE_MAX, PAGE_MAX))
    page = [_bucket(call, name) for name in names[:size]]
    return JSONResponse(bucket_list_json(page, names[size - 1] if len(names) > size else ""))


def create_bucket(call: StorageCall, document: dict[str, Any]) -> Response:
    """``POST /storage/v1/b?project=P``: make a bucket; location and lifecycle are ignored."""
    name = document.get("name")
    if not isinstance(name, str) or not is_bucket_name(name):
        raise BadStorageRequest(f"Invalid bucket name: {name!r}; a bucket has {BUCKET_RULE}")
    call.access.make(call.caller, name, call.query.get("project", ""))
    return JSONResponse(_bucket(call, name))


def get_bucket(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET /storage/v1/b/BUCKET``: return the bucket."""
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    return JSONResponse(_bucket(call, call.bucket))


def delete_bucket(call: StorageCall, _: dict[str, Any]) -> Response:
    """``DELETE /storage/v1/b/BUCKET``: delete an empty bucket; the project keeps its name."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    call.access.objects.buckets.drop(call.bucket)
    return Response(status_code=204)


def change_bucket(call: StorageCall, _: dict[str, Any]) -> Response:
    """Refuse ``PATCH`` and ``PUT`` of a bucket, because its attributes cannot be changed."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    return refusal(400, "Buckets of this server have no labels, lifecycle or versions")


def storage_layout(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET .../storageLayout``: return the layout; gcloud calls it before it copies folders."""
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    return JSONResponse(layout_json(call.bucket))


def managed_folders(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET .../managedFolders``: an empty list; gcloud calls it before it removes a folder."""
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    return JSONResponse({"kind": "storage#managedFolders"})


def no_managed_folder(call: StorageCall, _: dict[str, Any]) -> Response:
    """Refuse a managed folder: access is by project, not by folder."""
    call.access.need(call.caller, call.bucket, _role_of(call))
    if call.request.method == "POST":
        return refusal(
            400,
            "This server has no managed folders: a role is for a whole project, not for a folder",
        )
    return refusal(404, "The specified managed folder does not exist.")


def no_folders(call: StorageCall, _: dict[str, Any]) -> Response:
    """``.../folders``: refuse, as Google does for buckets without a hierarchical namespace."""
    call.access.need(call.caller, call.bucket, _role_of(call))
    return refusal(409, "The bucket does not support hierarchical namespace.")


def _role_of(call: StorageCall) -> AccessRole:
    return AccessRole.VIEWER if call.request.method == "GET" else AccessRole.SUBMITTER


def _bucket(call: StorageCall, name: str) -> dict[str, Any]:
    number, since = call.access.number_and_creation(name)
    return bucket_json(name, number, since, call.base)


def list_objects(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET /storage/v1/b/BUCKET/o``: list one page of objects."""
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
    page = list_page(call.access.objects, call.bucket, query, call.go_on)
    items = [object_json(stored, call.base) for stored in page.items]
    return JSONResponse(object_list_json(items, page.prefixes, page.next_token))


def get_object(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET .../o/NAME``: return the resource, or with ``alt=media`` the bytes."""
    if call.query.get("alt") == "media":
        return download(call, _)
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    fields = call.query.get("fields", "*")
    hashes = any(word in fields for word in ("*", "crc32c", "md5Hash"))
    stored = call.access.objects.get(
        call.bucket, _name(call), conditions_of(call.query), hashes=hashes
    )
    return JSONResponse(object_json(stored, call.base))


def download(call: StorageCall, _: dict[str, Any]) -> Response:
    """Return the bytes of an object, or a range of them."""
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    range_header = call.request.headers.get("range")
    stored, file = call.access.objects.open(
        call.bucket, _name(call), conditions_of(call.query), hashes=not range_header
    )
    headers = download_headers(stored)
    span = byte_range(range_header, stored.size)
    first, end = span or (0, stored.size)
    if span and first == end:
        if file:
            file.close()
        answer = refusal(416, "The requested range is not satisfiable")
        answer.headers["Content-Range"] = f"bytes */{stored.size}"
        return answer
    headers["Content-Length"] = str(end - first)
    if span:
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{stored.size}"
    status = 206 if span else 200
    if call.request.method == "HEAD":  # the response has no body
        if file:
            file.close()
        return Response(status_code=status, headers=headers)
    if end - first > _AT_ONCE_BYTES_MAX:
        what = f"gs://{call.bucket}/{stored.name}"
        return AnnouncedBytes(_stream(_read(file, first, end)), status, headers, what)
    content = b"".join(_read(file, first, end))
    if len(content) < end - first:
        return refusal(503, "The object was changed while it was read; try again")
    return Response(content, status, headers)


def patch_object(call: StorageCall, document: dict[str, Any]) -> Response:
    """``PATCH .../o/NAME``: null removes an attribute; others do not change."""
    return _change_attributes(call, lambda before: patch_attributes(before, document))


def update_object(call: StorageCall, document: dict[str, Any]) -> Response:
    """``PUT .../o/NAME``: replace all attributes."""
    return _change_attributes(call, lambda _: attributes_of(document))


def delete_object(call: StorageCall, _: dict[str, Any]) -> Response:
    """``DELETE .../o/NAME``: delete an object."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    call.access.objects.delete(call.bucket, _name(call), conditions_of(call.query))
    return Response(status_code=204)


def perform_action(call: StorageCall, document: dict[str, Any]) -> Response:
    """``POST .../o/NAME/...``: copy, rewrite, move or compose."""
    match call.path_parts:
        case [name, "rewriteTo", "b", bucket, "o", to]:
            return JSONResponse(rewrite_json(_copy_object(call, name, (bucket, to), document)))
        case [name, "copyTo", "b", bucket, "o", to]:
            return JSONResponse(_copy_object(call, name, (bucket, to), document))
        case [name, "moveTo", "o", to]:
            return _move_object(call, name, to)
        case [name, "compose"]:
            return _compose_object(call, name, document)
        case _:
            return refusal(400, "The action must be copyTo, rewriteTo, moveTo or compose")


def _change_attributes(call: StorageCall, change: Callable[[Attributes], Attributes]) -> Response:
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    stored = call.access.objects.patch(call.bucket, _name(call), change, conditions_of(call.query))
    return JSONResponse(object_json(stored, call.base))


def _copy_object(
    call: StorageCall, name: str, to: tuple[str, str], document: dict[str, Any]
) -> dict[str, Any]:
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    call.access.need(call.caller, to[0], AccessRole.SUBMITTER)
    objects = call.access.objects
    conditions = conditions_of(call.query, SOURCE_CONDITION_KEYS)
    source, file = objects.open(call.bucket, name, conditions)
    try:
        target = Target(
            bucket=to[0],
            name=to[1],
            attributes=patch_attributes(source.attributes, document),
            conditions=conditions_of(call.query),
        )
        call.access.take(to[0], source.size)
        copied = copy(objects, source, file, target)
    finally:
        if file:
            file.close()
    return object_json(copied, call.base)


def _move_object(call: StorageCall, name: str, to: str) -> Response:
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    source = conditions_of(call.query, SOURCE_CONDITION_KEYS)
    moved = call.access.objects.move(call.bucket, name, to, source, conditions_of(call.query))
    return JSONResponse(object_json(moved, call.base))


def _compose_object(call: StorageCall, name: str, document: dict[str, Any]) -> Response:
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    sources, destination = compose_sources(document)
    target = Target(
        bucket=call.bucket,
        name=name,
        attributes=attributes_of(destination),
        conditions=conditions_of(call.query),
    )
    total = sum(call.access.objects.get(call.bucket, name, conditions, hashes=False).size
                for name, conditions in sources)  # fmt: skip
    call.access.take(call.bucket, total)
    stored = compose(call.access.objects, call.bucket, sources, target)
    return JSONResponse(object_json(stored, call.base))


def _name(call: StorageCall) -> str:
    """Return the object's name; unencoded slashes are accepted."""
    return "/".join(call.path_parts)


async def _stream(pieces: Iterator[bytes]) -> AsyncIterator[memoryview]:
    """Read large pieces in this API's threads, and yield them in small ones."""
    while piece := memoryview(await THREADS.run(next, pieces, b"")):
        for offset in range(0, len(piece), _WRITTEN_BYTES):
            yield piece[offset : offset + _WRITTEN_BYTES]


def _read(file: BinaryIO | None, first: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a range; close the file even if the reader stops early."""
    if file is None:
        return
    with file:
        file.seek(first)
        while first < end and (piece := file.read(min(PIECE_BYTES, end - first))):
            first += len(piece)
            yield piece


_BUCKETS = "/storage/v1/b"
_BUCKET = "/storage/v1/b/{bucket}"
_OBJECTS = "/storage/v1/b/{bucket}/o"
_OBJECT = "/storage/v1/b/{bucket}/o/{name:path}"

TABLE: Sequence[tuple[str, str, Handler]] = (
    ("GET", _BUCKETS, blocking(list_buckets)),
    ("POST", _BUCKETS, blocking(create_bucket)),
    ("GET", _BUCKET, blocking(get_bucket)),
    ("DELETE", _BUCKET, blocking(delete_bucket)),
    ("PATCH", _BUCKET, blocking(change_bucket)),
    ("PUT", _BUCKET, blocking(change_bucket)),
    ("GET", f"{_BUCKET}/storageLayout", blocking(storage_layout)),
    ("GET", f"{_BUCKET}/managedFolders", blocking(managed_folders)),
    ("POST", f"{_BUCKET}/managedFolders", blocking(no_managed_folder)),
    ("GET", f"{_BUCKET}/managedFolders/{{name:path}}", blocking(no_managed_folder)),
    ("DELETE", f"{_BUCKET}/managedFolders/{{name:path}}", blocking(no_managed_folder)),
    ("GET", f"{_BUCKET}/folders", blocking(no_folders)),
    ("POST", f"{_BUCKET}/folders", blocking(no_folders)),
    ("GET", _OBJECTS, blocking(list_objects)),
    ("GET", _OBJECT, blocking(get_object)),
    ("PATCH", _OBJECT, blocking(patch_object)),
    ("PUT", _OBJECT, blocking(update_object)),
    ("DELETE", _OBJECT, blocking(delete_object)),
    ("POST", _OBJECT, blocking(perform_action)),
    ("GET", f"/download{_OBJECT}", blocking(download)),
    # gcloud begins large uploads at this path (docs/sources/gcloud.md 4)
    *((verb, f"{root}{_OBJECTS}", handle)
      for root in ("/upload", "/resumable/upload")
      for verb, handle in (
          ("POST", upload), ("PUT", continue_upload), ("DELETE", blocking(cancel_upload)),
      )),
)  # fmt: skip


def storage_routes(
    objects: Objects,
    uploads: Uploads,
    store: BucketOwners,
    project_bytes: ProjectBytes | None = None,
) -> Sequence[RawMethod]:
    """Return the rows of the storage API; ``store`` has the projects of the buckets.

    A token prefix of a request's path is in ``root_path``; the links in responses keep it.
    """
    usage = project_bytes or ProjectBytes()
    access = BucketAccess(objects=objects, uploads=uploads, store=store, project_bytes=usage)
    return routes_over(access)


def routes_over(access: BucketAccess) -> Sequence[RawMethod]:
    """Return the rows for objects, with the given access rules."""
    return tuple(method(verb, path, access, handle) for verb, path, handle in TABLE)
