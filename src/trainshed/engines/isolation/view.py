"""Which files one replica may see and change: the engine writes this, the supervisor applies it."""
# the supervisor of an attempt imports this, and must stay small

from collections.abc import Sequence
from typing import NamedTuple, Optional

from trainshed.engines.isolation.mounts import NO_FOLDERS, PrivateFolders


class ReplicaView(NamedTuple):
    """The isolation of one replica.  All paths are absolute."""

    mode: str
    """One of ``modes.MODES``; for a container, the arguments of its runtime say the rest."""
    writes: tuple[str, ...] = ()
    """Folders and files that it may change."""
    reads: tuple[str, ...] = ()
    """What it may read and execute besides the system's own: interpreters, packages, our source."""
    hides: tuple[str, ...] = ()
    """Folders that it does not see, except the paths in them that are listed above."""
    devices: tuple[str, ...] = ()
    """The device nodes of its GPUs; those of other GPUs cannot be opened."""
    tmp: str = ""
    """A folder of the attempt that is its /tmp, or its TMPDIR where /tmp cannot be replaced."""
    uid: Optional[int] = None
    """The user of the program, if not the supervisor's."""
    gid: Optional[int] = None
    folders: tuple[tuple[str, str], ...] = ()
    """(folder on the machine, folder in the replica): what trainers expect of a machine
    (``replica_machine``)."""
    resolver: str = ""
    """The file for ``/etc/resolv.conf`` of builders of packages, in the job's network."""
    has_peers: bool = False
    """Whether other replicas must reach it by abstract sockets, as NCCL does on one machine."""
    refused_calls: tuple[str, ...] = ()
    """The families of system calls that it may not make (``seccomp``)."""
    refused_ports: tuple[int, ...] = ()
    """TCP ports that it may not bind to: the server's."""


class Mounts(NamedTuple):
    """What a replica sees besides the machine's own files, where it may have mounts."""

    hosts: str | None = None
    """The file for ``/etc/hosts``."""
    binds: Sequence[Sequence[str]] = ()
    """(folder on the machine, folder in the replica)."""
    more: PrivateFolders = NO_FOLDERS
    """Its root, home and files of ``/etc``."""


class IsolationFault(OSError):
    """A program cannot be isolated, and is not started."""

    def __init__(self, mode: str, error: OSError) -> None:
        """Name the mode and the step that failed, for the job's events."""
        name = error.filename or "the isolation"
        step = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        super().__init__(error.errno, error.strerror, f"isolation {mode}: {step}")
