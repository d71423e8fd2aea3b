"""Stores resumable uploads as sessions on the disk, which any server can continue.

A session is a folder with the target and a file of the bytes received so far.  The session's id is
a secret: any caller that has the id may continue the upload.
"""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trainshed.model.codec import decode, encode
from trainshed.model.json_reader import read_json
from trainshed.model.stored_objects import Attributes, Checksums, Conditions, StoredObject
from trainshed.storage.object_files import check_name, exclusive
from trainshed.storage.object_hashes import PIECE_BYTES, Hasher, HashMismatch, check, checksums_of
from trainshed.storage.objects import NewObject, Objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object to write, its metadata, and the conditions on the object it replaces."""

    bucket: str
    name: str
    attributes: Attributes = field(default_factory=Attributes)
    conditions: Conditions = field(default_factory=Conditions)


@contextlib.contextmanager
def part(data_dir: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield the path and the open file for new bytes; remove the file unless it was moved."""
    folder = data_dir / "uploads" / "parts"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / secrets.token_hex(16)
    try:
        with path.open("x+b") as file:
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def copy(
    objects: Objects, source: StoredObject, file: BinaryIO | None, target: Target
) -> StoredObject:
    """Copy an open object to ``target``, and close its file; None is a folder's placeholder."""
    with part(objects.data_dir) as (path, out), file or contextlib.nullcontext():
        if file:
            shutil.copyfileobj(file, out, PIECE_BYTES)
        out.flush()
        return objects.commit(_new(path, target, source.checksums), target.conditions)


def compose(
    objects: Objects, bucket: str, sources: Sequence[tuple[str, Conditions]], target: Target
) -> StoredObject:
    """Concatenate objects of a bucket to ``target``.  Raises NoSuchObject, ConditionFailed."""
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


def _new(path: Path, target: Target, checksums: Checksums) -> NewObject:
    return NewObject(
        bucket=target.bucket,
        name=target.name,
        file=path,
        attributes=target.attributes,
        checksums=checksums,
    )


SESSION_AGE_S_MAX = 7 * 24 * 3600.0
"""The age in seconds at which an idle session is removed: a week, as in Cloud Storage."""
PART_AGE_S_MAX = 24 * 3600.0
"""The age in seconds at which parts of killed servers and finished sessions are removed."""
SWEEP_EVERY_S = 3600.0
"""The shortest time between two removals of old sessions, in seconds."""

_ID = re.compile(r"[\w-]{43}", re.ASCII)


class NoSuchUpload(Exception):
    """The upload session is unknown, finished or too old."""


class ConcurrentWrite(Exception):
    """Another request has written to the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSession(Target):
    """A session's target and state; ``total`` is the size in bytes, None if unknown."""

    checksums: Checksums = field(default_factory=Checksums)
    total: int | None = None
    done: bool = False


