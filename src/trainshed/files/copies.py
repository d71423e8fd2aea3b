"""Copies folder trees that programs may change meanwhile, and reports what was not copied.

Both trees are opened by descriptors only, so that no link leads out of them.  A link is copied as a
link; sockets, pipes and devices are left out.  A file that grows is copied with its size at the
opening; a file that is removed is left out.  Holes of sparse files stay holes.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trainshed.files.beneath import NOT_A_FILE, Beneath, FileKind

_PIECE_BYTES: Final = 1 << 20
#: The size of blocks in which holes are found: the block size of most file systems.
_BLOCK_BYTES: Final = 4096
#: The unit of ``st_blocks``, in bytes.
_DISK_BLOCK_BYTES: Final = 512
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600
#: The errors of opening a missing file, another kind of file, or a socket.
_NO_FILE: Final = (*NOT_A_FILE, errno.ENXIO)
#: The mode bits with which a file runs as its owner or group.
_SET_ID: Final = stat.S_ISUID | stat.S_ISGID
#: The prefix of the digest of a file with holes, which leaves out blocks of zeros.
_SPARSE: Final = "sparse-sha256:"


class Copied(NamedTuple):
    """A copied file: its path below the root, its size in bytes, its digest (``measure_file``)."""

    name: str
    size: int
    digest: str


class Remark(Enum):
    """A kind of difference between a tree and its copy; the value is a text for a count."""

    SPECIAL = "pipes, sockets and devices that were left out"
    TOO_DEEP = "files and folders that were left out because their paths are too long"
    TOO_LARGE = "files that were left out because the file system of the copy has none so large"
    IN_THE_WAY = "names that were left out because a link or something else has their place"
    CHANGED = "files that changed while they were copied"
    SET_ID = "files that lost their set-uid or set-gid bit"
    HARD_LINKS = "names of files with several names that are files of their own now"
    ATTRIBUTES = "files that lost their extended attributes"
    UNREADABLE = "files and folders that were left out because their modes forbid reading them"


class Remarks(dict[Remark, tuple[int, str]]):
    """The count of each remark, and the first file that it concerns."""

    def add(self, remark: Remark, name: str) -> None:
        count, first = self.get(remark, (0, name))
        self[remark] = (count + 1, first)

    def sentences(self) -> list[str]:
        """Return one line for each kind of remark."""
        return [
            f"{remark.value}: {count}, the first is {name}"
            for remark, (count, name) in self.items()
        ]


def copy_tree(
    source: Path,
    target: Path,
    is_wanted: Callable[[str, FileKind], bool] = lambda *_: True,
    remarks: Remarks | None = None,
    is_of_jobs: Callable[[str], bool] = lambda _: False,
) -> Iterator[Copied]:
    """Copy the files that ``is_wanted`` selects by their paths below the root; keep existing files.

    The copy has the same modes, times and, for root, owners, but no set-uid bits of files.
    ``remarks`` counts wanted files that are not copied as they are.  Raises OSError, also for
    unreadable files, but not for paths that ``is_of_jobs`` accepts: a job must not prevent a backup
    by the mode of a file.
    """
    target.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
    with Beneath(source) as source_tree, Beneath(target) as target_tree:
        yield from _Copy(
            source_tree, target_tree, Remarks() if remarks is None else remarks, is_of_jobs
        ).run(is_wanted)


class _Made(NamedTuple):
    """A folder that the copy made; ``original`` has the mode, times and owner to set at the end."""

    name: str
    status: os.stat_result
    original: os.stat_result


class _Copy:
    """One copy of a tree."""

    def __init__(
        self,
        source_tree: Beneath,
        target_tree: Beneath,
        remarks: Remarks,
        is_of_jobs: Callable[[str], bool],
    ) -> None:
        self._source = source_tree
        self._target = target_tree
        self._remarks = remarks
        self._is_of_jobs = is_of_jobs
        self._folders: list[_Made] = []

    def run(self, is_wanted: Callable[[str, FileKind], bool]) -> Iterator[Copied]:
        """Copy the tree and yield each copied file; set the modes of folders at the end."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            head = f"{folder}/" if folder else ""
            for leaf, kind in self._entries(folder):
                name = head + leaf
                if not is_wanted(name, kind):
                    continue
                if kind is FileKind.FOLDER:
                    waiting += [name] if self._make_folder(name) else []
                elif kind is FileKind.OTHER:
                    self._copy_link(name)
                elif (copied := self._copy_file(name)) is not None:
                    yield copied
        for folder_made in reversed(self._folders):
            self._set_folder_status(folder_made)

    def _entries(self, folder: str) -> list[tuple[str, FileKind]]:
        try:
            return sorted(self._source.entries(folder), key=lambda entry: entry[0])
        except OSError as error:
            self._skip(error, folder)
            return []

    def _skip(self, error: OSError, name: str) -> None:
        """Skip a file that was removed, or that a job made unreadable; raise other errors."""
        if error.errno == errno.EACCES and self._is_of_jobs(name):
            self._remarks.add(Remark.UNREADABLE, name)
            return
        if error.errno not in _NO_FILE:
            raise error
        if error.errno == errno.ENAMETOOLONG:
            self._remarks.add(Remark.TOO_DEEP, _shorten(name))

    def _make_folder(self, name: str) -> bool:
        """Make a folder if it is missing; return whether the path is a folder, not a link."""
        try:
            original = self._source.stat(name)
            with self._target.parent(name) as (above, leaf):
                if _make(leaf, above):
                    with self._target.folder(name) as descriptor:
                        self._folders.append(_Made(name, os.fstat(descriptor), original))
            with self._target.folder(name):
                return True
        except OSError as error:
            self._handle_error(error, name)
            return False

    def _handle_error(self, error: OSError, name: str) -> None:
        """Count a file whose path is blocked by a file or link; treat other errors as ``_skip``."""
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            self._remarks.add(Remark.IN_THE_WAY, name)
        else:
            self._skip(error, name)

    def _check_existing(self, name: str, kind: int) -> None:
        """Count an existing file if it is of another kind."""
        try:
            if stat.S_IFMT(self._target.stat(name).st_mode) != kind:
                self._remarks.add(Remark.IN_THE_WAY, name)
        except OSError as error:
            self._handle_error(error, name)

    def _copy_link(self, name: str) -> None:
        """Copy a link, or count a file that is no link, file or folder."""
        try:
            with self._source.parent(name) as (folder, leaf):
                leads_to = os.readlink(leaf, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.EINVAL:
                self._remarks.add(Remark.SPECIAL, name)
            else:
                self._skip(error, name)
            return
        try:
            with self._target.parent(name) as (folder, leaf):
                os.symlink(leads_to, leaf, dir_fd=folder)
        except FileExistsError:
            self._check_existing(name, stat.S_IFLNK)
        except OSError as error:
            self._handle_error(error, name)

    def _copy_file(self, name: str) -> Copied | None:
        """Copy a file; None if it was skipped."""
        try:
            source = self._source.read(name)
        except OSError as error:
            self._skip(error, name)
            return None
        with source:
            target = self._make_file(name)
            if target is None:
                return None
            try:
                with os.fdopen(target, "wb") as file:
                    return Copied(name, *self._fill(name, source, file))
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
                self._remove_part(name)
                return None

    def _make_file(self, name: str) -> int | None:
        """Make a file of the copy; return its descriptor, or None if the path exists."""
        try:
            return self._target.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
        except FileExistsError:
            self._check_existing(name, stat.S_IFREG)
        except OSError as error:
            self._handle_error(error, name)
        return None

    def _remove_part(self, name: str) -> None:
        """Remove an incomplete copy of a file that is too large for the file system."""
        self._remarks.add(Remark.TOO_LARGE, name)
        try:
            with self._target.parent(name) as (folder, leaf):
                os.unlink(leaf, dir_fd=folder)
        except OSError as error:
            self._handle_error(error, name)

    def _fill(self, name: str, source: BinaryIO, target: BinaryIO) -> tuple[int, str]:
        """Copy the content and the status of a file; return its size and digest."""
        before = os.fstat(source.fileno())
        size, digest = copy_file(source, target)
        target.flush()
        after = os.fstat(source.fileno())
        self._remark(name, source, before)
        if size < before.st_size or _is_rewritten(before, after):
            self._remarks.add(Remark.CHANGED, name)
        _set_status(target.fileno(), before, stat.S_IMODE(before.st_mode) & ~_SET_ID)
        return size, digest

    def _remark(self, name: str, source: BinaryIO, status: os.stat_result) -> None:
        """Count the properties of a file that the copy does not have."""
        if status.st_mode & _SET_ID:
            self._remarks.add(Remark.SET_ID, name)
        if status.st_nlink > 1:
            self._remarks.add(Remark.HARD_LINKS, name)
        if _has_attributes(source.fileno()):
            self._remarks.add(Remark.ATTRIBUTES, name)

    def _set_folder_status(self, folder: _Made) -> None:
        """Set the mode, times and owner of a folder, unless a program has replaced it."""
        try:
            descriptor = self._target.open(folder.name, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            self._handle_error(error, folder.name)
            return
        try:
            if os.path.samestat(os.fstat(descriptor), folder.status):
                mode = stat.S_IMODE(folder.original.st_mode) & ~stat.S_ISUID
                _set_status(descriptor, folder.original, mode)
        finally:
            os.close(descriptor)


def copy_file(source: BinaryIO, target: BinaryIO) -> tuple[int, str]:
    """Copy the content of a file, holes as holes; return its size in bytes and its digest.

    The digest is the one that ``measure_file`` computes.
    """
    status = os.fstat(source.fileno())
    if status.st_blocks * _DISK_BLOCK_BYTES < status.st_size:
        return _copy_data(source, target, status.st_size)
    return _copy_bytes(source, target, status.st_size)


def measure_file(source: BinaryIO, digest: str = "") -> tuple[int, str]:
    """Return a file's size in bytes, and its digest of the same kind as ``digest``.

    The digest is the SHA-256 in hexadecimal.  The kind for files with holes covers only blocks that
    are not all zeros, each with its offset, so that holes take no time.
    """
    size = os.fstat(source.fileno()).st_size
    measure = _copy_data if digest.startswith(_SPARSE) else _copy_bytes
    return measure(source, None, size)


def _copy_bytes(source: BinaryIO, target: BinaryIO | None, size_max: int) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while size_max > size and (piece := source.read(min(_PIECE_BYTES, size_max - size))):
        digest.update(piece)
        if target:
            target.write(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _copy_data(source: BinaryIO, target: BinaryIO | None, size: int) -> tuple[int, str]:
    """Copy only blocks that are not all zeros; the other blocks become holes of the target."""
    digest = hashlib.sha256()
    for at, block in _data_blocks(source.fileno(), size):
        digest.update(at.to_bytes(8) + block)
        if target:
            target.seek(at)
            target.write(block)
    size = min(size, os.fstat(source.fileno()).st_size)  # the file may have shrunk
    if target:
        target.truncate(size)
    return size, _SPARSE + digest.hexdigest()


def _data_blocks(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each block that is not all zeros."""
    at = 0
    while at < size and (start := _next_data(descriptor, at)) is not None:
        at = start - start % _BLOCK_BYTES
        piece = os.pread(descriptor, max(0, min(_PIECE_BYTES, size - at)), at)
        if not piece:
            return
        for offset in range(0, len(piece), _BLOCK_BYTES):
            block = piece[offset : offset + _BLOCK_BYTES]
            if block.count(0) < len(block):
                yield at + offset, block
        at += len(piece)


def _next_data(descriptor: int, at: int) -> int | None:
    """Return the offset of a file's next data; None if a hole extends to the end."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def _make(leaf: str, above: int) -> bool:
    """Make a folder; return False if the name exists."""
    try:
        os.mkdir(leaf, _PRIVATE_FOLDER, dir_fd=above)
    except FileExistsError:
        return False
    return True


def _is_rewritten(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether a file was changed, other than by lines at its end, as in logs."""
    return after.st_mtime_ns != before.st_mtime_ns and after.st_size <= before.st_size


def _has_attributes(descriptor: int) -> bool:
    try:
        return bool(os.listxattr(descriptor))
    except OSError:  # the file system has no extended attributes
        return False


def _set_status(descriptor: int, original: os.stat_result, mode: int) -> None:
    if os.geteuid() == 0:
        os.fchown(descriptor, original.st_uid, original.st_gid)
    os.fchmod(descriptor, mode)
    os.utime(descriptor, ns=(original.st_atime_ns, original.st_mtime_ns))


def _shorten(name: str) -> str:
    """Return the first part of a name that is too long for a message."""
    return f"{name[:60]}..."
