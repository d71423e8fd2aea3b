"""The devices of this machine as its server offers them, looked at now and then.

A device that somebody else has is still the machine's: it is offered as held, so that jobs wait for
it.  So is one that the driver told of before and does not now, as during a fault of the driver; a
machine that forgot its GPUs would begin to run jobs without.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from trainshed.engines.local.devices.gpus import Device
from trainshed.engines.local.devices.holders import leased_below, stranger_held

_LOG = logging.getLogger(__name__)

#: How long a look is good for; asking the driver can take a second.
FRESH_S: Final = 30.0


class Stock(NamedTuple):
    """What there is, and what of it cannot be given out now."""

    devices: Sequence[Device]
    held: Mapping[str, str]
    """By UUID: who has it that is no attempt of ours, or what is the matter with it."""


class Inventory:
    """What is known of the devices."""

    def __init__(
        self, root: Path, find: Callable[[], Sequence[Device]], fresh_s: float = FRESH_S
    ) -> None:
        """``root`` is the folder of our attempts; ``find`` asks the driver."""
        self._root = root
        self._find = find
        self._fresh_s = fresh_s
        self._looked_s = -float("inf")
        self._stock = Stock((), {})

    def stock(self) -> Stock:
        """The devices, as of ``fresh_s`` seconds ago at most."""
        now = time.monotonic()
        if now - self._looked_s >= self._fresh_s:
            before, self._stock, self._looked_s = self._stock.held, self._seen(), now
            for uuid, who in self._stock.held.items():
                if before.get(uuid) != who:
                    _LOG.warning("the GPU %s cannot be given out: %s", uuid, who)
            for uuid in before.keys() - self._stock.held.keys():
                _LOG.info("the GPU %s can be given out again", uuid)
        return self._stock

    def _seen(self) -> Stock:
        found = tuple(self._find())
        gone = _gone(self._stock.devices, found)
        held = stranger_held(found, leased_below(self._root, found)) if found else {}
        missing = {device.uuid: "the driver does not tell of it any more" for device in gone}
        devices = sorted((*found, *gone), key=lambda device: device.index)
        return Stock(devices, {**held, **missing})


def _gone(before: Sequence[Device], found: Sequence[Device]) -> list[Device]:
    """The GPUs that are not told of any more; not those that were divided anew."""
    there = {device.uuid for device in found} | {device.gpu_uuid for device in found}
    return [d for d in before if d.uuid not in there and not d.gpu_uuid]
