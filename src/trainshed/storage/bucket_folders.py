"""Buckets as the storage API sees them: made, listed, deleted when empty.

Who a bucket belongs to is the store's business; whether there is one is a question to the disk,
since jobs and administrators make folders too.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainshed.storage.buckets import buckets_of, is_bucket_name
from trainshed.storage.object_metadata import MetadataStore
from trainshed.storage.object_walk import Walk


class BucketNotEmpty(Exception):
    """A bucket with objects is not deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFolders:
    """All buckets of one data directory."""

    data_dir: Path

    def path(self, bucket: str) -> Path:
        """Where a bucket lies; it need not be there."""
        return buckets_of(self.data_dir).root / bucket

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
        found = (path.name for path in root.iterdir()) if root.is_dir() else ()
        return sorted(name for name in found if self.has(name))

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
            shutil.rmtree(folder)
        shutil.rmtree(self.notes(bucket).folder, ignore_errors=True)
