"""Waits until no process uses the GPUs of an attempt: the last step of an attempt with GPUs.

A killed process ends before the driver has released its GPU memory, so a program that starts on the
device in that time finds memory in use.  The attempt keeps its locks until this wait has ended.

``python -P -m trainshed.engines.local.devices.wait UUID...`` writes a line for each device that is
still in use after ``LIMIT_S`` seconds.  No job gets such a device, because it is not free
(``leases``).
"""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final

from trainshed.engines.local.devices.find import ListDevices, open_devices_of
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.inventory import processes

LIMIT_S: Final = 30.0
_PAUSE_S: Final = 0.1


def command(python: str, uuids: Iterable[str]) -> tuple[str, ...] | None:
    """Return the command that waits for these devices; None if there are none to wait for."""
    arguments = list(uuids)
    return (python, "-P", "-m", __name__, *arguments) if arguments else None


def busy_after(list_devices: ListDevices, limit_s: float) -> Sequence[GpuDevice]:
    """Wait until no device is in use; return those still in use after ``limit_s`` seconds."""
    deadline = time.monotonic() + limit_s
    while busy := [device for device in list_devices() if device.busy_pids]:
        if time.monotonic() >= deadline:
            break
        time.sleep(_PAUSE_S)
    return busy


def main() -> int:
    """Wait for the devices that the command line names; print those that stay in use."""
    with open_devices_of(sys.argv[1:]) as list_devices:
        for device in busy_after(list_devices, LIMIT_S):
            text = f"{device.uuid} is not free {LIMIT_S:g} s after the job: {processes(device)}\n"
            sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