class Uploads:
    """The upload sessions of one data directory."""

    def __init__(self, objects: Objects, clock: Callable[[], float] = time.time) -> None:
        """``clock`` returns seconds since 1970, for the age of sessions."""
        self.objects = objects
        self._root = objects.data_dir / "uploads"
        self._clock = clock
        self._swept = float("-inf")

    def begin(self, session: UploadSession) -> str:
        """Start a session and return its id.  Raises NameRefused."""
        check_name(session.name)
        self.sweep()
        upload = secrets.token_urlsafe(32)
        folder = self._folder(upload)
        folder.mkdir(parents=True)
        (folder / "lock").touch()
        (folder / "data").touch()
        _write(folder, session)
        return upload

    def session(self, upload: str) -> UploadSession:
        """Return the session of an id.  Raises NoSuchUpload if it is unknown or unreadable."""
        try:
            document = (self._folder(upload) / "session.json").read_bytes()
            return decode(UploadSession, read_json(document))
        except FileNotFoundError:
            raise NoSuchUpload("The upload session is unknown or too old; start it again") from None
        except ValueError:
            raise NoSuchUpload("The upload session is damaged; start it again") from None

    def received(self, upload: str) -> int:
        """Flush a session to the disk; return its number of bytes.  Raises NoSuchUpload."""
        with self._lock_session(upload) as folder, (folder / "data").open("rb") as data:
            os.fsync(data.fileno())
            return os.fstat(data.fileno()).st_size

    def write(self, upload: str, offset: int, piece: bytes) -> None:
        """Append bytes to a session that has ``offset`` bytes.

        Raises ConcurrentWrite if it has another number of bytes; NoSuchUpload.
        """
        with self._lock_session(upload) as folder, (folder / "data").open("ab") as data:
            if data.tell() != offset:
                raise ConcurrentWrite(
                    "another request has written to this upload; query its size and continue"
                )
            data.write(piece)

    def finish(self, upload: str, claimed: Checksums) -> StoredObject:
        """Store the bytes of a session as its object; a repeated call returns the object again.

        Raises HashMismatch, and removes the session then; ConditionFailed, NameRefused,
        NoSuchUpload.
        """
        with self._lock_session(upload) as folder:
            session = self.session(upload)
            if not session.done:
                stored = self._commit(folder, session, claimed)
                _write(folder, dataclasses.replace(session, done=True))
                return stored
        return self.objects.get(session.bucket, session.name)

    def cancel(self, upload: str) -> None:
        """Remove a session and its bytes.  Raises NoSuchUpload."""
        with self._lock_session(upload) as folder:
            shutil.rmtree(folder)

    def unfinished(self) -> Iterator[tuple[str, int]]:
        """Yield (bucket, number of received bytes) of all sessions."""
        for folder in _entries(self._root / "sessions"):
            with contextlib.suppress(NoSuchUpload, OSError, ValueError):
                yield self.session(folder.name).bucket, (folder / "data").stat().st_size

    def sweep(self) -> None:
        """Remove old sessions and parts; does nothing within an hour of the last removal."""
        now_s = self._clock()
        if now_s - self._swept < SWEEP_EVERY_S:
            return
        self._swept = now_s
        for folder in _entries(self._root / "sessions"):
            unfinished = (folder / "data").exists()
            if _newest(folder) < now_s - (SESSION_AGE_S_MAX if unfinished else PART_AGE_S_MAX):
                shutil.rmtree(folder, ignore_errors=True)
        for file in _entries(self._root / "parts"):
            if _newest(file) < now_s - PART_AGE_S_MAX:
                file.unlink(missing_ok=True)

    def _commit(self, folder: Path, session: UploadSession, claimed: Checksums) -> StoredObject:
        """Check the checksums of a session's bytes and store the object.  Raises HashMismatch."""
        data = folder / "data"
        try:
            with data.open("rb") as file:
                checksums = checksums_of(file)
            check(session.checksums, checksums)
            check(claimed, checksums)
        except HashMismatch:
            shutil.rmtree(folder)
            raise
        return self.objects.commit(_new(data, session, checksums), session.conditions)

    def _folder(self, upload: str) -> Path:
        if not _ID.fullmatch(upload):
            raise NoSuchUpload("The upload session is unknown; start it again")
        return self._root / "sessions" / upload

    @contextlib.contextmanager
    def _lock_session(self, upload: str) -> Iterator[Path]:
        """Lock a session against other requests, and yield its folder.  Raises NoSuchUpload."""
        folder = self._folder(upload)
        try:
            lock = (folder / "lock").open("rb")
        except FileNotFoundError:
            raise NoSuchUpload("The upload session is unknown or too old; start it again") from None
        with exclusive(lock):
            if not (folder / "session.json").is_file():
                raise NoSuchUpload("The upload session is finished; start a new one")
            yield folder


def _write(folder: Path, session: UploadSession) -> None:
    draft = folder / "session.half"
    draft.write_text(json.dumps(encode(session)), encoding="ascii")
    draft.replace(folder / "session.json")


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _newest(path: Path) -> float:
    """Return the time of the last write to a file or session; infinity if it was removed."""
    paths = [path, path / "data"] if path.is_dir() else [path]
    with contextlib.suppress(FileNotFoundError):
        return max(file.stat().st_mtime for file in paths if file.exists())
    return float("inf")
