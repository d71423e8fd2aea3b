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
    """An attempt of this installation uses it."""
    FOREIGN = "FOREIGN"
    """A program that the server did not start uses it."""
    FAULTY = "FAULTY"
    """The GPU has a problem; the scheduler places no new replica on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpu:
    """A GPU of a node, or an instance of one that is divided (MIG)."""

    uuid: str
    index: int = 0
    """The driver's number of the GPU; an instance has the number of its GPU."""
    name: str = ""
    """The name that the driver reports."""
    type: str = ""
    """The type name that jobs request."""
    memory_bytes: int | None = None
    pci_bus_id: str = ""
    state: GpuState = GpuState.FREE
    who: str = ""
    """A description of the process that uses the GPU, for users."""
    problem: str = ""
    """The problem, when it started, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """The values that a GPU reported at one time; None means not measured, which is not 0."""

    at: datetime
    used_bytes: int | None = None
    """Memory in use, without the driver's own memory."""
    use: float | None = None
    """The share of the last sampling period in which at least one kernel ran, 0 to 1."""
    use_minute: float | None = None
    """The mean of ``use`` over the last minute."""
    power_w: float | None = None
    energy_j: float | None = None
    """The energy in joules that it has used since the driver was loaded."""
    is_energy_summed: bool = False
    """Whether the driver has no counter of energy: ``energy_j`` is then the sum of ``power_w``
    since the start of the server."""
    temperature_c: int | None = None
    ecc_errors: int | None = None
    """Uncorrectable errors of its memory since the driver was loaded."""
    throttled: tuple[str, ...] | None = None
    """The reasons for lower clocks, in the words of nvidia-smi."""
