"""Reads and writes the objects of all buckets, which are files in folders.

A file that a job has written is an object, and an object that the API has stored is a file.  All
calls block; several threads and several servers may call them.
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
    missing_is_no_object,
    move_into,
    object_folder,
)
from trainshed.storage.object_hashes import crc32c_of

HASH_BYTES_MAX = 1 << 30
"""The largest file of a job whose checksum is computed; a larger file would take too long."""

Change = Callable[[Attributes], Attributes]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObject:
    """A new object: its metadata, and its finished file, which ``Objects.commit`` moves."""

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
        """The folders of the buckets."""
        return BucketFolders(data_dir=self.data_dir)

    def get(
        self, bucket: str, name: str, conditions: Conditions = ALWAYS, *, hashes: bool = True
    ) -> StoredObject:
        """Return an object; with ``hashes`` its CRC32C is computed if it is unknown.

        Raises NoSuchObject and ConditionFailed.
        """
        stored, file = self.open(bucket, name, conditions, hashes=hashes)
        if file:
            file.close()
        return stored

    def open(
        self, bucket: str, name: str, conditions: Conditions = ALWAYS, *, hashes: bool = True
    ) -> tuple[StoredObject, BinaryIO | None]:
        """Return an object and its open file, which later writes do not change.

        The file is None for the placeholder of a folder, which has no bytes.  Raises NoSuchObject
        and ConditionFailed.
        """
        stored, file = self._open(bucket, name)
        with contextlib.ExitStack() as on_error:
            if file:
                on_error.enter_context(file)
            check_conditions(conditions, stored)
            if hashes and file and not stored.checksums.crc32c and stored.size <= HASH_BYTES_MAX:
                stored = self._with_hash(stored, file)
            on_error.pop_all()
        return stored, file

    def is_local(self, bucket: str) -> bool:
        """Whether the objects of a bucket are on a disk of the server's machine."""
        del bucket
        return True

    def listed(self, bucket: str, name: str) -> StoredObject | None:
        """Return an object for a list; None if it was removed meanwhile."""
        return self.find(bucket, name)

    def find(self, bucket: str, name: str) -> StoredObject | None:
        """Return an object without reading its bytes; None if it does not exist."""
        with contextlib.suppress(NoSuchObject):
            return self.get(bucket, name, hashes=False)
        return None

    def commit(self, new: NewObject, conditions: Conditions = ALWAYS) -> StoredObject:
        """Store an object atomically.

        Raises NameRefused, ConditionFailed, and OSError if the disk fails.
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
        """Change an object's metadata, not its bytes or generation.

        Raises NoSuchObject and ConditionFailed.
        """
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
        """Delete an object.  Raises NoSuchObject and ConditionFailed.

        Keeps empty folders, because the job that made a folder may still write to it.
        """
        with self._locked(bucket, name):
            self.get(bucket, name, conditions, hashes=False)
            with (
                missing_is_no_object(f"{bucket}/{name}"),
                self.buckets.opened(bucket) as folder,
                folder.parent(name.rstrip("/")) as (above, leaf),
            ):
                if name.endswith("/"):
                    with contextlib.suppress(OSError):  # the folder contains files
                        os.rmdir(leaf, dir_fd=above)
                else:
                    os.unlink(leaf, dir_fd=above)
            self.buckets.notes(bucket).drop(name)

    def move(
        self, bucket: str, name: str, to: str, source: Conditions, target: Conditions
    ) -> StoredObject:
        """Rename an object within its bucket; ``source`` and ``target`` are the conditions.

        Raises NameRefused, NoSuchObject and ConditionFailed.
        """
        check_name(to)
        with self._locked(bucket, name, to):
            stored = self.get(bucket, name, source, hashes=False)
            before = self.find(bucket, to)
            check_conditions(target, before)
            if name.endswith("/") or to.endswith("/"):
                raise NameRefused(
                    f"cannot move {name!r} to {to!r}: names that end with / are folders"
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
            with missing_is_no_object(f"{bucket}/{name}"), self.buckets.opened(bucket) as folder:
                moved = self._commit(new, before, folder, name)
            self.buckets.notes(bucket).drop(name)
        return moved

    def _commit(
        self, new: NewObject, before: StoredObject | None, source: Beneath, file: str
    ) -> StoredObject:
        """Move the file of a new object into its bucket, and write its note."""
        if new.name.endswith("/") and source.stat(file).st_size:
            raise NameRefused(
                f"Invalid object name {new.name!r}: a name that ends with / must have no content"
            )
        mtime_ns = max(self.clock_ns(), (before.generation + 1) * 1000 if before else 0)
        walk = self.buckets.walk(new.bucket)
        with (
            self.buckets.opened(new.bucket) as bucket,
            object_folder(walk, bucket, new.name) as target,
        ):
            if new.name.endswith("/"):
                file_fingerprint = replace(fingerprint(source.stat(file)), mtime_ns=mtime_ns)
            else:
                file_fingerprint = fingerprint(move_into(source, file, target, mtime_ns))
        note = ObjectMetadata(
            name=new.name,
            fingerprint=file_fingerprint,
            created_ns=file_fingerprint.mtime_ns,
            updated_ns=file_fingerprint.mtime_ns,
            attributes=new.attributes,
            checksums=new.checksums,
        )
        self.buckets.notes(new.bucket).write(note)
        return stored_object(new.bucket, note)

    def _open(self, bucket: str, name: str) -> tuple[StoredObject, BinaryIO | None]:
        """Return an object and its open file, None for a placeholder.  Raises NoSuchObject."""
        notes = self.buckets.notes(bucket)
        with missing_is_no_object(f"{bucket}/{name}"), self.buckets.opened(bucket) as folder:
            if not is_object_name(name):
                raise NoSuchObject(f"No such object: {bucket}/{name}")
            if not name.endswith("/"):
                file = folder.read(name)
                return stored_object(bucket, notes.of_file(name, _fingerprint_of(file))), file
            with folder.folder(name.rstrip("/")):
                note = notes.read(name)
        if note is None:
            raise NoSuchObject(f"No such object: {bucket}/{name}")
        return stored_object(bucket, note), None

    def _with_hash(self, stored: StoredObject, file: BinaryIO) -> StoredObject:
        """Return an object with its checksum, which is computed and stored."""
        file_fingerprint = _fingerprint_of(file)
        checksums = Checksums(crc32c=crc32c_of(file))
        file.seek(0)
        if _fingerprint_of(file) != file_fingerprint:
            return stored  # a program is writing the file, so the checksum would be wrong
        with self._locked(stored.bucket, stored.name), contextlib.suppress(NoSuchObject, OSError):
            note = self._note(stored)
            if note.fingerprint == file_fingerprint and not note.checksums.crc32c:
                self.buckets.notes(stored.bucket).write(replace(note, checksums=checksums))
        return replace(stored, checksums=checksums)

    def _note(self, stored: StoredObject) -> ObjectMetadata:
        """Return the note of an object's current file.  The caller holds the object's lock."""
        notes = self.buckets.notes(stored.bucket)
        placeholder = notes.read(stored.name) if stored.name.endswith("/") else None
        if placeholder is not None:
            return placeholder
        with missing_is_no_object(stored.name), self.buckets.opened(stored.bucket) as bucket:
            return notes.of_file(stored.name, fingerprint(bucket.stat(stored.name.rstrip("/"))))

    def _locked(self, bucket: str, *names: str) -> contextlib.AbstractContextManager[None]:
        return locked(self.data_dir / "objects" / ".locks", *(f"{bucket}/{n}" for n in names))


def _fingerprint_of(file: BinaryIO) -> Fingerprint:
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
