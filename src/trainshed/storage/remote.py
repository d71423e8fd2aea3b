"""Accesses buckets in other stores by fsspec: at Google, in S3, on a network share.

The server has the credentials of the administrator; programs do not get them.  Programs use such a
bucket as any other bucket of their project.  Every request goes to the store, and only listings are
cached for some seconds.  A failed request is an error, never an empty result.
"""

import hashlib
import io
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, BinaryIO, Final, cast

from trainshed.model.bounded import BoundedDict
from trainshed.model.faults import UsageFault
from trainshed.model.stored_objects import Attributes, Checksums, StoredObject
from trainshed.model.texts import install_command
from trainshed.storage.buckets import RemoteBucket
from trainshed.storage.folder_files import FolderFiles, UserOf
from trainshed.storage.object_files import NoSuchObject, is_object_name

#: The timeout of a call in seconds; each further 1 MiB of a call adds a second.
ANSWER_S: Final = 10.0
_BYTES_PER_S: Final = 1 << 20
#: The largest number of concurrent calls of one bucket, and the seconds that further calls wait.
_CALLS_MAX: Final = 16
_SLOT_S: Final = 5.0
#: Seconds without calls after a timeout: clients retry, and each retry would wait for a timeout.
_AWAY_S: Final = 5.0
#: Bytes per request when a program reads a whole object.
_BLOCK_BYTES: Final = 4 << 20
#: Seconds for which the objects of a listing are cached, and their largest number.
_LISTED_S: Final = 10.0
_LISTED_MAX: Final = 10_000
_MICROSECONDS: Final = 1_000_000
_REFUSALS: Final = frozenset({401, 403})
_LOCAL: Final = frozenset({"file", "local"})
_GOOGLE: Final = frozenset({"gs", "gcs"})
_GOOGLES_ENDPOINT: Final = "https://storage.googleapis.com"


class RemoteFailed(Exception):
    """The store behind a bucket does not respond; the message names the bucket."""


class RemoteRefused(Exception):
    """The store behind a bucket refuses a call; the message names the bucket."""


