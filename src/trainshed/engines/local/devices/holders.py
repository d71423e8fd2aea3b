"""Who has a device now: by its lock, or by computing on it.  Only looks; takes nothing."""

from collections.abc import Collection, Sequence
from pathlib import Path

from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.gpus import Device
from trainshed.model.faults import EngineFault


def holder(device: Device, lock_dir: Path | None = None) -> str | None:
    """``process 12 (attempt 7/1)`` or ``process 99 (python)``; None for a device that is free.

    ``lock_dir`` is for tests, here and below; without it, it is the one that all users share.
    A lock that cannot be looked at counts as held.
    """
    try:
        locked = device_locks.holder_of(lock_dir or device_locks.shared_directory(), device.uuid)
    except EngineFault as fault:
        return str(fault)
    if locked is not None:
        return str(locked)
    return processes(device) if device.busy_pids else None


def processes(device: Device) -> str:
    """The processes that compute on a device, by number and name."""
    return ", ".join(f"process {pid}{_name(pid)}" for pid in device.busy_pids)


def leased_below(
    root: Path, devices: Sequence[Device], lock_dir: Path | None = None
) -> frozenset[str]:
    """The UUIDs of the devices that living attempts in this folder of attempts have locked.

    Whichever server has started them, and also while they are being prepared.
    """
    directory = lock_dir or device_locks.shared_directory()
    return frozenset(
        device.uuid for device in devices if _root_of(directory, device.uuid) == str(root)
    )


def stranger_held(
    devices: Sequence[Device], ours: Collection[str], lock_dir: Path | None = None
) -> dict[str, str]:
    """By UUID, the devices that somebody has who is no attempt of ours, and who that is."""
    found = {d.uuid: holder(d, lock_dir) for d in devices if d.uuid not in ours}
    return {uuid: who for uuid, who in found.items() if who is not None}


def _root_of(directory: Path, uuid: str) -> str | None:
    try:
        locked = device_locks.holder_of(directory, uuid)
    except EngineFault:
        return None
    return None if locked is None else locked.root


def _name(pid: int) -> str:
    """`` (python)``; empty where the process is gone or of another namespace."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return f" ({name})"
