"""Bytes on their way to become an object: files in the data directory's ``uploads``."""

import contextlib
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trainshed.model.stored_objects import ALWAYS, Attributes, Checksums, Conditions, StoredObject
from trainshed.storage.object_hashes import PIECE_BYTES, Hasher
from trainshed.storage.objects import NewObject, Objects


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTarget:
    """Where copied bytes are to go, what is said about them, and on which conditions."""

    bucket: str
    name: str
    attributes: Attributes
    conditions: Conditions = ALWAYS


@contextlib.contextmanager
def part(data_dir: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file for bytes that may become an object; what is left of it goes at the end."""
    folder = data_dir / "uploads" / "parts"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / secrets.token_hex(16)
    try:
        with path.open("x+b") as file:
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def copy(
    objects: Objects, source: StoredObject, file: BinaryIO | None, target: CopyTarget
) -> StoredObject:
    """Copy an open object, and close it."""
    with part(objects.data_dir) as (path, out), file or contextlib.nullcontext():
        if file:
            shutil.copyfileobj(file, out, PIECE_BYTES)
        out.flush()
        return objects.commit(_new(path, target, source.checksums), target.conditions)


def compose(
    objects: Objects, bucket: str, sources: Sequence[tuple[str, Conditions]], target: CopyTarget
) -> StoredObject:
    """Put objects of a bucket one behind the other.  Raises NoSuchObject, ConditionFailed."""
    with part(objects.data_dir) as (path, out):
        hasher = Hasher()
        for name, conditions in sources:
            _, file = objects.open(bucket, name, conditions, hashes=False)
            with file or contextlib.nullcontext():
                while file and (piece := file.read(PIECE_BYTES)):
                    hasher.update(piece)
                    out.write(piece)
        out.flush()
        return objects.commit(_new(path, target, hasher.checksums()), target.conditions)


def _new(path: Path, target: CopyTarget, checksums: Checksums) -> NewObject:
    return NewObject(
        bucket=target.bucket,
        name=target.name,
        file=path,
        attributes=target.attributes,
        checksums=checksums,
    )
