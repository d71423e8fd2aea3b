"""Unpacks a package's archive within bounds: strangers make archives, and small ones may be huge.

What an archive says of its own sizes is not believed: the bytes are counted as they come, and a
header that would need much memory is refused before it is read.  Links and paths that lead out of
the package are refused (PEP 706's filter ``data``); devices and pipes too.
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

#: More are no package; each costs an inode.
FILES_MAX: Final = 200_000
#: The longest piece that is read at once: tarfile reads names and other headers whole.
_PIECE_BYTES_MAX: Final = 1 << 20

#: How the stream inside of an archive is had, by the end of its name; as ``shutil`` knows them.
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
    """The archive has more in it than a package may have."""


def unpack(archive: Path, target: Path, bytes_max: int | None) -> None:
    """Unpack an sdist into an empty folder, which is made.  ``bytes_max`` None is no limit.

    Raises EngineFault for one that is too large, shutil.ReadError for one that is damaged, is no
    archive or leads out of itself, and OSError.
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
        raise shutil.ReadError(f"{archive.name}: {error}") from error  # gzip and bz2 say so


#: What the readers raise for an archive that is damaged or leads out of itself.
_DAMAGED: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError,
)  # fmt: skip


class Room:
    """What is left for the bytes of one package."""

    def __init__(self, package: str, bytes_max: int | None) -> None:
        """``package`` is named to its user; ``bytes_max`` None is no limit."""
        self._package = package
        self._bytes_max = bytes_max
        self._used_bytes = 0

    def take(self, count: int) -> None:
        """Use up some of it.  Raises EngineFault where there is too little."""
        self._used_bytes += count
        if self._bytes_max is not None and self._used_bytes > self._bytes_max:
            raise EngineFault(
                f"the package {self._package} has more than {self._bytes_max} bytes "
                "(limits.package_bytes_max)"
            )


def check_wheel(wheel: Path, bytes_max: int | None) -> None:
    """Refuse a wheel that unpacks to too much, before an installer does.  Raises as ``unpack``."""
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
                if bytes_max is not None and member.size > bytes_max:  # sparse files say so
                    raise TooLarge(_describe_size_limit(bytes_max))
                try:
                    _extract(tar_file, member, target)
                except KeyError as error:  # tarfile's word for a hard link to nothing
                    raise tarfile.ExtractError(f"{member.name!r} is a link to nothing") from error
                tar_file.members.clear()  # it keeps every one that it has read


def _extract(tar_file: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Extract one member by the filter; Python before 3.11.4 lacks it, so its rules stand here."""
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
    """Refuse what is reached through a link, and a link that could lead out by others.

    The filter looks at links as they are when each is made; later ones may change where they lead.
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
    """A stream of which only so much is read; the file object that tarfile wants."""

    def __init__(self, stream: IO[bytes], bytes_max: int | None) -> None:
        self._stream = stream
        self._bytes_max = bytes_max

    def read(self, size: int = -1) -> bytes:
        if size > _PIECE_BYTES_MAX:
            raise TooLarge("has a header of more than a MiB")
        data = self._stream.read(size)
        self._check(self._stream.tell())
        return data

    def seek(self, place: int) -> int:
        self._check(place)
        return self._stream.seek(place)

    def tell(self) -> int:
        return self._stream.tell()

    def _check(self, place: int) -> None:
        if self._bytes_max is not None and place > self._bytes_max:
            raise TooLarge(_describe_size_limit(self._bytes_max))


def _unzip(archive: Path, target: Path, bytes_max: int | None) -> None:
    with zipfile.ZipFile(archive) as zip_file:
        _check_sizes(zip_file, bytes_max)
        for member in zip_file.infolist():
            path = PurePosixPath(member.filename)
            if path.is_absolute() or ".." in path.parts:
                raise zipfile.BadZipFile(f"{member.filename!r} leads out of the package")
            try:
                zip_file.extract(member, target)  # a link is a file; no more than its size is read
            except RuntimeError as error:  # zipfile's word for what is encrypted or newer than it
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
