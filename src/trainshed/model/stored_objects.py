"""The objects of a bucket, and their attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes that the author of an object set; they may change without the bytes."""

    content_type: str = ""
    cache_control: str = ""
    content_disposition: str = ""
    content_encoding: str = ""
    content_language: str = ""
    custom_time: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksums:
    """CRC32C and MD5 of the bytes, in Base64 as the API writes them; empty where not known."""

    crc32c: str = ""
    md5: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """The current version of one object.

    ``generation`` changes with the bytes, ``metageneration`` with the attributes.
    """

    bucket: str
    name: str
    size: int
    generation: int
    metageneration: int
    created: datetime
    updated: datetime
    attributes: Attributes
    checksums: Checksums


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The preconditions of a caller's request; None means no condition.

    Generation 0 means that the object does not exist.  ``revision`` is the requested generation;
    another one counts as a missing object.
    """

    revision: int | None = None
    generation: int | None = None
    generation_not: int | None = None
    metageneration: int | None = None
    metageneration_not: int | None = None


#: No conditions.
ALWAYS = Conditions()
