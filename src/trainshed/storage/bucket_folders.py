"""Makes, lists and deletes buckets for the storage API.

The store knows the project of a bucket; the disk knows whether it exists, because jobs and
administrators make folders too.

The metadata of an object is in a small JSON file outside of the bucket, here called a note.  The
generation of an object is the modification time of its file, in microseconds.  So bytes and
generation always match, and a file that a job wrote without the API has a generation too.  A note
is of one generation: it is ignored once a program has written the file again.  Its checksums are
ignored as well if the inode differs.
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
        """The generation of the object: the modification time in microseconds."""
        return self.mtime_ns // 1000


def fingerprint(stat: os.stat_result) -> Fingerprint:
    """Return the fingerprint of a file from its status."""
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


#: The limit for times in notes, in nanoseconds before or after 1970.
_NS_MAX = 1 << 63


def note_of(data: bytes) -> ObjectMetadata:
    """Parse the content of a note.  Raises ValueError if it is damaged or no note."""
    note = decode(ObjectMetadata, read_json(data))
    if max(abs(note.created_ns), abs(note.updated_ns), abs(note.fingerprint.mtime_ns)) >= _NS_MAX:
        raise ValueError("the times of a note must fit in 64-bit nanoseconds")
    return note


def unreadable_notes(data_dir: Path) -> Iterator[Path]:
    """Yield the paths of the unreadable notes of all buckets."""
    for path in sorted((data_dir / "objects").glob("*/??/*.json")):
        try:
            note_of(path.read_bytes())
        except FileNotFoundError:
            continue  # the object was deleted meanwhile
        except (OSError, ValueError):
            yield path


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataStore:
    """The notes of one bucket's objects, one file per object."""

    folder: Path

    def of_file(self, name: str, fingerprint: Fingerprint) -> ObjectMetadata:
        """Return the metadata of a file; new metadata if its generation has none."""
        metadata = self.read(name)
        if metadata is None or metadata.fingerprint.generation != fingerprint.generation:
            mtime_ns = fingerprint.mtime_ns
            return ObjectMetadata(
                name=name, fingerprint=fingerprint, created_ns=mtime_ns, updated_ns=mtime_ns
            )
        if metadata.fingerprint != fingerprint:
            return dataclasses.replace(metadata, fingerprint=fingerprint, checksums=Checksums())
        return metadata

    def read(self, name: str) -> ObjectMetadata | None:
        """Return the note of an object, even if a program has changed the file since.

        Returns None without a readable note; the doctor reports unreadable notes.
        """
        try:
            note = note_of(self._path(name).read_bytes())
        except (OSError, ValueError):
            return None
        return note if note.name == name else None

    def write(self, note: ObjectMetadata) -> None:
        """Store the note of an object; replaces an earlier note."""
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
        """Open a bucket's folder.  Raises OSError if the bucket does not exist."""
        return Beneath(self.path(bucket))

    def notes(self, bucket: str) -> MetadataStore:
        """Return the store of the notes of a bucket's objects."""
        return MetadataStore(folder=self.data_dir / "objects" / bucket)

    def walk(self, bucket: str) -> Walk:
        """Return the walk over the names of a bucket's objects."""
        notes = self.notes(bucket)
        return Walk(root=self.path(bucket), is_placeholder=lambda n: notes.read(n) is not None)

    def has(self, bucket: str) -> bool:
        """Whether there is a bucket of this name."""
        return is_bucket_name(bucket) and self.path(bucket).is_dir()

    def names(self) -> Sequence[str]:
        """Return the names of all buckets, sorted."""
        root = buckets_of(self.data_dir).root
        names = (path.name for path in root.iterdir()) if root.is_dir() else ()
        return sorted(name for name in names if self.has(name))

    def since(self, bucket: str) -> datetime:
        """Return the time of the folder's last change, because its creation time is unknown."""
        return datetime.fromtimestamp(self.path(bucket).stat().st_mtime, UTC)

    def make(self, bucket: str) -> None:
        """Make a bucket's folder if it does not exist."""
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
