"""The objects of all buckets: files in folders, the same for jobs and clients of the API.

A file that a job has written is an object, and an object that the API has stored is a file.  All
calls block; several threads and several servers may make them.
"""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from trainshed.files.beneath import Beneath
from trainshed.model.stored_objects import ALWAYS, Attributes, Checksums, Conditions, StoredObject
from trainshed.storage.bucket_folders import BucketFolders, Fingerprint, ObjectMetadata, fingerprint
from trainshed.storage.object_files import (
    NameRefused,
    NoSuchObject,
    check_conditions,
    check_name,
    is_object_name,
    locked,
    none_means,
    place,
    room,
)
from trainshed.storage.object_hashes import crc32c_of

HASH_BYTES_MAX = 1 << 30
"""The checksum of a larger file that a job wrote is left out: computing it takes too long."""

Change = Callable[[Attributes], Attributes]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObject:
    """A new object: its finished file, which is moved, and its metadata."""

    bucket: str
    name: str
    file: Path
    attributes: Attributes = field(default_factory=Attributes)
    checksums: Checksums = field(default_factory=Checksums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """All objects of one data directory."""

    data_dir: Path
    clock_ns: Callable[[], int] = time.time_ns

    @property
    def buckets(self) -> BucketFolders:
        """The buckets that the objects are in."""
        return BucketFolders(data_dir=self.data_dir)

    def get(
        self, bucket: str, name: str, conditions: Conditions = ALWAYS, *, hashes: bool = True
    ) -> StoredObject:
        """Return an object; ``hashes`` computes the CRC32C of a file that a job wrote.

        Raises NoSuchObject and ConditionFailed.
        """
        stored, file = self.open(bucket, name, conditions, hashes=hashes)
        if file:
            file.close()
        return stored

    def open(
        self, bucket: str, name: str, conditions: Conditions = ALWAYS, *, hashes: bool = True
    ) -> tuple[StoredObject, BinaryIO | None]:
        """Return an object and its open bytes, which later writes do not change.

        The second value is None for the placeholder of a folder, which has no bytes.
        """
        stored, file = self._look(bucket, name)
        with contextlib.ExitStack() as on_error:
            if file:
                on_error.enter_context(file)
            check_conditions(conditions, stored)
            if hashes and file and not stored.checksums.crc32c and stored.size <= HASH_BYTES_MAX:
                stored = self._with_hash(stored, file)
            on_error.pop_all()
        return stored, file

    def is_here(self, bucket: str) -> bool:
        """Whether its bytes are on this machine's disk."""
        del bucket
        return True

    def listed(self, bucket: str, name: str) -> StoredObject | None:
        """Return an object of a listing; None if it was removed."""
        return self.find(bucket, name)

    def find(self, bucket: str, name: str) -> StoredObject | None:
        """Return an object without reading its bytes; None if there is none."""
        with contextlib.suppress(NoSuchObject):
            return self.get(bucket, name, hashes=False)
        return None

    def commit(self, new: NewObject, conditions: Conditions = ALWAYS) -> StoredObject:
        """Store an object atomically.

        Raises NameRefused, ConditionFailed, and OSError where the disk refuses.
        """
        check_name(new.name)
        with self._locked(new.bucket, new.name):
            before = self.find(new.bucket, new.name)
            check_conditions(conditions, before)
            with Beneath(new.file.parent) as source:
                return self._commit(new, before, source, new.file.name)

    def patch(
        self, bucket: str, name: str, change: Change, conditions: Conditions = ALWAYS
    ) -> StoredObject:
        """Change the metadata of an object; its bytes and its generation stay."""
        with self._locked(bucket, name):
            stored = self.get(bucket, name, conditions, hashes=False)
            note = replace(
                self._note(stored),
                attributes=change(stored.attributes),
                metageneration=stored.metageneration + 1,
                updated_ns=self.clock_ns(),
            )
            self.buckets.notes(bucket).write(note)
        return self.get(bucket, name)

    def delete(self, bucket: str, name: str, conditions: Conditions = ALWAYS) -> None:
        """Delete an object.  Raises NoSuchObject, ConditionFailed.

        Folders stay, also empty ones: the job that made them may be going to write there.
        """
        with self._locked(bucket, name):
            self.get(bucket, name, conditions, hashes=False)
            with (
                none_means(f"{bucket}/{name}"),
                self.buckets.opened(bucket) as folder,
                folder.parent(name.rstrip("/")) as (above, leaf),
            ):
                if name.endswith("/"):
                    with contextlib.suppress(OSError):  # there is something in it
                        os.rmdir(leaf, dir_fd=above)
                else:
                    os.unlink(leaf, dir_fd=above)
            self.buckets.notes(bucket).drop(name)

    def move(
        self, bucket: str, name: str, to: str, source: Conditions, target: Conditions
    ) -> StoredObject:
        """Give a file another name at once; the conditions are on the old and the new name."""
        check_name(to)
        with self._locked(bucket, name, to):
            stored = self.get(bucket, name, source, hashes=False)
            before = self.find(bucket, to)
            check_conditions(target, before)
            if name.endswith("/") or to.endswith("/"):
                raise NameRefused(
                    f"cannot move {name!r} to {to!r}: a name that ends with / is that of a folder"
                )
            if name == to:
                return stored
            new = NewObject(
                bucket=bucket,
                name=to,
                file=self.buckets.path(bucket) / name,
                attributes=stored.attributes,
                checksums=stored.checksums,
            )
            with none_means(f"{bucket}/{name}"), self.buckets.opened(bucket) as folder:
                moved = self._commit(new, before, folder, name)
            self.buckets.notes(bucket).drop(name)
        return moved

    def _commit(
        self, new: NewObject, before: StoredObject | None, source: Beneath, file: str
    ) -> StoredObject:
        if new.name.endswith("/") and source.stat(file).st_size:
            raise NameRefused(f"Invalid object name {new.name!r}: a folder here has no bytes")
        mtime_ns = max(self.clock_ns(), (before.generation + 1) * 1000 if before else 0)
        walk = self.buckets.walk(new.bucket)
        with self.buckets.opened(new.bucket) as bucket, room(walk, bucket, new.name) as end:
            if new.name.endswith("/"):
                mark = replace(fingerprint(source.stat(file)), mtime_ns=mtime_ns)
            else:
                mark = fingerprint(place(source, file, end, mtime_ns))
        note = ObjectMetadata(
            name=new.name,
            fingerprint=mark,
            created_ns=mark.mtime_ns,
            updated_ns=mark.mtime_ns,
            attributes=new.attributes,
            checksums=new.checksums,
        )
        self.buckets.notes(new.bucket).write(note)
        return stored_object(new.bucket, note)

    def _look(self, bucket: str, name: str) -> tuple[StoredObject, BinaryIO | None]:
        notes = self.buckets.notes(bucket)
        with none_means(f"{bucket}/{name}"), self.buckets.opened(bucket) as folder:
            if not is_object_name(name):
                raise NoSuchObject(f"No such object: {bucket}/{name}")
            if not name.endswith("/"):
                file = folder.read(name)
                return stored_object(bucket, notes.of_file(name, _mark(file))), file
            with folder.folder(name.rstrip("/")):
                note = notes.read(name)
        if note is None:
            raise NoSuchObject(f"No such object: {bucket}/{name}")
        return stored_object(bucket, note), None

    def _with_hash(self, stored: StoredObject, file: BinaryIO) -> StoredObject:
        """Compute and store the checksum of a file that a job wrote."""
        mark = _mark(file)
        checksums = Checksums(crc32c=crc32c_of(file))
        file.seek(0)
        if _mark(file) != mark:
            return stored  # it is being written, so a checksum would be wrong
        with self._locked(stored.bucket, stored.name), contextlib.suppress(NoSuchObject, OSError):
            note = self._note(stored)
            if note.fingerprint == mark and not note.checksums.crc32c:
                self.buckets.notes(stored.bucket).write(replace(note, checksums=checksums))
        return replace(stored, checksums=checksums)

    def _note(self, stored: StoredObject) -> ObjectMetadata:
        """Return the note of the present file.  The caller holds the lock of the object."""
        notes = self.buckets.notes(stored.bucket)
        placeholder = notes.read(stored.name) if stored.name.endswith("/") else None
        if placeholder is not None:
            return placeholder
        with none_means(stored.name), self.buckets.opened(stored.bucket) as bucket:
            return notes.of_file(stored.name, fingerprint(bucket.stat(stored.name.rstrip("/"))))

    def _locked(self, bucket: str, *names: str) -> contextlib.AbstractContextManager[None]:
        return locked(self.data_dir / "objects" / ".locks", *(f"{bucket}/{n}" for n in names))


def _mark(file: BinaryIO) -> Fingerprint:
    return fingerprint(os.fstat(file.fileno()))


def stored_object(bucket: str, note: ObjectMetadata) -> StoredObject:
    """Return the object that a note describes."""
    return StoredObject(
        bucket=bucket,
        name=note.name,
        size=note.fingerprint.size,
        generation=note.fingerprint.generation,
        metageneration=note.metageneration,
        created=_time(note.created_ns),
        updated=_time(note.updated_ns),
        attributes=note.attributes,
        checksums=note.checksums,
    )


def _time(stamp_ns: int) -> datetime:
    return datetime.fromtimestamp(stamp_ns / 1e9, UTC)
