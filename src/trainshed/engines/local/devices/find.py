"""Lists the devices of this machine: the driver's devices, or fake ones instead.

Fake devices exist only by name, so that the same code runs on a machine without GPUs.  They are
leased, named in the environment and released like real devices.  For tests a fake device can have
processes: the pids in the file ``UUID.pids``, one on each line, in the folder that
$TRAINSHED_FAKE_GPU_DIR names.  A process that has ended does not count.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from trainshed.engines.local.devices import nvml
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.processes import tree

ListDevices = Callable[[], Sequence[GpuDevice]]


def devices(fake_gpus: int = 0, env: Mapping[str, str] = os.environ) -> tuple[GpuDevice, ...]:
    """List the devices that jobs may have; if ``fake_gpus`` is not 0, that many fake devices."""
    with open_devices(fake_gpus, env) as list_devices:
        return tuple(list_devices())


@contextmanager
def open_devices(fake_gpus: int = 0, env: Mapping[str, str] = os.environ) -> Iterator[ListDevices]:
    """Open the driver once; yield a function that lists the devices at each call."""
    if fake_gpus:
        yield partial(fake_devices, fake_gpus, env)
        return
    with nvml.opened() as list_devices:
        yield lambda: nvml.visible(list_devices(), env.get(nvml.VISIBLE))


@contextmanager
def open_devices_of(uuids: Sequence[str]) -> Iterator[ListDevices]:
    """Yield a function that lists the present devices of these UUIDs, also hidden ones."""
    if all(map(is_fake, uuids)):
        yield lambda: [fake_device(uuid) for uuid in uuids]
        return
    with nvml.opened() as list_devices:
        yield lambda: [device for device in list_devices() if device.uuid in uuids]


FOLDER: Final = "TRAINSHED_FAKE_GPU_DIR"
#: The maximum number of fake devices: one message has at most so many descriptors (SCM_MAX_FD of
#: Linux), and a job may have all fake devices.
COUNT_MAX: Final = 253

_PREFIX: Final = "GPU-fake-"


def fake_devices(count: int, env: Mapping[str, str] = os.environ) -> tuple[GpuDevice, ...]:
    """Return the first ``count`` fake devices, with the processes that tests gave them."""
    return tuple(fake_device(f"{_PREFIX}{index:04d}", env) for index in range(count))


def fake_device(uuid: str, env: Mapping[str, str] = os.environ) -> GpuDevice:
    """Return the fake device of this name."""
    index = int(uuid.removeprefix(_PREFIX))
    return GpuDevice(uuid=uuid, name="Fake GPU", index=index, busy_pids=_read_pids(uuid, env))


def is_fake(uuid: str) -> bool:
    """Return whether this is the name of a fake device."""
    return uuid.startswith(_PREFIX)


def _read_pids(uuid: str, env: Mapping[str, str]) -> tuple[int, ...]:
    folder = env.get(FOLDER)
    if not folder:
        return ()
    try:
        words = (Path(folder) / f"{uuid}.pids").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return ()
    return tuple(pid for pid in tree.living(map(int, words)) if pid != os.getpid())
