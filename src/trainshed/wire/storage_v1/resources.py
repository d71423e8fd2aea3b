"""Renders objects, buckets and their lists as the JSON API does."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

from trainshed.model.stored_objects import StoredObject
from trainshed.wire.storage_v1.requests import ATTRIBUTE_KEYS

DEFAULT_TYPE = "application/octet-stream"


def object_json(stored: StoredObject, base: str) -> dict[str, Any]:
    """Render an object.  ``base`` is the URL by which the caller reached the server, for links."""
    path = f"/storage/v1/b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    query = f"?generation={stored.generation}&alt=media"
    generation = str(stored.generation)
    document = {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{generation}",
        "selfLink": f"{base}{path}",
        "mediaLink": f"{base}/download{path}{query}",
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": generation,
        "metageneration": str(stored.metageneration),
        "storageClass": "STANDARD",
        "size": str(stored.size),
        "crc32c": stored.checksums.crc32c,
        "md5Hash": stored.checksums.md5,
        "etag": etag(stored),
        "timeCreated": timestamp(stored.created),
        "updated": timestamp(stored.updated),
        "timeStorageClassUpdated": timestamp(stored.created),
        "metadata": dict(stored.attributes.metadata),
    }
    attributes = {key: getattr(stored.attributes, name) for key, name in ATTRIBUTE_KEYS.items()}
    attributes["contentType"] = attributes["contentType"] or DEFAULT_TYPE
    return {key: value for key, value in (document | attributes).items() if value}


def download_headers(stored: StoredObject) -> dict[str, str]:
    """Return the headers of a download; checksums are of the whole object, also for a range."""
    sums, attributes = stored.checksums, stored.attributes
    hashes = {"crc32c": sums.crc32c, "md5": sums.md5}
    headers = {
        "Content-Type": attributes.content_type or DEFAULT_TYPE,
        "Cache-Control": attributes.cache_control,
        "Content-Disposition": attributes.content_disposition,
        "Content-Encoding": attributes.content_encoding,
        "Content-Language": attributes.content_language,
        "ETag": f'"{etag(stored)}"',
        "Last-Modified": format_datetime(stored.updated.astimezone(UTC), usegmt=True),
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",  # a stored page must not run scripts
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Stored-Content-Length": str(stored.size),
        "X-Goog-Stored-Content-Encoding": attributes.content_encoding or "identity",
        "X-Goog-Storage-Class": "STANDARD",
        "X-Goog-Hash": ",".join(f"{kind}={text}" for kind, text in hashes.items() if text),
    }
    # HTTP headers are Latin-1: keep the UTF-8 bytes of other characters
    return {key: text.encode().decode("latin-1") for key, text in headers.items() if text}


def etag(stored: StoredObject) -> str:
    """Return the ETag, which changes with the bytes and the attributes of an object."""
    return base64.b64encode(f"{stored.generation}/{stored.metageneration}".encode()).decode()


def object_list_json(
    items: Sequence[dict[str, Any]], prefixes: Sequence[str], next_page: str
) -> dict[str, Any]:
    """Render a page of objects and of prefixes for folders."""
    page: dict[str, Any] = {"kind": "storage#objects"}
    fields = {"nextPageToken": next_page, "prefixes": list(prefixes), "items": list(items)}
    return page | {key: value for key, value in fields.items() if value}


#: The location of every bucket; clients check only its form.
PLACE = {"location": "US", "locationType": "multi-region"}


def layout_json(name: str) -> dict[str, Any]:
    """Render the layout of a bucket, which has no hierarchical namespace."""
    flat = {"hierarchicalNamespace": {"enabled": False}}
    return {"kind": "storage#storageLayout", "bucket": name, **PLACE, **flat}


def bucket_json(name: str, number: str, created: datetime, base: str) -> dict[str, Any]:
    """Render a bucket.  ``number`` is its project's; empty if it has no project."""
    document = {
        "kind": "storage#bucket",
        "id": name,
        "name": name,
        "selfLink": f"{base}/storage/v1/b/{name}",
        "projectNumber": number,
        "generation": "1",
        "metageneration": "1",
        "etag": "CAE=",
        **PLACE,
        "storageClass": "STANDARD",
        "timeCreated": timestamp(created),
        "updated": timestamp(created),
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
    }
    return {key: value for key, value in document.items() if value}


def public_bucket_json(name: str) -> dict[str, Any]:
    """Render a public bucket, of which callers may know only that it exists."""
    return {"kind": "storage#bucket", "id": name, "name": name, **PLACE}


def bucket_list_json(items: Sequence[dict[str, Any]], next_page: str) -> dict[str, Any]:
    """Render a page of buckets."""
    page: dict[str, Any] = {"kind": "storage#buckets", "items": list(items)}
    return page | ({"nextPageToken": next_page} if next_page else {})


def rewrite_json(resource: dict[str, Any]) -> dict[str, Any]:
    """Render a rewrite that one request has completed."""
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": resource["size"],
        "objectSize": resource["size"],
        "done": True,
        "resource": resource,
    }


def timestamp(time: datetime) -> str:
    """Format a time as ``2026-11-21T00:02:39.120Z``; some clients require the fraction."""
    utc = time.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"
