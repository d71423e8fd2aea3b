"""Reads and writes the spool: the folder that server and nodes share, perhaps at two paths.

Jobs run as the server's own user and can change the content of the folder.  So the server follows
no link in the folder, refuses folders of other users, and runs no program from it.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from trainshed.engines.slurm import parse
from trainshed.engines.supervise.record.folder import (
    AttemptFolder,
    read_json,
    sync_folder,
    write_json,
)
from trainshed.engines.warden.hold import CLAIM, create_claim
from trainshed.files.beneath import Beneath, FileKind
from trainshed.files.trees import remove_tree
from trainshed.model.attempt import AttemptKey, Loss
from trainshed.model.codec import decode, encode
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.roles import Role

_PRIVATE: Final = 0o700
_JOBS: Final = "jobs"
_LIBRARY: Final = "lib"
_SUBMITTED: Final = "slurm.json"
_ENDED: Final = "slurm-end.json"
_NUMBER_MAX: Final = 32

T = TypeVar("T")


class Placing(NamedTuple):
    """The replicas of one part of an attempt; ``spread`` derives their nodes."""

    replicas: tuple[tuple[Role, int], ...]
    per_node: int | None = None


class SpoolRecord(NamedTuple):
    """The record of a submission, written before sbatch runs and again with the job's number."""

    since_s: float
    job: str = ""
    """Slurm's number; empty: not known yet."""
    parts: tuple[Placing, ...] = ()
    shape: str = ""
    """A hash of the request to Slurm."""
    kept: int = 0
    """Number of the attempt whose allocation was kept for this attempt; 0: a new allocation."""


class EndInSlurm(NamedTuple):
    """The end of an attempt as Slurm reported it, stored because Slurm forgets it."""

    fault: str = ""
    loss: Loss | None = None
    """Set for an attempt that was lost."""
    nodes: tuple[str, ...] = ()
    """Nodes that the next attempt should avoid."""
    stands: bool = False
    """Whether the end in the attempt's records is the end of the attempt."""
    early: bool = False
    """Whether an order ended the attempt before the attempt began."""
    never: bool = False
    """Whether the attempt could never be started."""


class Spool:
    """One installation's part of the shared folder."""

    def __init__(self, server_root: str, node_root: str, installation: str) -> None:
        """``server_root`` is the path of the folder on the server, ``node_root`` on the nodes."""
        self.server_path = f"{server_root}/{installation}"
        self.node_path = f"{node_root}/{installation}"
        self._root = server_root

    @property
    def jobs(self) -> str:
        """The folder of all jobs, as the server sees it."""
        return f"{self.server_path}/{_JOBS}"

    def open(self) -> None:
        """Create the folders.  Raises OSError, or UsageFault for a folder that is not usable."""
        if not os.path.isdir(self._root):
            raise UsageFault(
                f"the spool {self._root} must be a folder that server and nodes share; create the "
                "folder, or correct `spool` in [[engine]]"
            )
        for path in (self.server_path, self.jobs, f"{self.server_path}/{_LIBRARY}"):
            with suppress(FileExistsError):
                os.mkdir(path, _PRIVATE)
            if reason := _explain_unusable(path):
                raise UsageFault(f"{path} must be a folder of the server's user, but it {reason}")

    def to_node_path(self, path: str) -> str:
        """Translate a path in the spool on the server to its path on the nodes."""
        if not path.startswith(f"{self.server_path}/"):
            raise AssertionError(f"{path} is not below {self.server_path}")
        return self.node_path + path[len(self.server_path) :]

    def to_server_path(self, path: str) -> str:
        """Translate a path in the spool on the nodes to its path on the server."""
        if not path.startswith(f"{self.node_path}/"):
            raise AssertionError(f"{path} is not below {self.node_path}")
        return self.server_path + path[len(self.node_path) :]

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

    def has(self, name: str) -> bool:
        """Return whether a file for nodes exists; False without the shared file system."""
        return os.path.isfile(f"{self.server_path}/{_LIBRARY}/{name}")

    def make(self, key: AttemptKey) -> AttemptFolder:
        """Create the folder of an attempt.  Raises OSError or EngineFault."""
        folder = self.folder(key)
        for path in (folder.job, folder.path, folder.work):
            with suppress(FileExistsError):
                os.mkdir(path, _PRIVATE)
        self.check(key)
        sync_folder(folder.job)
        return folder

    def keep(self, name: str, data: bytes, mode: int = 0o600) -> str:
        """Store a file for the nodes and return its path on the nodes.  Raises OSError."""
        path = f"{self.server_path}/{_LIBRARY}/{name}"
        if not _is_stored(path, data):
            draft = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(draft, flags, mode), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            sync_folder(os.path.dirname(path))
        return self.to_node_path(path)

    def keep_script(self, name: str, text: str, *, is_remote: bool) -> str:
        """Store a script and return its path for sbatch, which reads it.  Raises OSError.

        ``is_remote``: sbatch runs on a login node, where the spool has the same path as on nodes.
        """
        node_path = self.keep(name, text.encode(), 0o700)
        return node_path if is_remote else f"{self.server_path}/{_LIBRARY}/{name}"

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


