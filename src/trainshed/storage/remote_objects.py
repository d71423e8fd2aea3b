"""Reads and writes objects of local buckets and of buckets in other stores.

The server's writes of one name wait for each other, as in folders.  Other programs may write to the
other store at the same time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from trainshed.model.stored_objects import ALWAYS, Conditions, StoredObject
from trainshed.storage.bucket_folders import (
    BucketFolders,
    BucketNotEmpty,
    Fingerprint,
    ObjectMetadata,
)
from trainshed.storage.object_files import (
    Bounds,
    NameRefused,
    NoSuchObject,
    Walk,
    check_conditions,
    check_name,
)
from trainshed.storage.objects import Change, NewObject, Objects, stored_object
from trainshed.storage.remote import Remote, RemoteRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWalk(Walk):
    """The names in a remote bucket."""

    remote: Remote

    def names(self, bounds: Bounds, folder: str = "") -> Iterator[str]:
        """Yield names as the base class does, but list only folders below the prefix."""
        above, slash, _ = bounds.prefix.rpartition("/")
        return Walk.names(self, bounds, folder or above + slash)

    def _entries(self, folder: str) -> list[str]:
        return self.remote.entries(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsWithRemotes(BucketFolders):
    """All buckets; a bucket in another store hides a folder of the same name."""

    remotes: Mapping[str, Remote]

    def walk(self, bucket: str) -> Walk:
        """Return the walk over the names of a bucket's objects."""
        if remote := self.remotes.get(bucket):
            notes = self.notes(bucket)
            return RemoteWalk(
                root=self.path(bucket),
                is_placeholder=lambda name: notes.read(name) is not None,
                remote=remote,
            )
        return BucketFolders.walk(self, bucket)

    def has(self, bucket: str) -> bool:
        """Whether there is a bucket of this name."""
        return bucket in self.remotes or BucketFolders.has(self, bucket)

    def names(self) -> Sequence[str]:
        """Return the names of all buckets, sorted."""
        return sorted({*self.remotes, *BucketFolders.names(self)})

    def since(self, bucket: str) -> datetime:
        """Return the start of this server for a remote bucket, else as the base class does."""
        if remote := self.remotes.get(bucket):
            return remote.since
        return BucketFolders.since(self, bucket)

    def make(self, bucket: str) -> None:
        """Make the folder of a local bucket if it does not exist."""
        if bucket not in self.remotes:
            BucketFolders.make(self, bucket)

    def drop(self, bucket: str) -> None:
        """Delete a bucket without objects.  Raises BucketNotEmpty."""
        if bucket in self.remotes:
            message = f"The bucket {bucket} is in another store ([buckets] of the server)"
            raise BucketNotEmpty(f"{message}: an administrator must delete it in that store.")
        BucketFolders.drop(self, bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsWithRemotes(Objects):
    """All objects; also raises RemoteFailed and RemoteRefused."""

    remotes: Mapping[str, Remote]

    @property
    def buckets(self) -> BucketFolders:
        """The local and remote buckets."""
        return BucketsWithRemotes(data_dir=self.data_dir, remotes=self.remotes)

    def is_local(self, bucket: str) -> bool:
        """Whether the objects of a bucket are on a disk of the server's machine."""
        return bucket not in self.remotes

    def listed(self, bucket: str, name: str) -> StoredObject | None:
        """Return an object for a list, from a recent listing if possible; None if removed."""
        remote = self.remotes.get(bucket)
        return (remote and remote.listed(name)) or self.find(bucket, name)

    def open(
        self, bucket: str, name: str, conditions: Conditions = ALWAYS, *, hashes: bool = True
    ) -> tuple[StoredObject, BinaryIO | None]:
        """Return an object and its open file; the file is None for a folder's placeholder."""
        remote = self.remotes.get(bucket)
        if remote is None:
            return Objects.open(self, bucket, name, conditions, hashes=hashes)
        stored = self._placeholder(bucket, name) if name.endswith("/") else remote.look(name)
        check_conditions(conditions, stored)
        return stored, None if name.endswith("/") else remote.file(name, stored.size)

    def _placeholder(self, bucket: str, name: str) -> StoredObject:
        """Return a folder's placeholder, which is a local note: other stores have no folders."""
        note = self.buckets.notes(bucket).read(name)
        if note is None:
            raise NoSuchObject(f"No such object: {bucket}/{name}")
        return stored_object(bucket, note)

    def _commit_placeholder(self, new: NewObject) -> StoredObject:
        """Store the placeholder of a folder as a local note."""
        if new.file.stat().st_size:
            raise NameRefused(
                f"Invalid object name {new.name!r}: a name that ends with / must have no content"
            )
        now_ns = self.clock_ns()
        note = ObjectMetadata(
            name=new.name,
            fingerprint=Fingerprint(mtime_ns=now_ns, size=0, inode=0),
            created_ns=now_ns,
            updated_ns=now_ns,
            attributes=new.attributes,
            checksums=new.checksums,
        )
        self.buckets.notes(new.bucket).write(note)
        return stored_object(new.bucket, note)

    def commit(self, new: NewObject, conditions: Conditions = ALWAYS) -> StoredObject:
        """Store an object in a remote bucket, or as ``Objects`` does in a local one."""
        remote = self.remotes.get(new.bucket)
        if remote is None:
            return Objects.commit(self, new, conditions)
        check_name(new.name)
        with self._locked(new.bucket, new.name):
            check_conditions(conditions, self.find(new.bucket, new.name))
            if new.name.endswith("/"):
                stored = self._commit_placeholder(new)
            else:
                stored = remote.put(new.name, new.file, new.attributes)
        new.file.unlink()
        return stored

    def patch(
        self, bucket: str, name: str, change: Change, conditions: Conditions = ALWAYS
    ) -> StoredObject:
        """Change the metadata of an object.  Raises RemoteRefused for a remote bucket."""
        if bucket in self.remotes:
            message = f"The bucket {bucket} is in another store ([buckets] of the server)"
            raise RemoteRefused(f"{message}: the metadata of its objects cannot be changed")
        return Objects.patch(self, bucket, name, change, conditions)

    def delete(self, bucket: str, name: str, conditions: Conditions = ALWAYS) -> None:
        remote = self.remotes.get(bucket)
        if remote is None:
            Objects.delete(self, bucket, name, conditions)
            return
        with self._locked(bucket, name):
            self.get(bucket, name, conditions, hashes=False)
            if name.endswith("/"):
                self.buckets.notes(bucket).drop(name)
            else:
                remote.delete(name)

    def move(
        self, bucket: str, name: str, to: str, source: Conditions, target: Conditions
    ) -> StoredObject:
        """Rename an object within its bucket."""
        remote = self.remotes.get(bucket)
        if remote is None:
            return Objects.move(self, bucket, name, to, source, target)
        check_name(to)
        with self._locked(bucket, name, to):
            if name.endswith("/") or to.endswith("/"):
                raise NameRefused(
                    f"cannot move {name!r} to {to!r}: names that end with / are folders"
                )
            stored = self.get(bucket, name, source, hashes=False)
            check_conditions(target, self.find(bucket, to))
            return stored if name == to else remote.move(name, to)
