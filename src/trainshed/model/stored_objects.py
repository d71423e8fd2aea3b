"""What is kept in a bucket: objects and what their authors said about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What the author of an object said about it; kept beside the bytes, and may change alone."""

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
    """One object as it is now.

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
    """What a caller wants to be true before anything happens; None asks for nothing.

    Generation 0 stands for an object that is not there.  ``revision`` is the generation that is
    meant; any other one is not the object.
    """

    revision: int | None = None
    generation: int | None = None
    generation_not: int | None = None
    metageneration: int | None = None
    metageneration_not: int | None = None


#: Asks for nothing.
ALWAYS = Conditions()
