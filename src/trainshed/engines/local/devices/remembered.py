"""Stores the GPUs that this machine has had since its boot, in a file next to the attempts.

The driver does not list a GPU that was lost before the server started.  Without this file, a
machine that has lost all its GPUs would count as a machine without GPUs.  Instances of divided GPUs
(MIG) are not stored: the GPUs may be divided again while no server runs.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.nvml import VISIBLE
from trainshed.engines.processes.identity import boot_id
from trainshed.engines.supervise.record.folder import read_json, write_json
from trainshed.model.codec import decode, encode

_LOG = logging.getLogger(__name__)


class _Stored(NamedTuple):
    """The content of the file; it is valid for one boot and one choice of visible GPUs."""

    boot_id: str
    visible: str | None
    """CUDA_VISIBLE_DEVICES of the server."""
    gpus: tuple[GpuDevice, ...]


class Remembered:
    """The file with the GPUs of this machine, for one server."""

    def __init__(self, path: Path) -> None:
        """Do not read the file yet."""
        self._path = path
        self._gpus: tuple[GpuDevice, ...] = ()

    def load(self) -> Sequence[GpuDevice]:
        """Return the stored GPUs; none if the file cannot be read or is not valid now."""
        try:
            stored = decode(_Stored, read_json(str(self._path)))
        except (OSError, ValueError):
            return ()
        self._gpus = stored.gpus if stored == _make_stored(stored.gpus) else ()
        return self._gpus

    def keep(self, devices: Sequence[GpuDevice]) -> None:
        """Write the file if the GPUs have changed; if that fails, the next call tries again.

        The processes on a GPU are not stored.
        """
        gpus = tuple(replace(gpu, busy_pids=()) for gpu in devices if not gpu.gpu_uuid)
        if gpus == self._gpus:
            return
        try:
            write_json(str(self._path), encode(_make_stored(gpus)))
        except OSError as error:
            _LOG.warning("cannot write the list of this machine's GPUs: %s", error)
        else:
            self._gpus = gpus


def _make_stored(gpus: tuple[GpuDevice, ...]) -> _Stored:
    return _Stored(boot_id(), os.environ.get(VISIBLE), gpus)
