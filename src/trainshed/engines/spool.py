"""Reads and writes the spool: the folder that server and nodes share, perhaps at two paths.

Jobs run as the server's own user and can change the content of the folder.  So the server follows
no link in the folder, refuses folders of other users, and runs no program from it.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from trainshed.engines import node_files
from trainshed.engines.supervise.record.folder import AttemptFolder, read_json, sync_folder
from trainshed.engines.warden.hold import CLAIM, create_claim
from trainshed.files.beneath import Beneath, FileKind, give_mode
from trainshed.files.trees import remove_tree
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault, UsageFault

#: Mode of folders that only the server's user may enter.
PRIVATE: Final = 0o700
#: Mode of folders that other users may pass but not list.  A kubelet resolves the path of a mount
#: as root, which a file server may treat as a user without rights.
PASSABLE: Final = 0o711
_PERMISSIONS: Final = 0o777
_JOBS: Final = "jobs"
_LIBRARY: Final = "lib"
#: Content of a claim of the server, in place of the identity of a job.
_SERVER_CLAIM: Final = b"server"
_CLAIM_BYTES_MAX: Final = 1 << 20

T = TypeVar("T")


class Spool:
    """One installation's part of the shared folder."""

    def __init__(
        self, server_root: str, node_root: str, installation: str, *, mode: int = PRIVATE
    ) -> None:
        """``server_root`` is the path of the folder on the server, ``node_root`` on the nodes.

        ``mode`` is that of the folders above the folders of attempts: PRIVATE or PASSABLE.
        """
        self.server_path = f"{server_root}/{installation}"
        self.node_path = f"{node_root}/{installation}"
        self._root = server_root
        self._mode = mode

    @property
    def jobs(self) -> str:
        """The folder of all jobs, as the server sees it."""
        return f"{self.server_path}/{_JOBS}"

    @property
    def library(self) -> str:
        """The folder of the files for nodes, as the server sees it."""
        return f"{self.server_path}/{_LIBRARY}"

    def open(self) -> None:
        """Create the folders, and give older folders their mode.

        Raises OSError, or UsageFault for a folder that is not usable.
        """
        if not os.path.isdir(self._root):
            raise UsageFault(
                f"the spool {self._root} must be a folder that server and nodes share; create the "
                "folder, or correct `spool` in [[engine]]"
            )
        for path in (self.server_path, self.jobs, self.library):
            with suppress(FileExistsError):
                os.mkdir(path, self._mode)
            if reason := _explain_unusable(path):
                raise UsageFault(f"{path} must be a folder of the server's user, but it {reason}")
            self._let_others_pass(path)

    def to_node_path(self, path: str) -> str:
        """Translate a path in the spool on the server to its path on the nodes."""
        return self.node_path + _cut_start(path, self.server_path)

    def to_server_path(self, path: str) -> str:
        """Translate a path in the spool on the nodes to its path on the server."""
        return self.server_path + _cut_start(path, self.node_path)

    def to_sub_path(self, path: str) -> str:
        """Translate a path in the spool on the server to a path relative to the shared folder.

        Mounts of a volume name their folder by such a path.
        """
        return _cut_start(path, self._root)[1:]

    def folder(self, key: AttemptKey) -> AttemptFolder:
        """Return the folder of an attempt, with its path on the server."""
        return AttemptFolder(f"{self.jobs}/{key.uid}/{key.attempt}")

    def folder_on_nodes(self, key: AttemptKey) -> AttemptFolder:
        """Return the folder of an attempt, with its path on the nodes."""
        return AttemptFolder(f"{self.node_path}/{_JOBS}/{key.uid}/{key.attempt}")

    def check(self, key: AttemptKey) -> None:
        """Raise EngineFault if a folder of an attempt is a link or belongs to another user."""
        folder = self.folder(key)
        for path in (folder.job, folder.path):
            if os.path.lexists(path) and (reason := _explain_unusable(path)):
                raise EngineFault(f"cannot use the folder {path}: it {reason}")

    def make(self, key: AttemptKey) -> AttemptFolder:
        """Create the folder of an attempt, which is always private.

        Raises OSError or EngineFault.
        """
        folder = self.folder(key)
        for path in (folder.job, folder.path, folder.work):
            with suppress(FileExistsError):
                os.mkdir(path, PRIVATE)
        self.check(key)
        self._let_others_pass(folder.job)
        sync_folder(folder.job)
        return folder

    def _let_others_pass(self, path: str) -> None:
        """Set the mode of a folder, if others may pass it.  Raises OSError."""
        if self._mode == PRIVATE:
            return
        with Beneath(self._root) as root:
            descriptor = root.open(self.to_sub_path(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            if os.fstat(descriptor).st_mode & _PERMISSIONS != self._mode:
                give_mode(descriptor, self._mode)
        finally:
            os.close(descriptor)

    def has(self, name: str) -> bool:
        """Return whether a file for nodes exists; False without the shared file system."""
        return os.path.isfile(f"{self.library}/{name}")

    def keep(self, name: str, data: bytes, mode: int = 0o600) -> str:
        """Store a file for the nodes and return its path on the nodes.  Raises OSError."""
        path = f"{self.library}/{name}"
        node_files.keep_file(path, data, mode)
        return self.to_node_path(path)

    def keep_folder(self, name: str, files: Mapping[str, bytes]) -> str:
        """Store a folder for the nodes and return its path on the nodes.  Raises OSError.

        ``files`` has the content of each file by its path in the folder.  All users can read and
        execute the files.  Replaces a stored folder that differs.
        """
        path = f"{self.library}/{name}"
        node_files.keep_folder(path, files)
        return self.to_node_path(path)

    def list_keys(self) -> Iterator[AttemptKey]:
        """Yield all attempts that have a folder.  Raises OSError."""
        for uid in self._list_numbers(""):
            yield from self.attempts_of(uid)

    def attempts_of(self, uid: int) -> list[AttemptKey]:
        """List the attempts of a job that have a folder.  Raises OSError."""
        return [AttemptKey(uid, number) for number in self._list_numbers(str(uid))]

    def remove(self, uid: int) -> None:
        """Remove the folder of a job.  Raises OSError."""
        with suppress(FileNotFoundError):
            remove_tree(f"{self.jobs}/{uid}")

    def _list_numbers(self, name: str) -> list[int]:
        """List the folders in a folder of ``jobs`` whose names are numbers."""
        try:
            with Beneath(self.jobs) as jobs:
                entries = jobs.entries(name)
        except FileNotFoundError:
            return []
        return sorted(
            int(entry) for entry, kind in entries if kind is FileKind.FOLDER and entry.isdecimal()
        )


def take_claim(folder: AttemptFolder) -> bool:
    """Create the server's claim, so that no job begins the attempt.  Raises OSError.

    Returns False if a job has the claim already.
    """
    return create_claim(folder, _SERVER_CLAIM) or _is_claimed_by_server(folder)


def _is_claimed_by_server(folder: AttemptFolder) -> bool:
    return read_claim(folder, len(_SERVER_CLAIM)) == _SERVER_CLAIM


def is_claimed(folder: AttemptFolder) -> bool:
    """Return whether a claim exists, from a list of the folder: NFS may not find a new name."""
    try:
        with Beneath(folder.path) as own:
            return any(name == CLAIM for name, _ in own.entries())
    except FileNotFoundError:
        return False


def read_claim(folder: AttemptFolder, bytes_max: int = _CLAIM_BYTES_MAX) -> bytes:
    """Read the beginning of the claim; empty: no claim, or one that cannot be read."""
    try:
        with Beneath(folder.path) as own, own.read(CLAIM) as file:
            return file.read(bytes_max)
    except OSError:
        return b""


def read_document(folder: AttemptFolder, name: str, parse_document: Callable[[Any], T]) -> T | None:
    """Read a JSON file of an attempt; None: there is none.

    Raises OSError, or ValueError if a program of the job has damaged the file.
    """
    path = f"{folder.path}/{name}"
    try:
        return parse_document(read_json(path))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"cannot read {path}: malformed content: {error!r:.200}") from error


def _cut_start(path: str, root: str) -> str:
    """Return the part of a path after a folder above it, with the slash between them."""
    if not path.startswith(f"{root}/"):
        raise AssertionError(f"{path} is not below {root}")
    return path[len(root) :]


def _explain_unusable(path: str) -> str:
    """Return why a path is not a folder of the server's user; empty if it is such a folder."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return "is a link"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a folder"
    return "" if status.st_uid == os.geteuid() else f"belongs to the user {status.st_uid}"
