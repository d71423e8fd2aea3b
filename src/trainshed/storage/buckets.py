"""Resolves ``gs://BUCKET/path``: a bucket is a folder in the data directory.

Programs get the folder's path, because most trainers use ``open``; ``GsPaths.URI`` keeps gs:// for
programs that use a client of Cloud Storage.
"""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trainshed.model.faults import UsageFault

#: Modes of files and folders in a bucket, for jobs, which run as other users.  Users without jobs
#: have no access, because the data directory is private.
FILE_MODE = 0o664
FOLDER_MODE = 0o775

SCHEME = "gs://"
NAME_LENGTH_MAX = 222
LABEL_LENGTH_MAX = 63
#: Cloud Storage requires 3 characters.  Google's discovery client also sends gs://b/j
#: (docs/sources/vertex.md 7), so that this server accepts 1.
LENGTH_MIN = 1

#: Every dot-separated part of a bucket's name (Cloud Storage naming rules).
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?")
_IP_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")

BUCKET_RULE = "1 to 63 lower-case letters, digits, - and _; dots only between such parts"


class GsPaths(enum.Enum):
    """The form of a gs:// directory for programs: the folder's path, or the URI."""

    PATH = "path"
    URI = "uri"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """All buckets of one data directory."""

    root: Path

    def path_of(self, uri: str) -> Path:
        """Return the path of a gs:// URI.  Raises UsageFault for a malformed URI."""
        bucket, name = self.place_of(uri)
        return bucket / name

    def place_of(self, uri: str) -> tuple[Path, str]:
        """Return the folder of a gs:// URI's bucket, and the path below it.  Raises UsageFault."""
        bucket, name = split(uri)
        return self.root / bucket, "/".join(part for part in name.split("/") if part)


class RemoteBucket(NamedTuple):
    """The URI and the options with which fsspec opens a bucket."""

    uri: str
    options: Mapping[str, Any] = MappingProxyType({})
    """Options of fsspec's file system, such as credentials or an endpoint."""


def split(uri: str) -> tuple[str, str]:
    """Split ``gs://bucket/a/b`` into ``("bucket", "a/b")``.  Raises UsageFault if malformed.

    Refuses ``..`` in a name: Cloud Storage allows it, but in a folder it leads out of the bucket.
    """
    if not uri.startswith(SCHEME):
        raise UsageFault(f"{uri!r} is not a gs:// URI")
    bucket, _, name = uri.removeprefix(SCHEME).partition("/")
    if not is_bucket_name(bucket):
        raise UsageFault(f"{uri}: {bucket!r} is not a bucket name; it has {BUCKET_RULE}")
    if {".", ".."}.intersection(name.split("/")) or "\0" in name:
        raise UsageFault(f"{uri}: a path in a bucket has no '.' or '..' of its own")
    return bucket, name


def is_bucket_name(name: str) -> bool:
    """Whether Cloud Storage would accept the name."""
    labels = name.split(".")
    length_max = NAME_LENGTH_MAX if len(labels) > 1 else LABEL_LENGTH_MAX
    return (
        LENGTH_MIN <= len(name) <= length_max
        and all(_LABEL.fullmatch(part) and len(part) <= LABEL_LENGTH_MAX for part in labels)
        and not _IP_ADDRESS.fullmatch(name)
        and not name.startswith("goog")
    )


DATA_DIR_VARIABLE: Final = "TRAINSHED_DATA_DIR"


def data_dir(flag: str | None, environ: Mapping[str, str]) -> Path:
    """Return the data directory: the flag, TRAINSHED_DATA_DIR, or the XDG data folder."""
    if chosen := flag or environ.get(DATA_DIR_VARIABLE):
        return Path(chosen).expanduser().absolute()
    shared = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(shared).expanduser().absolute() / "trainshed"


def cache_dir(environ: Mapping[str, str]) -> Path | None:
    """Return the cache folder of packages from TRAINSHED_CACHE_DIR; None if it is not set."""
    chosen = environ.get("TRAINSHED_CACHE_DIR")
    return Path(chosen).expanduser().absolute() / "environments" if chosen else None


def buckets_of(folder: Path) -> Buckets:
    """Return the buckets of a data directory."""
    return Buckets(root=folder / "buckets")
