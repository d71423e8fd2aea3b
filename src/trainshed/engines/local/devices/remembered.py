"""Which GPUs this machine has had since it was booted, in a file beside the attempts.

A server that starts after a GPU was lost hears nothing of it from the driver, and where all were
lost it would take the machine for one without.  Instances of divided GPUs (MIG) are not kept: they
may be divided anew while no server looks.
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


class _Kept(NamedTuple):
    """The file: of another boot, or another choice of GPUs, it says nothing of what is lost."""

    boot_id: str
    visible: str | None
    """CUDA_VISIBLE_DEVICES of the server."""
    gpus: tuple[GpuDevice, ...]


class Remembered:
    """The file of one server."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self._path = path
        self._gpus: tuple[GpuDevice, ...] = ()

    def load(self) -> Sequence[GpuDevice]:
        """The GPUs that were there; what cannot be read counts as none."""
        try:
            stored = decode(_Kept, read_json(str(self._path)))
        except (OSError, ValueError):
            return ()
        self._gpus = stored.gpus if stored == _now(stored.gpus) else ()
        return self._gpus

    def keep(self, devices: Sequence[GpuDevice]) -> None:
        """Write it where it has changed.  What cannot be written is tried again at the next look.

        Who is on a GPU is not kept.
        """
        gpus = tuple(replace(gpu, busy_pids=()) for gpu in devices if not gpu.gpu_uuid)
        if gpus == self._gpus:
            return
        try:
            write_json(str(self._path), encode(_now(gpus)))
        except OSError as error:
            _LOG.warning("cannot write the list of known GPUs: %s", error)
        else:
            self._gpus = gpus


def _now(gpus: tuple[GpuDevice, ...]) -> _Kept:
    return _Kept(boot_id(), os.environ.get(VISIBLE), gpus)
