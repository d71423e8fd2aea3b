"""The file with the newest readings of a node's GPUs, which supervisors read.

A supervisor never calls the driver: a driver that hangs would stop the supervisor.  On the server's
machine the server writes the file, for all attempts; on a node of a cluster a helper of the
attempt writes it (``engines.warden.gpu_helper``).

Programs of the job may have replaced the file where they run as the same user, so it is checked as
a stranger's.  Standard library only, and Python 3.9: wardens import this module.
"""

import json
import os
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, Optional

from trainshed.engines.supervise.record.folder import AttemptFolder, read_file, write_json
from trainshed.files.beneath import PathBeneath

NAME: Final = "node_gpus.json"
#: Seconds between two writes of the file.
EVERY_S: Final = 10.0
#: The maximum age of the readings in seconds: if they are older, the driver hangs or the writer is
#: gone, and the GPUs count as not measured.
FRESH_S: Final = 30.0

_BYTES_MAX: Final = 1 << 16
_GPUS_MAX: Final = 256
_UUID_LENGTH_MAX: Final = 128


class GpuFigures(NamedTuple):
    """The readings of one GPU; None: not measured, which is not 0."""

    use: Optional[float] = None
    """The mean since the last write of the share of time in which a kernel ran, 0 to 1.  It is 0
    only if no kernel ran in any reading."""
    memory: Optional[float] = None
    """The memory in use, in bytes."""
    power: Optional[float] = None
    """The mean power since the last write, in watts."""
    temperature: Optional[float] = None
    """In degrees Celsius."""
    energy_j: Optional[float] = None
    """A counter in joules.  It begins again at 0 when the driver is loaded, or when the writer
    starts if the driver has no counter."""
    unused_s: Optional[float] = None
    """For how many seconds no reading has shown use; None on nodes of clusters."""
    task: Optional[str] = None
    """The task name of the replica that has the GPU; None: unknown.  It is not in the file."""


#: The largest believable value of each figure.
_LARGEST: Final[Mapping[str, float]] = {
    "use": 1.0,
    "memory": float(1 << 50),
    "power": 1e5,
    "temperature": 1e3,
    "energy_j": 1e15,
    "unused_s": 1e9,
}


class GpuReport(NamedTuple):
    """The content of the file."""

    at: float
    """The time of the readings, in seconds since 1970."""
    gpus: Mapping[str, GpuFigures]
    """By UUID."""


def locate_gpu_file(folder: AttemptFolder, *, is_on_cluster: bool) -> str:
    """Return the path of the file for an attempt.

    On a cluster it is in the folder of the attempt, or of the warden.  On the server's machine it
    is beside the folder of all jobs.
    """
    above = folder.path if is_on_cluster else os.path.dirname(os.path.dirname(folder.job))
    return f"{above}/{NAME}"


def write_gpu_file(path: str, at: float, gpus: Mapping[str, GpuFigures]) -> None:
    """Replace the file.  Raises OSError."""
    document = {
        uuid: {name: value for name, value in figures._asdict().items() if value is not None}
        for uuid, figures in gpus.items()
    }
    write_json(path, {"at": at, "gpus": document})


def read_gpu_file(path: str, now_s: float) -> Optional[GpuReport]:
    """Read the file; None if it is missing, damaged or older than ``FRESH_S`` seconds.

    ``now_s`` is the present time in seconds since 1970.  Figures that no GPU can have are None.
    """
    try:
        document = json.loads(read_file(PathBeneath.of_file(path), bytes_max=_BYTES_MAX))
        at, gpus = float(document["at"]), dict(document["gpus"])
    except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None
    if not abs(now_s - at) <= FRESH_S or len(gpus) > _GPUS_MAX:  # NaN is not fresh
        return None
    return GpuReport(at, parse_gpus(gpus))


def parse_gpus(document: Any) -> dict[str, GpuFigures]:
    """Parse figures by UUID; leave out what is no number or what no GPU can have."""
    if not isinstance(document, dict) or len(document) > _GPUS_MAX:
        return {}
    return {
        uuid: _parse_figures(row)
        for uuid, row in document.items()
        if isinstance(row, dict) and len(uuid) <= _UUID_LENGTH_MAX
    }


def _parse_figures(row: Mapping[str, Any]) -> GpuFigures:
    numbers: dict[str, Any] = {name: _check_figure(row, name) for name in _LARGEST}
    return GpuFigures(**numbers)


def read_own_gpus(path: str, own: Collection[str], now_s: float) -> dict[str, GpuFigures]:
    """Read the fresh figures of the GPUs with these UUIDs; none: of all GPUs in the file."""
    report = read_gpu_file(path, now_s)
    gpus = {} if report is None else report.gpus
    return {uuid: figures for uuid, figures in gpus.items() if not own or uuid in own}


def _check_figure(row: Mapping[str, Any], name: str) -> Optional[float]:
    value = row.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= _LARGEST[name] else None
