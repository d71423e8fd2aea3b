"""The files that one replica may see and change: an engine decides, the supervisor applies it."""
# the supervisor of an attempt imports this, and must stay small

from collections.abc import Sequence
from typing import Final, NamedTuple, Optional


class ReplicaView(NamedTuple):
    """The isolation of one replica.  All paths are absolute."""

    mode: str
    """One of ``modes.MODES``; for a container, its runtime's arguments have the rest."""
    writes: tuple[str, ...] = ()
    """Folders and files that the replica may change."""
    reads: tuple[str, ...] = ()
    """Paths that it may read and execute besides the system's: Python, packages, Trainshed."""
    hides: tuple[str, ...] = ()
    """Folders that it does not see, except for paths in ``writes`` and ``reads``."""
    devices: tuple[str, ...] = ()
    """The device nodes of its GPUs; those of other GPUs cannot be opened."""
    tmp: str = ""
    """A folder of the attempt that is its /tmp, or its TMPDIR if /tmp cannot be replaced."""
    uid: Optional[int] = None
    """The user of the program; None: the supervisor's user."""
    gid: Optional[int] = None
    folders: tuple[tuple[str, str], ...] = ()
    """(folder on the machine, folder in the replica) of the folders that trainers expect
    (``replica_machine``)."""
    resolver: str = ""
    """The file for ``/etc/resolv.conf`` of builders of packages, in the job's network."""
    has_peers: bool = False
    """Whether other replicas must reach it by abstract sockets, as NCCL does on one machine."""
    refused_calls: tuple[str, ...] = ()
    """The families of system calls that it may not make (``seccomp``)."""
    refused_ports: tuple[int, ...] = ()
    """The server's TCP ports, which the replica may not bind to."""


class PrivateFolders(NamedTuple):
    """The root, folders and files of a replica, besides names and buckets."""

    root: str = ""
    """The folder of the attempt in which the replica's root is built; empty: no own root."""
    folders: Sequence[Sequence[str]] = ()
    """(folder on the machine, folder in the replica) to mount."""
    passwd: str | None = None
    """The file for ``/etc/passwd``."""
    profile: str | None = None
    """The file for ``/etc/profile``."""
    resolver: str | None = None
    """The file for ``/etc/resolv.conf``."""


NO_FOLDERS: Final = PrivateFolders()


class Mounts(NamedTuple):
    """The mounts of a replica, besides its view of the machine's files."""

    hosts: str | None = None
    """The file for ``/etc/hosts``."""
    binds: Sequence[Sequence[str]] = ()
    """(folder on the machine, folder in the replica)."""
    more: PrivateFolders = NO_FOLDERS
    """The replica's root, home and files of ``/etc``."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to mount."""
        return not (self.hosts or self.binds) and self.more == NO_FOLDERS


class IsolationFault(OSError):
    """Raised if a program cannot be isolated; the program is then not started."""

    def __init__(self, mode: str, error: OSError) -> None:
        """Name the mode and the step that failed, for the job's events."""
        name = error.filename or "the isolation"
        step = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        super().__init__(error.errno, error.strerror, f"isolation {mode}: {step}")
