"""Unpacks a package's archive within limits: a user's small archive may unpack to a huge size.

The sizes in an archive are not trusted: the bytes are counted as they are read, and a header that
would need much memory is refused before it is read.  Links and paths that lead out of the package
are refused (PEP 706's filter ``data``); devices and pipes too.
"""

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from trainshed.model.faults import EngineFault

#: The maximum number of files in a package; each file needs an inode.
FILES_MAX: Final = 200_000
#: The maximum number of bytes to read at once: tarfile reads names and other headers whole.
_PIECE_BYTES_MAX: Final = 1 << 20

#: Functions that open an archive as a tar stream, by the end of its name, as in ``shutil``.
_OPEN: Final[Mapping[str, Callable[..., Any]]] = {
    ".tar": Path.open,
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tbz2": bz2.open,
    ".tar.xz": lzma.open,
    ".txz": lzma.open,
}


class TooLarge(Exception):
    """The archive has more content than a package may have."""


def unpack(archive: Path, target: Path, bytes_max: int | None) -> None:
    """Unpack an sdist into the new folder ``target``.  If ``bytes_max`` is None, there is no limit.

    Raises EngineFault if it is too large, shutil.ReadError if it is damaged, not an archive, or has
    paths that lead out of it, and OSError.
    """
    target.mkdir()
    try:
        if archive.suffix in {".zip", ".whl"}:
            _unzip(archive, target, bytes_max)
        else:
            _untar(archive, target, bytes_max)
    except TooLarge as error:
        raise EngineFault(f"the package {archive.name} {error}") from None
    except _DAMAGED as error:
        raise shutil.ReadError(f"{archive.name}: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise shutil.ReadError(f"{archive.name}: {error}") from error  # raised by gzip and bz2


#: The errors of the readers for an archive that is damaged or has paths that lead out of it.
_DAMAGED: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError,
)  # fmt: skip


class Room:
    """Counts the bytes of one package against its limit."""

    def __init__(self, package: str, bytes_max: int | None) -> None:
        """``package`` is the package's name for messages; no limit if ``bytes_max`` is None."""
        self._package = package
        self._bytes_max = bytes_max
        self._used_bytes = 0

    def take(self, count: int) -> None:
        """Count some bytes.  Raises EngineFault above the limit."""
        self._used_bytes += count
        if self._bytes_max is not None and self._used_bytes > self._bytes_max:
            raise EngineFault(
                f"the package {self._package} has more than {self._bytes_max} bytes "
                "(limits.package_bytes_max)"
            )


def check_wheel(wheel: Path, bytes_max: int | None) -> None:
    """Refuse a wheel that unpacks to too much, before uv unpacks it.  Raises as ``unpack``."""
    try:
        with zipfile.ZipFile(wheel) as zip_file:
            _check_sizes(zip_file, bytes_max)
    except TooLarge as error:
        raise EngineFault(f"the package {wheel.name} {error}") from None
    except zipfile.BadZipFile as error:
        raise shutil.ReadError(f"{wheel.name}: {error}") from error


def _untar(archive: Path, target: Path, bytes_max: int | None) -> None:
    opened = next((_OPEN[end] for end in _OPEN if archive.name.endswith(end)), None)
    if opened is None:
        raise shutil.ReadError(f"{archive.name}: unknown archive format")
    with opened(archive, "rb") as stream:
        bounded = _Bounded(stream, bytes_max)
        links: set[PurePosixPath] = set()
        with tarfile.open(fileobj=bounded, mode="r:") as tar_file:  # type: ignore[call-overload]
            for count, member in enumerate(tar_file, 1):
                _check_path(member, links)
                if count > FILES_MAX:
                    raise TooLarge(_describe_count_limit())
                if bytes_max is not None and member.size > bytes_max:  # such as a sparse file
                    raise TooLarge(_describe_size_limit(bytes_max))
                try:
                    _extract(tar_file, member, target)
                except KeyError as error:  # tarfile's error for a hard link to nothing
                    raise tarfile.ExtractError(f"{member.name!r} is a link to nothing") from error
                tar_file.members.clear()  # else tarfile keeps each member in memory


def _extract(tar_file: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Extract a member with tarfile's filter; before Python 3.11.4 apply the filter's rules."""
    if hasattr(tarfile, "data_filter"):
        tar_file.extract(member, target, filter="data")
        return
    paths = PurePosixPath(member.name), PurePosixPath(member.linkname)
    if any(path.is_absolute() for path in paths) or ".." in paths[0].parts:
        raise tarfile.ExtractError(f"{member.name!r} leads out of the package")
    if member.islnk() and ".." in paths[1].parts:
        raise tarfile.ExtractError(f"the link {member.name!r} leads out of the package")
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise tarfile.ExtractError(f"{member.name!r} must be a file, a folder or a link")
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    member.uid, member.gid = os.geteuid(), os.getegid()
    tar_file.extract(member, target, numeric_owner=True)


def _check_path(member: tarfile.TarInfo, links: set[PurePosixPath]) -> None:
    """Refuse a path through a link, and a link that could lead out through other links.

    The filter checks a link when it is made; a later link may change its target.
    """
    path = PurePosixPath(member.name)
    if links.intersection(path.parents) or (member.isreg() and path in links):
        raise tarfile.ExtractError(f"{member.name!r} lies behind a link")
    target = PurePosixPath(member.linkname)
    if member.islnk() and links.intersection((target, *target.parents)):
        raise tarfile.ExtractError(f"{member.name!r} lies behind a link")
    if member.issym():
        links.add(path)
        ups = len(target.parts) - len([part for part in target.parts if part != ".."])
        if ".." in target.parts[ups:] or ups >= len(path.parts):
            raise tarfile.ExtractError(f"the link {member.name!r} leads out of the package")


class _Bounded:
    """A stream with a limit on the bytes to read, as the file object that tarfile needs."""

    def __init__(self, stream: IO[bytes], bytes_max: int | None) -> None:
        self._stream = stream
        self._bytes_max = bytes_max

    def read(self, size: int = -1) -> bytes:
        if size > _PIECE_BYTES_MAX:
            raise TooLarge("has a header of more than a MiB")
        data = self._stream.read(size)
        self._check(self._stream.tell())
        return data

    def seek(self, position: int) -> int:
        self._check(position)
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()

    def _check(self, position: int) -> None:
        if self._bytes_max is not None and position > self._bytes_max:
            raise TooLarge(_describe_size_limit(self._bytes_max))


def _unzip(archive: Path, target: Path, bytes_max: int | None) -> None:
    with zipfile.ZipFile(archive) as zip_file:
        _check_sizes(zip_file, bytes_max)
        for member in zip_file.infolist():
            path = PurePosixPath(member.filename)
            if path.is_absolute() or ".." in path.parts:
                raise zipfile.BadZipFile(f"{member.filename!r} leads out of the package")
            try:
                zip_file.extract(member, target)  # links become files; reads at most their size
            except RuntimeError as error:  # zipfile's error for an encrypted or newer archive
                raise zipfile.BadZipFile(str(error)) from error


def _check_sizes(zip_file: zipfile.ZipFile, bytes_max: int | None) -> None:
    members = zip_file.infolist()
    if len(members) > FILES_MAX:
        raise TooLarge(_describe_count_limit())
    if bytes_max is not None and sum(member.file_size for member in members) > bytes_max:
        raise TooLarge(_describe_size_limit(bytes_max))


def _describe_size_limit(bytes_max: int) -> str:
    return f"unpacks to more than {bytes_max} bytes (limits.package_bytes_max)"


def _describe_count_limit() -> str:
    return f"has more than {FILES_MAX} files"
