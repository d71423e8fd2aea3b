"""Finds the holders of this machine's devices by locks and running processes; locks nothing.

A device that another program uses counts as held, and is still listed, so that jobs wait for it.
The same is true for a faulty device, and for a device that the driver no longer lists: a machine
without GPUs in its list would start to run jobs without GPUs.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices import xids
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.engines.local.devices.remembered import Remembered
from trainshed.model.faults import EngineFault


def holder(device: GpuDevice, lock_dir: Path | None = None) -> str | None:
    """Return the holder, such as ``process 12 (attempt 7/1)``; None if the device is free.

    In this module ``lock_dir`` is for tests; the default is the directory that all users share.
    A lock that cannot be read counts as held.
    """
    try:
        locked = device_locks.holder_of(lock_dir or device_locks.shared_directory(), device.uuid)
    except EngineFault as fault:
        return str(fault)
    if locked is not None:
        return str(locked)
    return processes(device) if device.busy_pids else None


def processes(device: GpuDevice) -> str:
    """Return the processes that compute on a device, by number and name."""
    return ", ".join(f"process {pid}{_read_name(pid)}" for pid in device.busy_pids)


def leased_below(
    root: Path, devices: Sequence[GpuDevice], lock_dir: Path | None = None
) -> frozenset[str]:
    """Return the UUIDs of the devices that running attempts below ``root`` have locked.

    The attempts may be of any server, and still in preparation.
    """
    directory = lock_dir or device_locks.shared_directory()
    return frozenset(
        device.uuid for device in devices if leased_to(root, device, directory) is not None
    )


def leased_to(root: Path, device: GpuDevice, lock_dir: Path | None = None) -> DeviceHolder | None:
    """Return the running attempt below ``root`` that has locked a device; None if none has."""
    lock_holder = _find_holder(lock_dir or device_locks.shared_directory(), device.uuid)
    return lock_holder if lock_holder is not None and lock_holder.root == str(root) else None


def held_s(device: GpuDevice, lock_dir: Path | None = None) -> float:
    """Return for how many seconds the present holder has locked a device."""
    since_s = device_locks.locked_since_s(lock_dir or device_locks.shared_directory(), device.uuid)
    return 0.0 if since_s is None else max(0.0, time.time() - since_s)


def list_foreign_holders(
    devices: Sequence[GpuDevice], own_uuids: Collection[str], lock_dir: Path | None = None
) -> dict[str, str]:
    """Return the holders, by UUID, of held devices that are not in ``own_uuids``."""
    holders = {d.uuid: holder(d, lock_dir) for d in devices if d.uuid not in own_uuids}
    return {uuid: held_by for uuid, held_by in holders.items() if held_by is not None}


def _find_holder(directory: Path, uuid: str) -> DeviceHolder | None:
    try:
        return device_locks.holder_of(directory, uuid)
    except EngineFault:
        return None


def _read_name(pid: int) -> str:
    """Return text such as `` (python)``; empty if the process has ended or is hidden."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return f" ({name})"


_LOG = logging.getLogger(__name__)

#: Seconds for which a result is used; a call of the driver can take a second.
FRESH_S: Final = 30.0


class DeviceStatus(NamedTuple):
    """The devices, and the reasons why jobs cannot have some of them now."""

    devices: Sequence[GpuDevice]
    held: Mapping[str, str]
    """The holder or the fault of each device that jobs cannot have, by UUID."""
    faulty: Mapping[str, str] = {}
    """The fault of each faulty device, by UUID."""


_NOTHING: Final = DeviceStatus((), {})


class Inventory:
    """The devices of this machine and their state, read again after ``fresh_s`` seconds."""

    def __init__(
        self,
        root: Path,
        find: Callable[[], Sequence[GpuDevice]],
        fresh_s: float = FRESH_S,
        problem: Callable[[GpuDevice], str] = lambda _: "",
        remembered: Remembered | None = None,
    ) -> None:
        """``root`` is the folder of the server's attempts; ``find`` calls the driver.

        ``problem`` returns the fault of a device, and is called each time.  ``remembered`` has the
        GPUs that earlier servers listed.
        """
        self._root = root
        self._find = find
        self._fresh_s = fresh_s
        self._problem = problem
        self._remembered = remembered
        self._read_s = -float("inf")
        self._raw_status = self._status = _NOTHING
        self._lock = threading.Lock()

    def status(self) -> DeviceStatus:
        """Return the devices, at most ``fresh_s`` seconds old, with their present faults.

        Blocks while the driver hangs.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._read_s >= self._fresh_s:
                self._raw_status, self._read_s = self._read_devices(), now
            before, self._status = self._status, self.latest()
            if before.held != self._status.held:
                _log_changes(before.held, self._status.held)
            return self._status

    def latest(self) -> DeviceStatus:
        """Return the devices of the last ``status``, without a call of the driver."""
        return self._add_faults(self._raw_status)

    def ensure_status(self) -> DeviceStatus:
        """Return the last result; call the driver if there is none yet."""
        return self.status() if self._raw_status is _NOTHING else self.latest()

    def _read_devices(self) -> DeviceStatus:
        present = tuple(self._find())
        gone = _list_missing(self._get_previous_devices(), present)
        held = list_foreign_holders(present, leased_below(self._root, present)) if present else {}
        before, now = self._raw_status.faulty, datetime.now(UTC)
        missed = {d.uuid: before.get(d.uuid) or _describe_missing(now) for d in gone}
        devices = sorted((*present, *gone), key=lambda device: device.index)
        if self._remembered is not None:
            self._remembered.keep(devices)
        return DeviceStatus(devices, {**held, **missed}, missed)

    def _get_previous_devices(self) -> Sequence[GpuDevice]:
        if self._raw_status is _NOTHING and self._remembered is not None:
            return self._remembered.load()
        return self._raw_status.devices

    def _add_faults(self, status: DeviceStatus) -> DeviceStatus:
        wrong = {device.uuid: self._problem(device) for device in status.devices}
        wrong = {uuid: problem for uuid, problem in wrong.items() if problem}
        if not wrong:
            return status
        return DeviceStatus(status.devices, {**status.held, **wrong}, {**status.faulty, **wrong})


def _log_changes(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    for uuid, reason in now.items():
        if before.get(uuid) != reason:
            _LOG.warning("cannot assign the GPU %s to jobs: %s", uuid, reason)
    for uuid in before.keys() - now.keys():
        _LOG.info("the GPU %s is available to jobs again", uuid)


def _describe_missing(since: datetime) -> str:
    return xids.problem("the driver no longer lists it", since, xids.LOOK)


def _list_missing(before: Sequence[GpuDevice], present: Sequence[GpuDevice]) -> list[GpuDevice]:
    """Return the earlier devices whose GPU the driver lists neither whole nor as instances.

    A GPU that was divided again is present, so none of its earlier instances is missing.
    """
    gpu_uuids = {device.uuid for device in present} | {device.gpu_uuid for device in present}
    return [device for device in before if (device.gpu_uuid or device.uuid) not in gpu_uuids]
