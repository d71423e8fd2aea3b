"""Reads the driver's error numbers (Xids) from its events, as they happen.

The kernel's log has them too, but only root can read it, and containers have no such log.
"""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from trainshed.engines.local.devices import nvml as driver

_MS: Final = 1000


class XidEvent(NamedTuple):
    """One report of an Xid by the driver."""

    uuid: str
    """The UUID of the whole GPU; empty if the driver can no longer report it."""
    xid: int
    handle: Any


#: Waits for the next report for at most the given seconds; None if there was none in this time.
Wait = Callable[[float], XidEvent | None]


@contextmanager
def xid_events(nvml: Any) -> Iterator[Wait]:
    """Register for the Xids of all present GPUs; yield a function that waits for a report.

    If the registration fails, the function always waits for the full time and returns None.
    """
    names = {_read_address(handle): _read_uuid(nvml, handle) for _, handle in driver.handles(nvml)}
    events = None
    with _suppress_refusals(nvml):
        events = nvml.nvmlEventSetCreate()
    try:
        registered = [_register(nvml, handle, events) for _, handle in driver.handles(nvml)]

        def wait(seconds: float) -> XidEvent | None:
            began = time.monotonic()
            event = _wait_for_event(nvml, events, seconds) if any(registered) else None
            if event is not None and event.eventType == nvml.nvmlEventTypeXidCriticalError:
                uuid = names.get(_read_address(event.device)) or _read_uuid(nvml, event.device)
                return XidEvent(uuid, int(event.eventData), event.device)
            # for a GPU that is gone the driver fails at once, again and again
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            return None

        yield wait
    finally:
        with _suppress_refusals(nvml):
            if events is not None:
                nvml.nvmlEventSetFree(events)


def _register(nvml: Any, handle: Any, events: Any) -> bool:
    with _suppress_refusals(nvml):
        if events is not None:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            return True
    return False


def _wait_for_event(nvml: Any, events: Any, seconds: float) -> Any:
    with _suppress_refusals(nvml):
        return nvml.nvmlEventSetWait_v2(events, max(1, int(seconds * _MS)))
    return None


def _read_uuid(nvml: Any, handle: Any) -> str:
    with _suppress_refusals(nvml):
        return str(nvml.nvmlDeviceGetUUID(handle))
    return ""


def _read_address(handle: Any) -> int:
    """Return the address in a handle, since two objects may represent the same handle."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _suppress_refusals(nvml: Any) -> suppress:
    """Suppress errors of the driver, and of functions that the binding does not have."""
    return suppress(nvml.NVMLError, AttributeError, UnicodeDecodeError)