class Remote:
    """One bucket in another store.  Thread-safe; calls block."""

    def __init__(self, name: str, bucket: RemoteBucket, user_of: UserOf) -> None:
        """Open the file system, without a request.  Raises UsageFault for an unsupported scheme.

        ``user_of`` returns the user that accesses a bucket in a folder (``folder_files``).
        """
        self._name = name
        self._files, self._root = _open_filesystem(name, bucket, user_of)
        self._is_google = bucket.uri.partition("://")[0] in _GOOGLE
        self._slots = BoundedSemaphore(_CALLS_MAX)
        self._away = (0.0, "")
        self._listed = BoundedDict[str, tuple[float, StoredObject]](_LISTED_MAX)
        self.since = datetime.now(UTC)

    def look(self, name: str) -> StoredObject:
        """Return an object.  Raises NoSuchObject, RemoteFailed, RemoteRefused."""
        if is_object_name(name):
            with self._missing_is_no_object(name):
                info = self._call("info", self._path(name))
            if info["type"] != "directory":
                return self._object(name, info)
        raise NoSuchObject(f"No such object: {self._name}/{name}")

    def listed(self, name: str) -> StoredObject | None:
        """Return an object of a recent listing; None if no recent listing contained it."""
        at, stored = self._listed.get(name, (0.0, None))
        return stored if time.monotonic() - at < _LISTED_S else None

    def file(self, name: str, size: int) -> BinaryIO:
        """Return a file object that requests the bytes of an object as they are read."""

        def read(start: int, end: int) -> bytes:
            with self._missing_is_no_object(name):
                return bytes(
                    self._call("cat_file", self._path(name), start=start, end=end, size=end - start)
                )

        return cast("BinaryIO", io.BufferedReader(_Bytes(read, size), _BLOCK_BYTES))

    def put(self, name: str, file: Path, attributes: Attributes) -> StoredObject:
        """Store a local file as an object."""
        size = file.stat().st_size
        options = {"content_type": attributes.content_type} if self._is_google else {}
        options = {key: text for key, text in options.items() if text}
        self._call("put_file", str(file), self._path(name), size=size, **options)
        return replace(self.look(name), attributes=attributes)

    def delete(self, name: str) -> None:
        with self._missing_is_no_object(name):
            self._call("rm_file", self._path(name))

    def move(self, name: str, to: str) -> StoredObject:
        """Copy an object to another name, and delete the old object."""
        with self._missing_is_no_object(name):
            self._call("cp_file", self._path(name), self._path(to))
        self.delete(name)
        return self.look(to)

    def entries(self, folder: str) -> list[str]:
        """Return the sorted names in a folder (``a/b/``; empty for the bucket).

        Names of folders end with a slash.
        """
        if folder and not is_object_name(folder):
            return []
        try:
            with self._missing_is_no_object(folder):
                infos = self._call("ls", self._path(folder), detail=True)
        except NoSuchObject:
            return []
        return sorted(filter(None, (self._entry(folder, info) for info in infos)), key=str.encode)

    def _entry(self, folder: str, info: Mapping[str, Any]) -> str:
        """Return the name of an entry; empty for an entry that is no object or folder."""
        path, is_folder = str(info["name"]).rstrip("/"), info["type"] == "directory"
        name = f"{folder}{path.rpartition('/')[2]}{'/' if is_folder else ''}"
        if path == self._path(folder) or not is_object_name(name):
            return ""
        if not is_folder:
            self._listed[name] = (time.monotonic(), self._object(name, info))
        return name

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    def _call(self, method: str, *arguments: Any, size: int = 0, **named: Any) -> Any:
        """Call a method of the file system; ``size`` is the bytes it transfers.

        Raises FileNotFoundError, RemoteFailed, RemoteRefused.
        """
        if self._files.async_impl:
            named["timeout"] = ANSWER_S + size / _BYTES_PER_S
        until, reason = self._away
        if time.monotonic() < until:
            raise RemoteFailed(reason)
        if not self._slots.acquire(timeout=_SLOT_S):
            raise RemoteFailed(self._sentence("has too many concurrent calls; try again later"))
        try:
            return getattr(self._files, method)(*arguments, **named)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(str(error)) from None
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            if _is_refusal(error):
                raise RemoteRefused(self._sentence(f"refused the call: {reason}")) from error
            sentence = self._sentence(f"does not answer: {reason}")
            if isinstance(error, (TimeoutError, ConnectionError)) and not size:
                self._away = (time.monotonic() + _AWAY_S, sentence)
            raise RemoteFailed(sentence) from error
        finally:
            self._slots.release()

    def _sentence(self, predicate: str) -> str:
        return f"The store behind the bucket {self._name} ([buckets] of the server) {predicate}"

    @contextmanager
    def _missing_is_no_object(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise NoSuchObject(f"No such object: {self._name}/{name}") from None

    def _object(self, name: str, info: Mapping[str, Any]) -> StoredObject:
        """Convert the properties of fsspec to an object."""
        updated = _time(info, ("updated", "LastModified", "last_modified", "mtime"))
        return StoredObject(
            bucket=self._name,
            name=name,
            size=int(info.get("size") or 0),
            generation=_generation(info, updated),
            metageneration=int(info.get("metageneration") or 1),
            created=_time(info, ("timeCreated", "created"), updated),
            updated=updated,
            attributes=Attributes(content_type=str(info.get("contentType") or "")),
            checksums=Checksums(
                crc32c=str(info.get("crc32c") or ""), md5=str(info.get("md5Hash") or "")
            ),
        )


class _Bytes(io.RawIOBase):
    """A file whose bytes a function returns."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._size = size
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._size}[whence]
        self._offset = start + offset
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        end = min(self._offset + len(buffer), self._size)
        piece = self._read(self._offset, end) if end > self._offset else b""
        if len(piece) < end - self._offset:
            raise RemoteFailed("An object became shorter while it was read; read it again")
        buffer[: len(piece)] = piece
        self._offset += len(piece)
        return len(piece)


def remotes_of(
    buckets: Mapping[str, RemoteBucket], user_of: Callable[[str], int | None] = lambda _: None
) -> dict[str, Remote]:
    """Make the remote buckets of the settings.  Raises UsageFault.

    For a bucket in a folder of the server's machine, ``user_of`` returns the id of the user that
    accesses its files: the user of the bucket's project, or None for the user of the server.
    """
    return {name: Remote(name, bucket, partial(user_of, name)) for name, bucket in buckets.items()}


def _open_filesystem(name: str, bucket: RemoteBucket, user_of: UserOf) -> tuple[Any, str]:
    """Return the file system of a URI and the path in it.  Raises UsageFault."""
    scheme, _, path = bucket.uri.partition("://")
    if scheme in _LOCAL:
        return _folder(name, path, bucket, user_of), ""
    options = {"skip_instance_cache": True, "use_listings_cache": False, **bucket.options}
    if scheme in _GOOGLE:  # the environment may name this server as the endpoint
        options.setdefault("endpoint_url", _GOOGLES_ENDPOINT)
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - installed with the extra remote

        files, root = url_to_fs(bucket.uri, **options)
    except (ImportError, ValueError) as error:
        raise UsageFault(
            f"buckets.{name}: cannot open {bucket.uri}: {error}; install fsspec "
            f"with {install_command('remote')}; gs:// also needs gcsfs, and s3:// needs s3fs"
        ) from error
    return files, str(root).rstrip("/")


def _folder(name: str, path: str, bucket: RemoteBucket, user_of: UserOf) -> FolderFiles:
    if not path.startswith("/"):
        raise UsageFault(
            f"buckets.{name} must be an absolute path such as file:///mnt/scratch, got {bucket.uri}"
        )
    if bucket.options:
        raise UsageFault(f"buckets.{name}.options must be absent: a folder has no options")
    return FolderFiles(path, user_of)


def _is_refusal(error: Exception) -> bool:
    return (
        isinstance(error, (PermissionError, NotImplementedError))
        or getattr(error, "code", None) in _REFUSALS
        or str(error).startswith("Forbidden")
    )


def _time(
    info: Mapping[str, Any], names: tuple[str, ...], default: datetime | None = None
) -> datetime:
    """Return the first time that ``info`` has under one of ``names``, else the default."""
    for name in names:
        value = info.get(name)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            return datetime.fromisoformat(value)
    return default or datetime.fromtimestamp(0, UTC)


def _generation(info: Mapping[str, Any], updated: datetime) -> int:
    """Return Google's generation; for other stores the time in microseconds.

    If the time has whole seconds only, a hash of the ETag replaces the microseconds.
    """
    if str(info.get("generation", "")).isdecimal():
        return int(info["generation"])
    micros = int(updated.timestamp()) * _MICROSECONDS
    if updated.microsecond:
        return micros + updated.microsecond
    tag = str(info.get("ETag") or info.get("etag") or info.get("size")).encode()
    return micros + int.from_bytes(hashlib.sha256(tag).digest()[:4], "big") % _MICROSECONDS
