"""What one replica may see and change: the engine writes it, the supervisor builds it."""
# the supervisor of an attempt imports this, and must stay small

from collections.abc import Sequence
from typing import NamedTuple, Optional

from trainshed.engines.isolation.mounts import NO_FOLDERS, PrivateFolders


class ReplicaView(NamedTuple):
    """The walls around one replica.  All paths are absolute."""

    mode: str
    """One of ``isolation_modes.MODES``; a container's own words say the rest."""
    writes: tuple[str, ...] = ()
    """Folders and files that it may change."""
    reads: tuple[str, ...] = ()
    """What it may read and execute besides the system's own: interpreters, packages, our source."""
    hides: tuple[str, ...] = ()
    """Folders that are not there for it, but for what lies in them and is named above."""
    devices: tuple[str, ...] = ()
    """The device nodes of its GPUs; those of other GPUs cannot be opened."""
    tmp: str = ""
    """A folder of the attempt that is its /tmp, or its TMPDIR where /tmp cannot be replaced."""
    uid: Optional[int] = None
    """The user of the program, if not the supervisor's."""
    gid: Optional[int] = None
    folders: tuple[tuple[str, str], ...] = ()
    """(folder here, folder there): what trainers expect of a machine (``replica_machine``)."""
    resolver: str = ""
    """A file that is the ``/etc/resolv.conf`` of what builds packages, in the job's network."""
    has_peers: bool = False
    """Whether other replicas must reach it by abstract sockets, as NCCL does on one machine."""
    refused_calls: tuple[str, ...] = ()
    """The families of system calls that it may not make (``seccomp``)."""
    refused_ports: tuple[int, ...] = ()
    """TCP ports that it may not bind to: the server's."""


class Mounts(NamedTuple):
    """What a replica sees besides the machine's own files, where it may have mounts."""

    hosts: str | None = None
    """A file that is its ``/etc/hosts``."""
    binds: Sequence[Sequence[str]] = ()
    """(folder here, folder there)."""
    more: PrivateFolders = NO_FOLDERS
    """Its root, home and files of ``/etc``."""


class WallFault(OSError):
    """A wall cannot be built: the program is not started."""

    def __init__(self, mode: str, error: OSError) -> None:
        """Say which wall, in words for the job's story."""
        what = error.filename or "the walls"
        place = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
        super().__init__(error.errno, error.strerror, f"isolation {mode}: {place}")
