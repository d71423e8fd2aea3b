"""What the driver's error numbers (Xids) mean for a GPU: whether anything new is placed on it.

The rule is NVIDIA's: a GPU is closed by what its catalog answers with a reset or a restart, and by
nothing that it answers with a restart of the program.  So 63 (a row will be remapped) and 94 (an
error that was contained) close nothing: the catalog lets programs go on until a reset suits.
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""

from datetime import datetime
from typing import Final

from trainshed.model.visible import visible_line

#: Those that close a GPU, in the words of the catalog.
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
#: Those that are logged and close nothing.
LOGGED: Final = {
    13: "graphics engine exception, mostly the program's own",
    31: "GPU memory page fault, mostly the program's own",
    43: "a fault of the program ended it; the GPU is healthy",
    45: "a program that was ended was cleaned up after",
    63: "a row of its memory will be remapped at the next reset",
    92: "high rate of corrected ECC errors",
    94: "a memory error that one program alone has felt; reset the GPU when it suits",
}
#: It says that another has changed what helps: the driver is asked.
RECOVERY_CHANGED: Final = 154

_FALLEN_OFF: Final = 79


def meaning(xid: int) -> str:
    """What an Xid says, in a few words."""
    words = CLOSING.get(xid) or LOGGED.get(xid)
    return f"Xid {xid} ({words})" if words else f"Xid {xid}"


def problem(what: str, since: datetime, remedy: str) -> str:
    """The sentence that a closed GPU bears."""
    return visible_line(f"{what} since {since:%Y-%m-%dT%H:%M:%SZ}: {remedy}")


def remedy(xid: int, uuid: str) -> str:
    """What opens a GPU again that an Xid has closed."""
    return RESTART if xid == _FALLEN_OFF else reset(uuid)


def reset(uuid: str) -> str:
    """The same for a GPU that is still there."""
    return (
        f"stop the server, reset it (nvidia-smi --gpu-reset -i {uuid}) or restart the machine, "
        "and start the server again"
    )


RESTART: Final = "restart the machine; if it comes again, look at the card, its power and its slot"
LOOK: Final = "see nvidia-smi and the kernel's log; it is given out again once the driver names it"
REPLACE: Final = "NVIDIA replaces such cards (nvidia-smi -q -d ROW_REMAPPER shows it)"
