"""Routes of buckets: list, create, get, delete."""

from typing import Any

from starlette.responses import JSONResponse, Response

from trainshed.api.storage_call import StorageCall, refusal
from trainshed.model.access import AccessRole
from trainshed.storage.buckets import BUCKET_RULE, is_bucket_name
from trainshed.wire.storage_v1.requests import BadStorageRequest, whole
from trainshed.wire.storage_v1.resources import bucket_json, bucket_list_json

PAGE_MAX = 1000


def list_buckets(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET /storage/v1/b?project=P``: the project's buckets, by name."""
    prefix, after = call.query.get("prefix", ""), call.query.get("pageToken", "")
    visible = call.access.visible(call.caller, call.query.get("project", ""))
    names = [name for name in visible if name.startswith(prefix) and name > after]
    size = max(1, min(whole(call.query, "maxResults") or PAGE_MAX, PAGE_MAX))
    page = [_bucket(call, name) for name in names[:size]]
    return JSONResponse(bucket_list_json(page, names[size - 1] if len(names) > size else ""))


def create_bucket(call: StorageCall, document: dict[str, Any]) -> Response:
    """``POST /storage/v1/b?project=P``; where it lies and how it ages is not for us to choose."""
    name = document.get("name")
    if not isinstance(name, str) or not is_bucket_name(name):
        raise BadStorageRequest(f"Invalid bucket name: {name!r}; a bucket has {BUCKET_RULE}")
    call.access.make(call.caller, name, call.query.get("project", ""))
    return JSONResponse(_bucket(call, name))


def get_bucket(call: StorageCall, _: dict[str, Any]) -> Response:
    """``GET /storage/v1/b/BUCKET``."""
    call.access.need(call.caller, call.bucket, AccessRole.VIEWER)
    return JSONResponse(_bucket(call, call.bucket))


def delete_bucket(call: StorageCall, _: dict[str, Any]) -> Response:
    """``DELETE /storage/v1/b/BUCKET``, an empty one; its name stays the project's."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    call.access.objects.buckets.drop(call.bucket)
    return Response(status_code=204)


def change_bucket(call: StorageCall, _: dict[str, Any]) -> Response:
    """``PATCH`` and ``PUT``: said plainly, rather than accepted and forgotten."""
    call.access.need(call.caller, call.bucket, AccessRole.SUBMITTER)
    return refusal(501, "A bucket is a folder here: labels, lifecycle, versions are not kept")


def _bucket(call: StorageCall, name: str) -> dict[str, Any]:
    number, since = call.access.about(name)
    return bucket_json(name, number, since, call.base)
