"""Buckets as the storage API sees them: made, listed, deleted when empty.

Who a bucket belongs to is the store's business; whether there is one is a question to the disk,
since jobs and administrators make folders too.

What is known of an object besides its bytes is kept in small JSON files outside the bucket.  A
file's modification time in microseconds is its generation, so bytes and generation can never
disagree, and a file that a job wrote by itself has one too.  A note belongs to one generation: it
is ignored once somebody has written the file anew.  Checksums also want the same inode.
"""

import dataclasses
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trainshed.files.beneath import Beneath
from trainshed.files.trees import remove_tree
from trainshed.model.codec import decode, encode
from trainshed.model.json_reader import read_json
from trainshed.model.stored_objects import Attributes, Checksums
from trainshed.storage.buckets import buckets_of, is_bucket_name
from trainshed.storage.object_files import Walk, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What distinguishes two contents of one path."""

    mtime_ns: int
    size: int
    inode: int

    @property
    def generation(self) -> int:
        """The generation of an object with these bytes."""
        return self.mtime_ns // 1000


def fingerprint(stat: os.stat_result) -> Fingerprint:
    """The fingerprint of an open or closed file."""
    return Fingerprint(mtime_ns=stat.st_mtime_ns, size=stat.st_size, inode=stat.st_ino)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMetadata:
    """What was said and found out about one generation of an object."""

    name: str
    fingerprint: Fingerprint
    metageneration: int = 1
    created_ns: int
    updated_ns: int
    attributes: Attributes = field(default_factory=Attributes)
    checksums: Checksums = field(default_factory=Checksums)


#: No time that the file system gives is further from 1970, in nanoseconds.
_NS_MAX = 1 << 63


def note_of(data: bytes) -> ObjectMetadata:
    """The note in a file.  Raises ValueError where it is half written, or none that we write."""
    note = decode(ObjectMetadata, read_json(data))
    if max(abs(note.created_ns), abs(note.updated_ns), abs(note.fingerprint.mtime_ns)) >= _NS_MAX:
        raise ValueError("its times are none")
    return note


def unreadable_notes(data_dir: Path) -> Iterator[Path]:
    """The files of notes that cannot be read, in all buckets."""
    for path in sorted((data_dir / "objects").glob("*/??/*.json")):
        try:
            note_of(path.read_bytes())
        except FileNotFoundError:
            continue  # the object has gone meanwhile
        except (OSError, ValueError):
            yield path


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataStore:
    """The notes of one bucket."""

    folder: Path

    def of_file(self, name: str, now: Fingerprint) -> ObjectMetadata:
        """The note of a file as it is now; made up where there is none of this generation."""
        metadata = self.read(name)
        if metadata is None or metadata.fingerprint.generation != now.generation:
            return ObjectMetadata(
                name=name, fingerprint=now, created_ns=now.mtime_ns, updated_ns=now.mtime_ns
            )
        if metadata.fingerprint != now:
            return dataclasses.replace(metadata, fingerprint=now, checksums=Checksums())
        return metadata

    def read(self, name: str) -> ObjectMetadata | None:
        """The note that was written last, whatever has become of the file.

        One that cannot be read is none: the object is there without it, and the doctor says so.
        """
        try:
            note = note_of(self._path(name).read_bytes())
        except (OSError, ValueError):
            return None
        return note if note.name == name else None

    def write(self, note: ObjectMetadata) -> None:
        """Replace the note of a name."""
        path = self._path(note.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        half.write_text(json.dumps(encode(note)), encoding="ascii")
        half.replace(path)

    def drop(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        key = digest(name)
        return self.folder / key[:2] / f"{key}.json"


class BucketNotEmpty(Exception):
    """A bucket with objects is not deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFolders:
    """All buckets of one data directory."""

    data_dir: Path

    def path(self, bucket: str) -> Path:
        """Where a bucket lies; it need not be there."""
        return buckets_of(self.data_dir).root / bucket

    def opened(self, bucket: str) -> Beneath:
        """A bucket, to look below.  Raises OSError where there is none."""
        return Beneath(self.path(bucket))

    def notes(self, bucket: str) -> MetadataStore:
        """What is known of the bucket's objects."""
        return MetadataStore(folder=self.data_dir / "objects" / bucket)

    def walk(self, bucket: str) -> Walk:
        """The names in a bucket."""
        notes = self.notes(bucket)
        return Walk(root=self.path(bucket), is_placeholder=lambda n: notes.read(n) is not None)

    def has(self, bucket: str) -> bool:
        """Whether there is a bucket of this name."""
        return is_bucket_name(bucket) and self.path(bucket).is_dir()

    def names(self) -> Sequence[str]:
        """All buckets, in order."""
        root = buckets_of(self.data_dir).root
        names = (path.name for path in root.iterdir()) if root.is_dir() else ()
        return sorted(name for name in names if self.has(name))

    def since(self, bucket: str) -> datetime:
        """When the folder was made or last given a file, the best that a folder can tell."""
        return datetime.fromtimestamp(self.path(bucket).stat().st_mtime, UTC)

    def make(self, bucket: str) -> None:
        """Make a bucket's folder; it may be there already."""
        self.path(bucket).mkdir(parents=True, exist_ok=True)

    def drop(self, bucket: str) -> None:
        """Delete a bucket without objects; empty folders go with it.  Raises BucketNotEmpty."""
        if not self.walk(bucket).is_empty():
            raise BucketNotEmpty("The bucket you tried to delete is not empty.")
        folder = self.path(bucket)
        if folder.is_symlink():
            folder.unlink()
        else:
            remove_tree(folder)
        shutil.rmtree(self.notes(bucket).folder, ignore_errors=True)
