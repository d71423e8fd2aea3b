"""Parses requests of the storage API, and renders the error of a malformed one."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from trainshed.model.json_reader import BadJson, read_object
from trainshed.model.stored_objects import Attributes, Checksums, Conditions
from trainshed.wire.status import MESSAGE_BYTES_MAX, shorten_text

#: The ``reason`` of an error by HTTP status, as at Google.
REASONS = {
    400: "invalid",
    401: "authError",
    403: "forbidden",
    404: "notFound",
    409: "conflict",
    412: "conditionNotMet",
    416: "requestedRangeNotSatisfiable",
    499: "clientClosedRequest",
    501: "notImplemented",
    503: "backendError",
    507: "insufficientStorage",
}


class BadStorageRequest(Exception):
    """A malformed request; the message is for the caller."""


def error_json(code: int, message: str) -> dict[str, Any]:
    """Return an error in the form of the storage API, whose message clients print."""
    reason = REASONS.get(code, "invalid" if code < 500 else "backendError")  # noqa: PLR2004 -- HTTP
    message = shorten_text(message, MESSAGE_BYTES_MAX)
    return {
        "error": {
            "code": code,
            "message": message,
            "errors": [{"message": message, "domain": "global", "reason": reason}],
        }
    }


def document_of(text: bytes, subject: str) -> dict[str, Any]:
    """Parse the JSON object of a body or part; a blank text is an empty object.

    ``subject`` names it in the error.  Raises BadStorageRequest.
    """
    try:
        return read_object(text)
    except BadJson as error:
        raise BadStorageRequest(f"{subject} must be a JSON object: {error}") from None


_CONTENT = re.compile(r"bytes\s+(?:(\d{1,18})-(\d{1,18})|\*)\s*/\s*(?:(\d{1,18})|\*)", re.ASCII)
_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRange:
    """The range of a piece of a resumable upload: bytes ``first`` to ``last`` of ``total``.

    ``first`` and ``last`` are None without bytes: in a status query (``bytes */10``), or at the end
    of an upload whose size was unknown.  ``total`` is None while the size is unknown.
    """

    first: int | None
    last: int | None
    total: int | None


def content_range(header: str) -> ContentRange:
    """Parse ``bytes 0-5/10``, ``bytes 0-5/*``, ``bytes */10`` or ``bytes */*``.

    Raises BadStorageRequest.
    """
    match = _CONTENT.fullmatch(header.strip())
    if match is None:
        raise BadStorageRequest(f"Content-Range must be as in bytes 0-5/10, got {header!r}")
    first, last, total = (int(part) if part is not None else None for part in match.groups())
    if (
        first is not None
        and last is not None
        and not first <= last < (last + 1 if total is None else total)
    ):
        raise BadStorageRequest(f"Content-Range must have first <= last < size, got {header!r}")
    return ContentRange(first=first, last=last, total=total)


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the half-open range of a Range header; None for the whole object.

    A header with several ranges returns None, which HTTP allows.  An empty range (start = end)
    means that the requested range cannot be satisfied.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    first = int(match[1])
    end = min(size, int(match[2]) + 1) if match[2] else size
    if match[2] and int(match[2]) < first:
        return None
    return (first, end) if first < end else (size, size)


#: The attribute of ``Attributes`` for each field of the object resource.
ATTRIBUTE_KEYS = {
    "contentType": "content_type",
    "cacheControl": "cache_control",
    "contentDisposition": "content_disposition",
    "contentEncoding": "content_encoding",
    "contentLanguage": "content_language",
    "customTime": "custom_time",
}

#: The field of ``Conditions`` for each query parameter.
CONDITION_KEYS = {
    "generation": "revision",
    "ifGenerationMatch": "generation",
    "ifGenerationNotMatch": "generation_not",
    "ifMetagenerationMatch": "metageneration",
    "ifMetagenerationNotMatch": "metageneration_not",
}

#: The same for conditions on the source of a copy or a move.
SOURCE_CONDITION_KEYS = {
    "sourceGeneration": "revision",
    "ifSourceGenerationMatch": "generation",
    "ifSourceGenerationNotMatch": "generation_not",
    "ifSourceMetagenerationMatch": "metageneration",
    "ifSourceMetagenerationNotMatch": "metageneration_not",
}

#: The number of bytes of each kind of checksum.
_HASH_SIZES = {"crc32c": 4, "md5": 16}
_WHOLE_DIGITS_MAX = 18


def patch_attributes(before: Attributes, document: Mapping[str, Any]) -> Attributes:
    """Return the attributes after a PATCH: null removes one, absent fields do not change.

    Fields that are not attributes (``size``, ``storageClass``, ``acl`` ...) are ignored, because
    clients send whole resources back.
    """
    changes = {
        name: _line(key, document[key]) for key, name in ATTRIBUTE_KEYS.items() if key in document
    }
    metadata = dict(before.metadata)
    if "metadata" in document:
        metadata = _metadata(metadata, document["metadata"])
    return replace(before, metadata=metadata, **changes)


def attributes_of(document: Mapping[str, Any], content_type: str = "") -> Attributes:
    """Return the attributes of a new object; ``content_type`` is the default."""
    attributes = patch_attributes(Attributes(), document)
    return attributes if attributes.content_type else replace(attributes, content_type=content_type)


def checksums_of(document: Mapping[str, Any]) -> Checksums:
    """Return the checksums in the caller's document.  Raises BadStorageRequest."""
    return Checksums(
        crc32c=_checksum("crc32c", document.get("crc32c")),
        md5=_checksum("md5", document.get("md5Hash")),
    )


def header_checksums(header: str) -> Checksums:
    """Parse an ``x-goog-hash`` header: ``crc32c=n03x6A==,md5=...``."""
    claims = [part.strip().partition("=") for part in header.split(",") if part.strip()]
    checksums = {key.strip(): _checksum(key.strip(), value) for key, _, value in claims}
    return Checksums(crc32c=checksums.get("crc32c", ""), md5=checksums.get("md5", ""))


def conditions_of(
    query: Mapping[str, str], keys: Mapping[str, str] = MappingProxyType(CONDITION_KEYS)
) -> Conditions:
    """Return the conditions in a query; ``keys`` is the field of each parameter."""
    return Conditions(**{name: whole(query, key) for key, name in keys.items()})


#: The limit of Cloud Storage.
SOURCES_MAX = 32


def compose_sources(
    document: Mapping[str, Any],
) -> tuple[list[tuple[str, Conditions]], dict[str, Any]]:
    """Return the sources with their conditions, and the metadata of the composed object."""
    sources, destination = document.get("sourceObjects"), document.get("destination") or {}
    if not isinstance(sources, list) or not sources or not isinstance(destination, dict):
        raise BadStorageRequest(
            "sourceObjects of a compose request must be a list of objects with a name"
        )
    if len(sources) > SOURCES_MAX:
        raise BadStorageRequest(
            f"The number of source components provided ({len(sources)}) exceeds the maximum "
            f"({SOURCES_MAX}); compose in several steps"
        )
    return [_source(source) for source in sources], destination


def _source(source: Any) -> tuple[str, Conditions]:
    """Return the name and the conditions of a source.  Raises BadStorageRequest."""
    if not isinstance(source, dict) or not isinstance(source.get("name"), str):
        raise BadStorageRequest(
            "sourceObjects of a compose request must be a list of objects with a name"
        )
    preconditions = source.get("objectPreconditions") or {}
    texts = (
        {"generation": source.get("generation"), **preconditions}
        if isinstance(preconditions, dict)
        else {}
    )
    return source["name"], conditions_of({k: str(v) for k, v in texts.items() if v is not None})


def whole(query: Mapping[str, str], key: str) -> int | None:
    """Return a whole number of a query, or None.  Raises BadStorageRequest for another value."""
    text = query.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _WHOLE_DIGITS_MAX:
        raise BadStorageRequest(f"Invalid value for {key}: {text!r} is not a whole number")
    return int(text)


def _metadata(before: dict[str, str], changes: Any) -> dict[str, str]:
    if changes is None:
        return {}
    if not isinstance(changes, dict):
        raise BadStorageRequest("Invalid value for metadata: it must be a map of strings")
    texts = {key: _text(f"metadata.{key}", value) for key, value in changes.items()}
    removed = {key for key, value in changes.items() if value is None}
    return {key: value for key, value in (before | texts).items() if key not in removed}


def _text(key: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadStorageRequest(f"Invalid value for {key}: it must be a string")
    return value


def _line(key: str, value: Any) -> str:
    """Return a text that can be a header of a download.  Raises BadStorageRequest."""
    text = _text(key, value)
    if not text.isprintable():
        raise BadStorageRequest(f"Invalid value for {key}: it must have only printable characters")
    return text


def _checksum(kind: str, value: Any) -> str:
    """Return a checksum in Base64; empty for None.  Raises BadStorageRequest."""
    if value in (None, "") or kind not in _HASH_SIZES:
        return ""
    try:
        is_valid = len(base64.b64decode(_text(kind, value), validate=True)) == _HASH_SIZES[kind]
    except (binascii.Error, ValueError):
        is_valid = False
    if not is_valid:
        raise BadStorageRequest(
            f"Invalid value for {kind}: it must be {_HASH_SIZES[kind]} bytes in Base64, "
            f"got {value!r}"
        )
    return str(value)
