"""The GPUs of a node: their identity, whether jobs may use them, and their current load.

A ``NodeGpu`` is stored with its node and changes rarely.  A ``GpuSample`` is valid for a few
seconds, and is never stored in the database.
"""

import enum
from dataclasses import dataclass
from datetime import datetime


class GpuState(enum.Enum):
    """Whether jobs may use a GPU."""

    FREE = "FREE"
    HELD = "HELD"
    """An attempt of this installation has it."""
    FOREIGN = "FOREIGN"
    """A program uses it without asking the server."""
    FAULTY = "FAULTY"
    """Something is wrong with it; nothing new is placed on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpu:
    """A GPU of a node, or an instance of one that is divided (MIG)."""

    uuid: str
    index: int = 0
    """The driver's number; instances have that of their GPU."""
    name: str = ""
    """As the driver writes it."""
    type: str = ""
    """The word by which jobs ask for it."""
    memory_bytes: int | None = None
    pci_bus_id: str = ""
    state: GpuState = GpuState.FREE
    who: str = ""
    """The process that has it, for people."""
    problem: str = ""
    """What is wrong with it, since when, and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """The values that a GPU reported at one time; None means not measured, which is not 0."""

    at: datetime
    used_bytes: int | None = None
    """Memory in use, without what the driver keeps for itself."""
    use: float | None = None
    """The share of the last instants in which any kernel ran, 0 to 1: not how busy it was."""
    use_minute: float | None = None
    """The mean of ``use`` over the last minute."""
    power_w: float | None = None
    temperature_c: int | None = None
    ecc_errors: int | None = None
    """Uncorrectable errors of its memory since the driver was loaded."""
    throttled: tuple[str, ...] | None = None
    """Why its clocks are lower than they could be, in the words of nvidia-smi."""
