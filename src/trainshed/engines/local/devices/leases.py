"""Leases devices for an attempt that was placed: all that its replicas ask for, or none.

The server has counted the devices when it placed the job.  So a missing one is held by a process
that the server does not know, or by an attempt that is just ending, and the attempt waits for it.
A job never starts with fewer devices than it asked for, because it would train differently.

A device is leased once it is locked and no process uses it; in this order, since a job that ends
releases its lock while the driver may still clean up after it.
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
    """Devices for each replica, all of one type; None where one replica cannot have its devices.

    A replica's own type comes before those that stand in for it (``Node.gpu_alias``).
    """
    pools: dict[str, list[GpuDevice]] = {}
    for device in free:
        pools.setdefault(accelerator_of(device), []).append(device)
    wants = [(r.gpu_count, _kinds(r, pools, aliases)) for r in replicas if r.gpu_count]
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
    """``4 NVIDIA_TESLA_T4, 1 GPU``: all that the replicas ask for, by type."""
    total: Counter[str] = Counter()
    for replica in replicas:
        total[replica.gpu_type or "GPU"] += replica.gpu_count
    return ", ".join(f"{count} {name}" for name, count in total.items() if count)


def _kinds(
    replica: ReplicaPlan, pools: Mapping[str, Sequence[GpuDevice]], aliases: Mapping[str, str]
) -> list[str]:
    serving = [name for name, pool in pools.items() if serves(pool[0], replica, aliases)]
    return sorted(serving, key=lambda name: (name != replica.gpu_type, -len(pools[name])))


def _assign_types(
    wants: Sequence[tuple[int, Sequence[str]]], rooms: Mapping[str, int]
) -> list[str] | None:
    """Return a type for each that wants devices, so that all types suffice."""
    if not wants:
        return []
    (count, kinds), *remaining = wants
    for kind in kinds:
        if rooms[kind] >= count:
            rest = _assign_types(remaining, {**rooms, kind: rooms[kind] - count})
            if rest is not None:
                return [kind, *rest]
    return None


#: How long devices that others hold are waited for.  Longer than the time in which a server sees
#: that they are held, so that the next attempt is placed only when they are free.
WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.2


class DevicesHeld(EngineFault):
    """Other processes held the devices for the whole wait; the program has not failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The devices of an attempt: a share for each replica, and the locks to hold while it lives."""

    shares: tuple[Share, ...]
    locks: tuple[FileIO, ...]
    devices: tuple[GpuDevice, ...] = ()

    @property
    def uuids(self) -> tuple[str, ...]:
        """All its devices."""
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
    """Which types stand in for others (``Node.gpu_alias``)."""
    lock_dir: Path
    closed: Mapping[str, str] = field(default_factory=dict)
    """By UUID: devices that must not be taken, and why."""
    warn: Callable[[str], None] | None = None
    """Called when a job that asks for devices gets none; ``note`` if None."""

    def lease(self, replicas: Sequence[ReplicaPlan], wait_s: float = WAIT_S) -> Lease:
        """Take all devices at once, when they are free.

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
        """Take what is free now, in complete rounds; a lone replica that asks for none takes all.

        Note in one line which request cannot be met, and in another which processes are on the
        devices.  Raises EngineFault when locks cannot be used.
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
        """Up to ``limit`` free devices with their locks; and those that other processes use."""
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
        """Lock all devices or none; devices that are held are not tried."""
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
        """Which processes hold the devices that the replicas could have, or how few there are."""
        devices = self.list_devices()
        if choose(replicas, devices, self.aliases) is None:
            counts = Counter(accelerator_of(device) for device in devices)
            names = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
            return f"this machine has {names or 'none'}"
        with_gpus = [replica for replica in replicas if replica.gpu_count]
        candidates = [d for d in devices if any(serves(d, r, self.aliases) for r in with_gpus)]
        held = {device.uuid: self._describe_holder(device) for device in candidates}
        reasons = (f"{uuid} {why}" for uuid, why in held.items() if why is not None)
        return "; ".join(reasons) or "another job is taking its devices"

    def _describe_holder(self, device: GpuDevice) -> str | None:
        """Return why a device cannot be taken; None for one that is free."""
        if device.uuid in self.closed:
            return f"is closed: {self.closed[device.uuid]}"
        held_by = holder(device, self.lock_dir)
        return None if held_by is None else f"is held by {held_by}"
