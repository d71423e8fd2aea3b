"""What is known of an object besides its bytes: small JSON files outside the bucket's folder.

A file's modification time in microseconds is its generation, so bytes and generation can never
disagree, and a file that a job wrote by itself has one too.  A note belongs to one generation: it
is ignored once somebody has written the file anew.  Checksums also want the same inode.
"""

import dataclasses
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.model.codec import decode, encode
from trainshed.model.stored_objects import Attributes, Checksums
from trainshed.storage.object_names import digest


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataStore:
    """The notes of one bucket."""

    folder: Path

    def of_file(self, name: str, now: Fingerprint) -> ObjectMetadata:
        """The note of a file as it is now; made up where there is none of this generation."""
        found = self.read(name)
        if found is None or found.fingerprint.generation != now.generation:
            return ObjectMetadata(
                name=name, fingerprint=now, created_ns=now.mtime_ns, updated_ns=now.mtime_ns
            )
        if found.fingerprint != now:
            return dataclasses.replace(found, fingerprint=now, checksums=Checksums())
        return found

    def read(self, name: str) -> ObjectMetadata | None:
        """The note that was written last, whatever has become of the file."""
        try:
            return decode(ObjectMetadata, json.loads(self._path(name).read_bytes()))
        except (OSError, ValueError):
            return None  # none, or one that a crash of the machine has left half written

    def write(self, note: ObjectMetadata) -> None:
        """Replace the note of a name."""
        path = self._path(note.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        half.write_text(json.dumps(encode(note)), encoding="ascii")
        half.replace(path)

    def drop(self, name: str) -> None:
        """Forget a name."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        key = digest(name)
        return self.folder / key[:2] / f"{key}.json"
