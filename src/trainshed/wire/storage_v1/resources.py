"""Objects, buckets and their lists as the JSON API writes them."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

from trainshed.model.stored_objects import StoredObject
from trainshed.wire.storage_v1.requests import ATTRIBUTE_KEYS

DEFAULT_TYPE = "application/octet-stream"


def object_json(found: StoredObject, base: str) -> dict[str, Any]:
    """An object.  ``base`` is this server as the caller reached it: clients follow the links."""
    path = f"/storage/v1/b/{found.bucket}/o/{quote(found.name, safe='')}"
    query = f"?generation={found.generation}&alt=media"
    generation = str(found.generation)
    document = {
        "kind": "storage#object",
        "id": f"{found.bucket}/{found.name}/{generation}",
        "selfLink": f"{base}{path}",
        "mediaLink": f"{base}/download{path}{query}",
        "name": found.name,
        "bucket": found.bucket,
        "generation": generation,
        "metageneration": str(found.metageneration),
        "storageClass": "STANDARD",
        "size": str(found.size),
        "crc32c": found.checksums.crc32c,
        "md5Hash": found.checksums.md5,
        "etag": etag(found),
        "timeCreated": timestamp(found.created),
        "updated": timestamp(found.updated),
        "timeStorageClassUpdated": timestamp(found.created),
        "metadata": dict(found.attributes.metadata),
    }
    given = {key: getattr(found.attributes, name) for key, name in ATTRIBUTE_KEYS.items()}
    given["contentType"] = given["contentType"] or DEFAULT_TYPE
    return {key: value for key, value in (document | given).items() if value}


def download_headers(found: StoredObject) -> dict[str, str]:
    """The headers of a download; checksums are those of all bytes, also for a range."""
    sums, given = found.checksums, found.attributes
    hashes = {"crc32c": sums.crc32c, "md5": sums.md5}
    headers = {
        "Content-Type": given.content_type or DEFAULT_TYPE,
        "Cache-Control": given.cache_control,
        "Content-Disposition": given.content_disposition,
        "Content-Encoding": given.content_encoding,
        "Content-Language": given.content_language,
        "ETag": f'"{etag(found)}"',
        "Last-Modified": format_datetime(found.updated.astimezone(UTC), usegmt=True),
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",  # a stored page must not act as a page of ours
        "X-Goog-Generation": str(found.generation),
        "X-Goog-Metageneration": str(found.metageneration),
        "X-Goog-Stored-Content-Length": str(found.size),
        "X-Goog-Stored-Content-Encoding": given.content_encoding or "identity",
        "X-Goog-Storage-Class": "STANDARD",
        "X-Goog-Hash": ",".join(f"{kind}={text}" for kind, text in hashes.items() if text),
    }
    # headers are Latin-1 on their way; this keeps the bytes of what is not
    return {key: text.encode().decode("latin-1") for key, text in headers.items() if text}


def etag(found: StoredObject) -> str:
    """A text that changes with the bytes and with the attributes."""
    return base64.b64encode(f"{found.generation}/{found.metageneration}".encode()).decode()


def object_list_json(
    items: Sequence[dict[str, Any]], prefixes: Sequence[str], next_page: str
) -> dict[str, Any]:
    """A page of objects, and of what stands for folders."""
    page: dict[str, Any] = {"kind": "storage#objects"}
    found = {"nextPageToken": next_page, "prefixes": list(prefixes), "items": list(items)}
    return page | {key: value for key, value in found.items() if value}


#: Where a bucket is said to be: clients check the form, and nothing here depends on it.
PLACE = {"location": "US", "locationType": "multi-region"}


def layout_json(name: str) -> dict[str, Any]:
    """How a bucket's names are kept, as clients see it: without folders that are resources."""
    flat = {"hierarchicalNamespace": {"enabled": False}}
    return {"kind": "storage#storageLayout", "bucket": name, **PLACE, **flat}


def bucket_json(name: str, number: str, created: datetime, base: str) -> dict[str, Any]:
    """A bucket.  ``number`` is its project's; empty where it belongs to nobody."""
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
    """A bucket of which anybody may know only that it is there."""
    return {"kind": "storage#bucket", "id": name, "name": name, **PLACE}


def bucket_list_json(items: Sequence[dict[str, Any]], next_page: str) -> dict[str, Any]:
    """A page of buckets."""
    page: dict[str, Any] = {"kind": "storage#buckets", "items": list(items)}
    return page | ({"nextPageToken": next_page} if next_page else {})


def rewrite_json(found: dict[str, Any]) -> dict[str, Any]:
    """A rewrite that was done in one go."""
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": found["size"],
        "objectSize": found["size"],
        "done": True,
        "resource": found,
    }


def timestamp(time: datetime) -> str:
    """``2026-11-21T00:02:39.120Z``; always with a fraction, which some readers insist on."""
    utc = time.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"
