"""The meaning of the driver's error numbers (Xids): whether new replicas may use the GPU.

The rule is NVIDIA's: an Xid closes a GPU if the catalog's remedy is a reset or a restart of the
machine, and closes nothing if the remedy is a restart of the program.  So 63 (a row will be
remapped) and 94 (a contained error) close nothing: by the catalog, programs may run until a
convenient time for the reset.
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""

from datetime import datetime
from typing import Final

from trainshed.model.visible import visible_line

#: Xids that close a GPU, with the catalog's description.
CLOSING: Final = {
    46: "the GPU stopped processing",
    48: "double bit ECC error",
    62: "internal micro-controller halt",
    64: "GPU memory remapping failure",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    95: "uncontained memory error",
    109: "context switch timeout",
    110: "security fault",
    119: "GSP RPC timeout",
    120: "GSP error",
    140: "unrecovered ECC error",
    143: "GPU initialization error",
    158: "GPU fatal timeout",
}
#: Xids that are logged and close nothing.
LOGGED: Final = {
    13: "graphics engine exception, mostly the program's own",
    31: "GPU memory page fault, mostly the program's own",
    43: "a fault of the program ended it; the GPU is healthy",
    45: "the driver cleaned up after a program that was ended",
    63: "a row of its memory will be remapped at the next reset",
    92: "high rate of corrected ECC errors",
    94: "a memory error that affects one program only; reset the GPU at a convenient time",
}

_FALLEN_OFF: Final = 79


def meaning(xid: int) -> str:
    """Return the number of an Xid with a short description."""
    words = CLOSING.get(xid) or LOGGED.get(xid)
    return f"Xid {xid} ({words})" if words else f"Xid {xid}"


def problem(what: str, since: datetime, remedy: str) -> str:
    """Return the text for a closed GPU: the reason, the time and the remedy."""
    return visible_line(f"{what} since {since:%Y-%m-%dT%H:%M:%SZ}: {remedy}")


def remedy(xid: int, uuid: str) -> str:
    """Return the instruction that makes a GPU usable again after an Xid has closed it."""
    return RESTART if xid == _FALLEN_OFF else reset(uuid)


def reset(uuid: str) -> str:
    """Return the instruction to reset a GPU that the driver can still reach."""
    return (
        f"stop the server, reset it (nvidia-smi --gpu-reset -i {uuid}) or restart the machine, "
        "and start the server again"
    )


RESTART: Final = "restart the machine; if it happens again, check the card, its power and its slot"
LOOK: Final = "see nvidia-smi and the kernel's log; jobs get it again once the driver lists it"
REPLACE: Final = "NVIDIA replaces such cards (nvidia-smi -q -d ROW_REMAPPER shows it)"