def read_submission(folder: AttemptFolder) -> SpoolRecord | None:
    """Read the record of a submission; None: there is none.  Raises OSError or ValueError."""
    return _read(folder, _SUBMITTED, _parse_submission)


def keep_submitted(folder: AttemptFolder, record: SpoolRecord) -> None:
    """Store the record of a submission durably.  Raises OSError."""
    parts = [
        ([(role.value, index) for role, index in part.replicas], part.per_node)
        for part in record.parts
    ]
    value = {**record._asdict(), "parts": parts}
    write_json(f"{folder.path}/{_SUBMITTED}", value, durably=True)


def read_end(folder: AttemptFolder) -> EndInSlurm | None:
    """Read the stored end of an attempt; None: there is none.  Raises OSError or ValueError."""
    return _read(folder, _ENDED, partial(decode, EndInSlurm))


def keep_end(folder: AttemptFolder, end: EndInSlurm) -> None:
    """Store the end of an attempt durably.  Raises OSError."""
    write_json(f"{folder.path}/{_ENDED}", encode(end), durably=True)


def take_claim(folder: AttemptFolder) -> bool:
    """Create the server's claim, so that no job begins the attempt.  Raises OSError.

    Returns False if a job has the claim already.
    """
    return create_claim(folder, _SERVER_CLAIM) or _is_claimed_by_server(folder)


def is_claimed(folder: AttemptFolder) -> bool:
    """Return whether a claim exists, from a list of the folder: NFS may not find a new name."""
    try:
        with Beneath(folder.path) as own:
            return any(name == CLAIM for name, _ in own.entries())
    except FileNotFoundError:
        return False


def read_nodes(folder: AttemptFolder) -> list[tuple[str, ...]]:
    """Read the nodes of each part from the claim of a job; empty if no job has the claim."""
    try:
        with Beneath(folder.path) as own, own.read(CLAIM) as file:
            words = file.read(_CLAIM_BYTES_MAX).decode(errors="replace").split()
        return [tuple(islice(parse.host_names(word), _NODES_MAX)) for word in words[1:]]
    except (OSError, ValueError):
        return []


#: Limits for reading a claim: the number of nodes, and of bytes.
_NODES_MAX: Final = 100_000
_CLAIM_BYTES_MAX: Final = 1 << 20
#: Content of a claim of the server, in place of a job's number.
_SERVER_CLAIM: Final = b"server"


def _is_claimed_by_server(folder: AttemptFolder) -> bool:
    try:
        with Beneath(folder.path) as own, own.read(CLAIM) as file:
            return file.read(len(_SERVER_CLAIM)) == _SERVER_CLAIM
    except OSError:
        return False


def read_claimant(folder: AttemptFolder) -> str:
    """Return the number of the job that has the claim; empty: no job, or a damaged claim."""
    try:
        with Beneath(folder.path) as own, own.read(CLAIM) as file:
            number = file.read(_NUMBER_MAX).partition(b" ")[0].strip()
    except OSError:
        return ""
    return number.decode() if number.isdigit() else ""


def _read(folder: AttemptFolder, name: str, parse_document: Callable[[Any], T]) -> T | None:
    """Read a file of an attempt; raise ValueError if a program of the job has damaged the file."""
    path = f"{folder.path}/{name}"
    try:
        return parse_document(read_json(path))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"cannot read {path}: malformed content: {error!r:.200}") from error


def _parse_submission(document: Any) -> SpoolRecord:
    parts = tuple(
        Placing(tuple((Role(role), int(index)) for role, index in replicas), per_node)
        for replicas, per_node in document["parts"]
    )
    job = document["job"]
    if job and not (job.isascii() and job.isdecimal()):
        raise ValueError(f"job must be a number, got {job!r:.100}")
    shape, kept_from = str(document.get("shape", "")), int(document.get("kept", 0))
    return SpoolRecord(float(document["since_s"]), job, parts, shape, kept_from)


def _is_stored(path: str, data: bytes) -> bool:
    try:
        if stat.S_ISREG(os.lstat(path).st_mode):
            with open(path, "rb") as file:
                return file.read(len(data) + 1) == data
    except FileNotFoundError:
        pass
    return False


def _explain_unusable(path: str) -> str:
    """Return why a path is not a folder of the server's user; empty if it is such a folder."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return "is a link"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a folder"
    return "" if status.st_uid == os.geteuid() else f"belongs to the user {status.st_uid}"


def spread(
    parts: Sequence[Placing], nodes: Sequence[Sequence[str]]
) -> Iterator[tuple[Role, int, str]]:
    """Yield the role, index and node of each replica: Slurm fills one node after the other."""
    for part, names in zip(parts, nodes, strict=False):
        per_node = part.per_node or -(-len(part.replicas) // max(1, len(names)))
        for position, (role, index) in enumerate(part.replicas):
            if position // per_node < len(names):
                yield role, index, names[position // per_node]
