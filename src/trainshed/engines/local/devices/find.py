"""Which devices there are: the driver's, or fake ones in their place."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from trainshed.engines.local.devices import fake as fake_devices
from trainshed.engines.local.devices import nvml
from trainshed.engines.local.devices.gpus import Device

Look = Callable[[], Sequence[Device]]


def devices(fake_gpus: int = 0, env: Mapping[str, str] = os.environ) -> tuple[Device, ...]:
    """The devices that jobs may have here; with ``fake_gpus`` so many fake ones and no other."""
    with looking(fake_gpus, env) as look:
        return tuple(look())


@contextmanager
def looking(fake_gpus: int = 0, env: Mapping[str, str] = os.environ) -> Iterator[Look]:
    """The same to be asked again and again; the driver is opened once."""
    if fake_gpus:
        yield partial(fake_devices.devices, fake_gpus, env)
        return
    with nvml.opened() as look:
        yield lambda: nvml.visible(look(), env.get(nvml.VISIBLE))


@contextmanager
def looking_at(uuids: Sequence[str]) -> Iterator[Look]:
    """The devices of these names, whatever the environment hides; one that is gone is not told."""
    if all(map(fake_devices.is_fake, uuids)):
        yield lambda: [fake_devices.named(uuid) for uuid in uuids]
        return
    with nvml.opened() as look:
        yield lambda: [device for device in look() if device.uuid in uuids]
