"""The Xids that the driver reports as they happen, by its events.

Not by the kernel's log: that is closed to all but root, and containers have none.
"""

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from trainshed.engines.local.devices import nvml as driver

_MS: Final = 1000


class XidEvent(NamedTuple):
    """One report."""

    uuid: str
    """Of the whole GPU; empty where the driver does not tell any more."""
    xid: int
    handle: Any


#: Waits so many seconds at most for the next report; never returns sooner without one.
Wait = Callable[[float], XidEvent | None]


@contextmanager
def xid_events(nvml: Any) -> Iterator[Wait]:
    """Hear of the Xids of all GPUs that are there now; where that cannot be, only time passes."""
    names = {_number(handle): _uuid(nvml, handle) for _, handle in driver.handles(nvml)}
    events = None
    with _suppress_refusals(nvml):
        events = nvml.nvmlEventSetCreate()
    try:
        heard = [_is_heard(nvml, handle, events) for _, handle in driver.handles(nvml)]

        def wait(seconds: float) -> XidEvent | None:
            began = time.monotonic()
            event = _next(nvml, events, seconds) if any(heard) else None
            if event is not None and event.eventType == nvml.nvmlEventTypeXidCriticalError:
                uuid = names.get(_number(event.device)) or _uuid(nvml, event.device)
                return XidEvent(uuid, int(event.eventData), event.device)
            # with a GPU that is gone the driver fails at once, again and again
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            return None

        yield wait
    finally:
        with _suppress_refusals(nvml):
            if events is not None:
                nvml.nvmlEventSetFree(events)


def _is_heard(nvml: Any, handle: Any, events: Any) -> bool:
    with _suppress_refusals(nvml):
        if events is not None:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            return True
    return False


def _next(nvml: Any, events: Any, seconds: float) -> Any:
    with _suppress_refusals(nvml):
        return nvml.nvmlEventSetWait_v2(events, max(1, int(seconds * _MS)))
    return None


def _uuid(nvml: Any, handle: Any) -> str:
    with _suppress_refusals(nvml):
        return str(nvml.nvmlDeviceGetUUID(handle))
    return ""


def _number(handle: Any) -> int:
    """A handle as a number: two objects of the binding may be one handle."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _suppress_refusals(nvml: Any) -> suppress:
    """What the driver refuses, or the binding does not have, is left out."""
    return suppress(nvml.NVMLError, AttributeError, UnicodeDecodeError)
