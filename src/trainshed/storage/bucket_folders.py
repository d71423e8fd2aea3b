"""Makes, lists and deletes buckets for the storage API.

The store knows the project of a bucket; the disk knows whether it exists, because jobs and
administrators make folders too.

The metadata of an object is in a small JSON file outside of the bucket.  A
file's modification time in microseconds is its generation, so bytes and generation can never
disagree, and a file that a job wrote by itself has one too.  A note belongs to one generation: it
is ignored once a program has written the file again.  Checksums also need the same inode.
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
    """Values that distinguish two contents of one path."""

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
    """The metadata of one generation of an object."""

    name: str
    fingerprint: Fingerprint
    metageneration: int = 1
    created_ns: int
    updated_ns: int
    attributes: Attributes = field(default_factory=Attributes)
    checksums: Checksums = field(default_factory=Checksums)


#: Times of files are nearer to 1970 than this, in nanoseconds.
_NS_MAX = 1 << 63


def note_of(data: bytes) -> ObjectMetadata:
    """Read the note in a file.  Raises ValueError for a damaged note or another file."""
    note = decode(ObjectMetadata, read_json(data))
    if max(abs(note.created_ns), abs(note.updated_ns), abs(note.fingerprint.mtime_ns)) >= _NS_MAX:
        raise ValueError("its times are out of range")
    return note


def unreadable_notes(data_dir: Path) -> Iterator[Path]:
    """Yield the unreadable files of notes in all buckets."""
    for path in sorted((data_dir / "objects").glob("*/??/*.json")):
        try:
            note_of(path.read_bytes())
        except FileNotFoundError:
            continue  # the object has gone meanwhile
        except (OSError, ValueError):
            yield path


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataStore:
    """The metadata of one bucket's objects: a file, here a note, for each object."""

    folder: Path

    def of_file(self, name: str, now: Fingerprint) -> ObjectMetadata:
        """Return the metadata of the present file; new metadata if this generation has none."""
        metadata = self.read(name)
        if metadata is None or metadata.fingerprint.generation != now.generation:
            return ObjectMetadata(
                name=name, fingerprint=now, created_ns=now.mtime_ns, updated_ns=now.mtime_ns
            )
        if metadata.fingerprint != now:
            return dataclasses.replace(metadata, fingerprint=now, checksums=Checksums())
        return metadata

    def read(self, name: str) -> ObjectMetadata | None:
        """Return the last note, even if a program has changed the file since.

        An unreadable note counts as missing: the object is listed without it, and the doctor
        reports it.
        """
        try:
            note = note_of(self._path(name).read_bytes())
        except (OSError, ValueError):
            return None
        return note if note.name == name else None

    def write(self, note: ObjectMetadata) -> None:
        """Store the metadata of an object in place of earlier metadata."""
        path = self._path(note.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        temporary.write_text(json.dumps(encode(note)), encoding="ascii")
        temporary.replace(path)

    def drop(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        key = digest(name)
        return self.folder / key[:2] / f"{key}.json"


class BucketNotEmpty(Exception):
    """The bucket has objects, so it cannot be deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFolders:
    """All buckets of one data directory."""

    data_dir: Path

    def path(self, bucket: str) -> Path:
        """Return the path of a bucket, which need not exist."""
        return buckets_of(self.data_dir).root / bucket

    def opened(self, bucket: str) -> Beneath:
        """Open a bucket's folder.  Raises OSError if there is none."""
        return Beneath(self.path(bucket))

    def notes(self, bucket: str) -> MetadataStore:
        """Return the notes of the bucket's objects."""
        return MetadataStore(folder=self.data_dir / "objects" / bucket)

    def walk(self, bucket: str) -> Walk:
        """Return the walk over the names in a bucket."""
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
        """Return the time of the folder's last change; its creation time is unknown."""
        return datetime.fromtimestamp(self.path(bucket).stat().st_mtime, UTC)

    def make(self, bucket: str) -> None:
        """Make a bucket's folder; it may be there already."""
        self.path(bucket).mkdir(parents=True, exist_ok=True)

    def drop(self, bucket: str) -> None:
        """Delete a bucket without objects, and its empty folders.  Raises BucketNotEmpty."""
        if not self.walk(bucket).is_empty():
            raise BucketNotEmpty("The bucket you tried to delete is not empty.")
        folder = self.path(bucket)
        if folder.is_symlink():
            folder.unlink()
        else:
            remove_tree(folder)
        shutil.rmtree(self.notes(bucket).folder, ignore_errors=True)
