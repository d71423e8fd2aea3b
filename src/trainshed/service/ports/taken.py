"""Says which process has a port that a server wants, and what to do about it."""

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainshed.engines.processes import tree
from trainshed.engines.processes.listeners import ListeningSocket, find_listener
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.service.ports.attempts import attempt_folders

#: The module in the command line of a holder.
_HOLDER: Final = "trainshed.service.ports.holder"


def why_taken(error: OSError, port: int, data_dir: Path) -> str:
    """Return the reason of a refused bind; for a port in use, which process has it."""
    reason = str(error.strerror or error).partition(" (while attempting")[0]
    if error.errno != errno.EADDRINUSE or not port:
        return reason
    listener = find_listener(port)
    if listener is None:
        return f"{reason}, by a socket that no process listens on"
    return f"{reason}, by {listener}{_owner_of(listener, data_dir)}"


def _owner_of(listener: ListeningSocket, data_dir: Path) -> str:
    """Return what is known of the process besides its name, as the end of a sentence."""
    if listener.pid is None:
        return ""
    if is_holder(listener.pid):
        return (
            ", which keeps the ports of a server that is away while its jobs run on: start that "
            f"server, or give its ports up with kill {listener.pid}"
        )
    key = _attempt_of(listener.pid, data_dir)
    owner = f", a program of the attempt {key} of this server's jobs" if key else ""
    return f"{owner}: end it with kill {listener.pid}"


def is_holder(pid: int) -> bool:
    """Whether a process is the holder of a server's ports, by its command line."""
    try:
        return _HOLDER in tree.read(f"/proc/{pid}/cmdline")
    except OSError:
        return False


def _attempt_of(pid: int, data_dir: Path) -> str:
    """Return ``UID/ATTEMPT`` of the attempt that a process belongs to; empty without one."""
    ancestors: set[int] = set()
    with suppress(OSError):  # a process that has ended
        ancestors.update(tree.ancestors(pid))
    for path in attempt_folders(f"{data_dir}/jobs"):
        holder = AttemptFolder(path).holder()
        if holder is not None and holder.pid in ancestors:
            return "/".join(Path(path).parts[-2:])
    return ""
