"""Leases devices for a placed attempt: all that its replicas request, or none.

The server has counted the devices when it placed the job.  So a missing device is held by an
unknown process, or by an attempt that is just ending, and the attempt waits for the device.
A job never starts with fewer devices than it requests, because it would train differently.

A device is leased when it is locked and no process uses it.  The lock comes first, since a job that
ends releases its lock while the driver may still clean up its processes.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Final

from trainshed.engines.local.devices import find, gpus
from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.find import ListDevices
from trainshed.engines.local.devices.gpus import GpuDevice, Share
from trainshed.engines.local.devices.inventory import holder
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.engines.local.machine import accelerator_of
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.resources import ANY_GPU


def choose(
    replicas: Sequence[ReplicaPlan], free: Sequence[GpuDevice], aliases: Mapping[str, str]
) -> list[list[GpuDevice]] | None:
    """Return devices of one type for each replica; None if a replica cannot have its devices.

    A replica's own type comes before its stand-ins (``Node.gpu_alias``).
    """
    pools: dict[str, list[GpuDevice]] = {}
    for device in free:
        pools.setdefault(accelerator_of(device), []).append(device)
    wants = [(r.gpu_count, _list_types(r, pools, aliases)) for r in replicas if r.gpu_count]
    kinds = _assign_types(wants, {name: len(pool) for name, pool in pools.items()})
    if kinds is None:
        return None
    rest = {name: iter(pool) for name, pool in pools.items()}
    next_kind = iter(kinds)
    return [
        list(islice(rest[next(next_kind)], r.gpu_count)) if r.gpu_count else [] for r in replicas
    ]


def serves(device: GpuDevice, replica: ReplicaPlan, aliases: Mapping[str, str]) -> bool:
    """Return whether a replica may have this device."""
    requested, kind = replica.gpu_type, accelerator_of(device)
    if requested is None or find.is_fake(device.uuid):
        return True
    return requested == kind or aliases.get(requested) in (ANY_GPU, kind)


def describe_request(replicas: Sequence[ReplicaPlan]) -> str:
    """Return text such as ``4 NVIDIA_TESLA_T4, 1 GPU``: the requests of all replicas by type."""
    total: Counter[str] = Counter()
    for replica in replicas:
        total[replica.gpu_type or "GPU"] += replica.gpu_count
    return ", ".join(f"{count} {name}" for name, count in total.items() if count)


def _list_types(
    replica: ReplicaPlan, pools: Mapping[str, Sequence[GpuDevice]], aliases: Mapping[str, str]
) -> list[str]:
    serving = [name for name, pool in pools.items() if serves(pool[0], replica, aliases)]
    return sorted(serving, key=lambda name: (name != replica.gpu_type, -len(pools[name])))


def _assign_types(
    wants: Sequence[tuple[int, Sequence[str]]], rooms: Mapping[str, int]
) -> list[str] | None:
    """Return a type for each entry of ``wants``, so that the devices of each type suffice.

    An entry is a number of devices with the accepted types; None if they cannot suffice.
    """
    if not wants:
        return []
    (count, kinds), *remaining = wants
    for kind in kinds:
        if rooms[kind] >= count:
            rest = _assign_types(remaining, {**rooms, kind: rooms[kind] - count})
            if rest is not None:
                return [kind, *rest]
    return None


#: Seconds to wait for devices that other processes hold.  This is longer than the time in which a
#: server notices the holders, so that it places the next attempt only when the devices are free.
WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.2


class DevicesHeld(EngineFault):
    """Raised if other processes held the devices for the whole wait; not a fault of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The devices of an attempt: a share for each replica, and the locks to hold while it lives."""

    shares: tuple[Share, ...]
    locks: tuple[FileIO, ...]
    devices: tuple[GpuDevice, ...] = ()

    @property
    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of all devices of the lease."""
        return tuple(device.uuid for device in self.devices)

    def close(self) -> None:
        """Release the devices, unless another process has copies of the locks."""
        for lock in self.locks:
            lock.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLeaser:
    """Leases the devices of this machine to one holder."""

    list_devices: ListDevices
    holder: DeviceHolder
    note: Callable[[str], None]
    """Called with the reason for a wait, when it changes."""
    aliases: Mapping[str, str]
    """The stand-in of each type (``Node.gpu_alias``)."""
    lock_dir: Path
    closed: Mapping[str, str] = field(default_factory=dict)
    """The devices that must not be leased: the reasons by UUID."""
    warn: Callable[[str], None] | None = None
    """Called when a job that requests devices gets none; None: ``note`` is called."""

    def lease(self, replicas: Sequence[ReplicaPlan], wait_s: float = WAIT_S) -> Lease:
        """Lease all devices at once, when they are free.

        Raises DevicesHeld after ``wait_s`` seconds, EngineFault when locks cannot be used.
        """
        if any(replica.gpu_count for replica in replicas):
            device_locks.prepare(self.lock_dir)
        deadline = time.monotonic() + wait_s
        noted = ""
        while True:
            lease = self._try_lease(replicas)
            if lease is not None:
                return lease
            why = self._describe_shortage(replicas)
            if time.monotonic() >= deadline:
                raise DevicesHeld(
                    f"cannot get {describe_request(replicas)} within {wait_s:g} s: {why}"
                )
            if why != noted:
                self.note(f"waiting for {describe_request(replicas)}: {why}")
                noted = why
            time.sleep(_PAUSE_S * random.uniform(0.5, 1.0))  # noqa: S311 - so two waits drift apart

    def lease_free(self, replicas: Sequence[ReplicaPlan]) -> Lease:
        """Lease free devices in complete rounds, or all of them (``gpus.takes_all``).

        Writes a note if a request cannot be met, and a note with the processes that use devices.
        Raises EngineFault when locks cannot be used.
        """
        takes_all = gpus.takes_all(replicas)
        devices = self.list_devices()
        limit = len(devices) if takes_all else sum(replica.gpu_count for replica in replicas)
        held, busy = self._lock_free(devices, limit)
        counts = (len(held),) if takes_all else gpus.deal(replicas, len(held))
        write = self.warn if self.warn and gpus.gets_none(replicas, counts) else self.note
        for text in gpus.remarks(replicas, counts, len(devices), len(held)):
            write(text)
        if busy and len(held) < limit:
            self.note(gpus.describe_busy(busy))
        for _, lock in held[sum(counts) :]:
            lock.close()
        leased = tuple(device for device, _ in held[: sum(counts)])
        shares = gpus.split_devices(leased, counts, machine_has_gpus=bool(devices))
        locks = tuple(lock for _, lock in held[: sum(counts)])
        return Lease(shares=shares, locks=locks, devices=leased)

    def _lock_free(
        self, devices: Sequence[GpuDevice], limit: int
    ) -> tuple[list[tuple[GpuDevice, FileIO]], list[GpuDevice]]:
        """Return at most ``limit`` free devices with their locks, and devices that are in use."""
        held: list[tuple[GpuDevice, FileIO]] = []
        busy: list[GpuDevice] = []
        if devices and limit:
            device_locks.prepare(self.lock_dir)
        for device in devices:
            if len(held) == limit:
                break
            lock = device_locks.try_lock(self.lock_dir, device.uuid, self.holder)
            if lock is not None and device.busy_pids:
                lock.close()
                busy.append(device)
            elif lock is not None:
                held.append((device, lock))
        return held, busy

    def _try_lease(self, replicas: Sequence[ReplicaPlan]) -> Lease | None:
        """Lock all devices or none (None); does not try to lock held devices."""
        devices = self.list_devices()
        free = [device for device in devices if self._describe_holder(device) is None]
        chosen = choose(replicas, free, self.aliases)
        if chosen is None:
            return None
        leased = tuple(device for group in chosen for device in group)
        locks = self._lock_all([device.uuid for device in leased])
        if locks is None:
            return None
        has_gpus = bool(devices)
        shares = (gpus.share([d.uuid for d in g], machine_has_gpus=has_gpus) for g in chosen)
        return Lease(shares=tuple(shares), locks=locks, devices=leased)

    def _lock_all(self, uuids: Sequence[str]) -> tuple[FileIO, ...] | None:
        acquired: list[FileIO] = []
        with ExitStack() as locks:
            for uuid in uuids:
                lock = device_locks.try_lock(self.lock_dir, uuid, self.holder)
                if lock is None:
                    return None
                acquired.append(locks.enter_context(lock))
            if uuids and not self._are_idle(uuids):
                return None
            locks.pop_all()
        return tuple(acquired)

    def _are_idle(self, uuids: Sequence[str]) -> bool:
        return {d.uuid for d in self.list_devices() if not d.busy_pids}.issuperset(uuids)

    def _describe_shortage(self, replicas: Sequence[ReplicaPlan]) -> str:
        """Return the holders of suitable devices, or the number of devices if it is too small."""
        devices = self.list_devices()
        if choose(replicas, devices, self.aliases) is None:
            counts = Counter(accelerator_of(device) for device in devices)
            names = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
            return f"this machine has {names or 'none'}"
        with_gpus = [replica for replica in replicas if replica.gpu_count]
        candidates = [d for d in devices if any(serves(d, r, self.aliases) for r in with_gpus)]
        held = {device.uuid: self._describe_holder(device) for device in candidates}
        reasons = (f"{uuid} {why}" for uuid, why in held.items() if why is not None)
        return "; ".join(reasons) or "another process is locking devices at this moment"

    def _describe_holder(self, device: GpuDevice) -> str | None:
        """Return why a device cannot be leased; None if the device is free."""
        if device.uuid in self.closed:
            return f"is closed: {self.closed[device.uuid]}"
        held_by = holder(device, self.lock_dir)
        return None if held_by is None else f"is held by {held_by}"
