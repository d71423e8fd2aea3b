"""Renders documents of Cloud Storage's XML API: lists, errors, the copy of an object.

The documents are described at cloud.google.com/storage/docs/xml-api.  They are made from the
resources of the JSON API, so that both APIs have the same values.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>'
_NAMESPACE: Final = ' xmlns="http://doc.s3.amazonaws.com/2006-03-01"'
#: Characters that XML 1.0 cannot express.
_INEXPRESSIBLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: The default error code of each HTTP status.
CODES: Final[Mapping[int, str]] = {
    400: "InvalidArgument",
    401: "AuthenticationRequired",
    403: "AccessDenied",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    409: "Conflict",
    411: "MissingContentLength",
    412: "PreconditionFailed",
    416: "InvalidRange",
    501: "NotImplemented",
    503: "ServiceUnavailable",
    507: "InsufficientQuota",
}
NO_BUCKET: Final = "NoSuchBucket"
NOT_EMPTY: Final = "BucketNotEmpty"


def error_xml(code: str, message: str) -> str:
    return f"{_HEAD}<Error>{_tag('Code', code)}{_tag('Message', message)}</Error>"


def buckets_xml(buckets: Iterable[Mapping[str, Any]]) -> str:
    """Render the buckets of a project."""
    rows = (
        f"<Bucket>{_tag('Name', bucket['name'])}"
        f"{_tag('CreationDate', bucket['timeCreated'])}</Bucket>"
        for bucket in buckets
    )
    body = f"<Buckets>{''.join(rows)}</Buckets>"
    return f"{_HEAD}<ListAllMyBucketsResult{_NAMESPACE}>{body}</ListAllMyBucketsResult>"


def objects_xml(bucket: str, query: Mapping[str, str], page: Mapping[str, Any]) -> str:
    """Render a page of objects; ``list-type=2`` in the query selects the newer form."""
    items: Sequence[Mapping[str, Any]] = page.get("items", ())
    prefixes: Sequence[str] = page.get("prefixes", ())
    token = page.get("nextPageToken", "")
    is_new = query.get("list-type") == "2"
    parts = [_tag("Name", bucket), _tag("Prefix", query.get("prefix", ""))]
    if is_new:
        parts += _render_query(query, {"StartAfter": "start-after", "ContinuationToken": _TOKEN})
        parts.append(_tag("KeyCount", str(len(items) + len(prefixes))))
        parts += [_tag("NextContinuationToken", token)] if token else []
    else:
        parts.append(_tag("Marker", query.get("marker", "")))
        last = max((*(item["name"] for item in items), *prefixes), default="")
        parts += [_tag("NextMarker", last)] if token else []
    parts += _render_query(query, {"Delimiter": "delimiter", "MaxKeys": "max-keys"})
    parts.append(_tag("IsTruncated", "true" if token else "false"))
    parts += map(_content, items)
    parts += (f"<CommonPrefixes>{_tag('Prefix', prefix)}</CommonPrefixes>" for prefix in prefixes)
    return f"{_HEAD}<ListBucketResult{_NAMESPACE}>{''.join(parts)}</ListBucketResult>"


_TOKEN: Final = "continuation-token"  # noqa: S105  # a parameter's name


def copied_xml(resource: Mapping[str, Any]) -> str:
    """Render the result of a copy."""
    parts = _tag("ETag", etag_of(resource)) + _tag("LastModified", resource["updated"])
    return f"{_HEAD}<CopyObjectResult{_NAMESPACE}>{parts}</CopyObjectResult>"


def location_xml(location: str) -> str:
    """Render the location of a bucket."""
    return f"{_HEAD}<LocationConstraint{_NAMESPACE}>{escape(location)}</LocationConstraint>"


def stored_headers(resource: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a stored object; the XML API sends no document for it."""
    sums = (("crc32c", resource.get("crc32c")), ("md5", resource.get("md5Hash")))
    return {
        "ETag": etag_of(resource),
        "X-Goog-Generation": resource["generation"],
        "X-Goog-Metageneration": resource["metageneration"],
        "X-Goog-Hash": ",".join(f"{kind}={text}" for kind, text in sums if text),
        "X-Goog-Stored-Content-Length": resource.get("size", "0"),
    }


def etag_of(resource: Mapping[str, Any]) -> str:
    """Return the MD5 in hexadecimal, which clients of this API compare; else the JSON ETag."""
    md5 = resource.get("md5Hash")
    return f'"{base64.b64decode(md5).hex() if md5 else resource["etag"]}"'


def _content(resource: Mapping[str, Any]) -> str:
    parts = (
        ("Key", resource["name"]),
        ("Generation", resource["generation"]),
        ("MetaGeneration", resource["metageneration"]),
        ("LastModified", resource["updated"]),
        ("ETag", etag_of(resource)),
        ("Size", resource.get("size", "0")),
        ("StorageClass", resource["storageClass"]),
    )
    return f"<Contents>{''.join(_tag(*part) for part in parts)}</Contents>"


def _render_query(query: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    return [_tag(tag, query[name]) for tag, name in names.items() if name in query]


def _tag(name: str, text: str) -> str:
    return f"<{name}>{escape(_INEXPRESSIBLE.sub('�', text))}</{name}>"
