"""Samples the GPUs of this machine once a second and reads their Xids, in one thread of the server.

The driver is opened once and stays open; this makes no CUDA context and uses no memory of a GPU.
Only the server calls the driver, for all jobs: supervisors read the figures in a file that this
thread writes (``supervise.record.gpu_file``).  A failed call only means that a figure is missing:
only an error that the driver itself reports closes a GPU for new replicas (``xids``).
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from trainshed.engines.local.devices import locks, readings, xids
from trainshed.engines.local.devices import nvml as driver
from trainshed.engines.local.devices.gpus import GpuDevice
from trainshed.engines.local.devices.history import GpuHistory
from trainshed.engines.local.devices.xid_events import Wait, XidEvent, xid_events
from trainshed.engines.supervise.record.gpu_file import (
    EVERY_S,
    GpuFigures,
    read_gpu_file,
    write_gpu_file,
)
from trainshed.model.gpus import GpuSample

_LOG = logging.getLogger(__name__)

PAUSE_S: Final = 1.0
#: Seconds between two lists of the devices and checks of their health.
_HEALTH_S: Final = 30.0
#: The maximum age of a shown reading: if it is older, the driver hangs, or the device is gone.
_FRESH: Final = timedelta(seconds=10)
#: The seconds within which the thread notices ``close``, and the number of events to read between
#: two samples.
_SLICE_S: Final = 0.25
_EVENTS_MAX: Final = 64
_CLOSE_S_MAX: Final = 1.0
#: Seconds in which an Xid that does not close a GPU is logged once for each GPU.
_LOGGED_AGAIN_S: Final = 60.0

_REMEDIES: Final[Mapping[str, Callable[[str], str]]] = {
    readings.NOT_REMAPPED: lambda _: xids.REPLACE,
    readings.NEEDS_RESET: xids.reset,
    readings.LOST: lambda _: xids.RESTART,
}


class Sampler:
    """The newest readings, the last ten minutes, and the faults of GPUs."""

    def __init__(self, pause_s: float = PAUSE_S, file: Path | None = None) -> None:
        """Do not call the driver before ``start``.

        ``pause_s`` is the time between samples.  Supervisors read ``file``; None: write none.
        """
        self.driver = ""
        """The driver's version; empty until it was read."""
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._readings: dict[str, GpuSample] = {}
        self._histories: dict[str, GpuHistory] = {}
        self._file = file
        self._locked_s: dict[str, float | None] = {}
        self._written_s = -EVERY_S
        self._can_write = True
        self._problems: dict[str, str] = {}
        self._xids: dict[str, Counter[int]] = {}
        self._logged_s: dict[tuple[str, int], float] = {}

    def start(self) -> None:
        """Start the thread if there is a driver and the thread does not run yet."""
        if self._thread is None and driver.has_driver():
            self._thread = threading.Thread(target=self._work, name="gpu-sampler", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread, unless the driver hangs."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S_MAX)
            self._thread = None

    def reading(self, uuid: str) -> GpuSample | None:
        """Return the newest reading of a device; None if it is older than ten seconds."""
        sample = self._readings.get(uuid)
        return None if sample is None or datetime.now(UTC) - sample.at > _FRESH else sample

    def unused_s(self, uuid: str) -> float | None:
        """Return for how many seconds a device was not used, without a break; None: unknown."""
        history = self._histories.get(uuid)
        return None if history is None else history.unused_s(time.monotonic())

    def recent(self, uuid: str) -> Sequence[tuple[float, GpuFigures]]:
        """Return the figures of the last ten minutes, with times in seconds since 1970."""
        history = self._histories.get(uuid)
        return () if history is None else tuple(history.recent)

    def problem(self, device: GpuDevice) -> str:
        """Return why new replicas may not use a device; empty for a healthy device.

        An error of a GPU counts for all its instances.
        """
        return self._problems.get(device.gpu_uuid or device.uuid, "")

    def xid_counts(self, device: GpuDevice) -> Mapping[int, int]:
        """Return the number of reports of each Xid for a device's GPU."""
        return dict(self._xids.get(device.gpu_uuid or device.uuid, {}))

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                with driver.session() as nvml:
                    if nvml is not None:
                        self._watch(nvml)
            except Exception:  # noqa: BLE001 - jobs run without figures, also if the driver fails
                _LOG.exception("measuring the GPUs failed; retrying in %g s", _HEALTH_S)
            self._stop.wait(_HEALTH_S)

    def _watch(self, nvml: Any) -> None:
        """Sample until ``close``; list the devices again from time to time."""
        with suppress(nvml.NVMLError, UnicodeDecodeError):
            self.driver = str(nvml.nvmlSystemGetDriverVersion())
        with xid_events(nvml) as wait:
            due = time.monotonic()
            while not self._stop.is_set():
                devices = self._list_devices(nvml)
                until = time.monotonic() + _HEALTH_S
                while not self._stop.is_set() and time.monotonic() < until:
                    for device, handle in devices:
                        self._sample(nvml, device, handle)
                    self._write_file()
                    due = max(due + self._pause_s, time.monotonic())  # late samples are left out
                    self._handle_events(nvml, wait, due)

    def _list_devices(self, nvml: Any) -> list[tuple[GpuDevice, Any]]:
        """Check the health of each GPU; return the present devices."""
        for _, handle in driver.handles(nvml):
            self._check_health(nvml, handle)
        devices = list(driver.devices(nvml))
        for uuid in self._readings.keys() - {device.uuid for device, _ in devices}:
            del self._readings[uuid]
            self._histories.pop(uuid, None)
        return devices

    def _sample(self, nvml: Any, device: GpuDevice, handle: Any) -> None:
        ask = readings.GpuQuery(nvml, handle)
        is_instance = bool(device.gpu_uuid)
        sample = readings.reading(nvml, ask, datetime.now(UTC), is_instance=is_instance)
        history = self._histories.get(device.uuid)
        if history is None:
            history = GpuHistory(self._read_unused_s(device.uuid))
            self._histories[device.uuid] = history
        if self._has_new_holder(device.uuid):
            history.forget_means()
        self._readings[device.uuid] = history.add(sample, time.monotonic())
        if ask.is_lost:
            self._close_gpu(device.gpu_uuid or device.uuid, readings.LOST)

    def _read_unused_s(self, uuid: str) -> float:
        """Return for how many seconds a GPU was not used, by the file of a server that just ended.

        0 if the file is missing or older than ``FRESH_S``.
        """
        now_s = time.time()
        report = None if self._file is None else read_gpu_file(str(self._file), now_s)
        figures = None if report is None else report.gpus.get(uuid)
        if report is None or figures is None or not figures.unused_s:
            return 0.0
        return figures.unused_s + max(0.0, now_s - report.at)

    def _has_new_holder(self, uuid: str) -> bool:
        """Return whether a process has locked a device since the last call.

        It compares the times of two locks, and none with a clock, because clocks may be set.
        """
        locked_s = locks.locked_since_s(locks.shared_directory(), uuid)
        before_s = self._locked_s.get(uuid, locked_s)
        self._locked_s[uuid] = locked_s
        return locked_s != before_s

    def _write_file(self) -> None:
        """Write the figures for supervisors, at most every ten seconds; log the first failure."""
        now_s = time.monotonic()
        if self._file is None or not self._histories or now_s - self._written_s < EVERY_S:
            return
        self._written_s, at = now_s, time.time()
        figures = {
            uuid: history.take_figures(at, now_s) for uuid, history in self._histories.items()
        }
        try:
            write_gpu_file(str(self._file), at, figures)
        except OSError as error:
            if self._can_write:
                _LOG.warning(
                    "cannot write %s: %s; jobs get no figures of their GPUs until it can be "
                    "written",
                    self._file,
                    error,
                )
            self._can_write = False
        else:
            self._can_write = True

    def _check_health(self, nvml: Any, handle: Any) -> None:
        with suppress(nvml.NVMLError, UnicodeDecodeError):
            uuid = nvml.nvmlDeviceGetUUID(handle)
            if fault := readings.find_fault(nvml, readings.GpuQuery(nvml, handle)):
                self._close_gpu(uuid, fault)

    def _handle_events(self, nvml: Any, wait: Wait, due: float) -> None:
        """Wait until ``due``, and handle the events that the driver reports meanwhile."""
        events = 0
        while (remaining_s := due - time.monotonic()) > 0 and not self._stop.is_set():
            if events >= _EVENTS_MAX:
                self._stop.wait(remaining_s)
            elif event := wait(min(remaining_s, _SLICE_S)):
                events += 1
                self._handle_event(nvml, event)

    def _handle_event(self, nvml: Any, event: XidEvent) -> None:
        self._xids.setdefault(event.uuid, Counter())[event.xid] += 1
        if event.uuid and event.xid in xids.CLOSING:
            self._close_gpu(event.uuid, xids.meaning(event.xid), event.xid)
        else:
            self._log_event(event)
            self._check_health(nvml, event.handle)  # 154: the recommended remedy has changed

    def _close_gpu(self, uuid: str, what: str, xid: int | None = None) -> None:
        """Close a GPU for the life of this server, with the first cause as the reason."""
        if uuid not in self._problems:
            remedy = xids.remedy(xid, uuid) if xid is not None else _REMEDIES[what](uuid)
            self._problems[uuid] = xids.problem(what, datetime.now(UTC), remedy)
            _LOG.error("closed the GPU %s for new replicas: %s", uuid, self._problems[uuid])

    def _log_event(self, event: XidEvent) -> None:
        now = time.monotonic()
        if now - self._logged_s.get(event[:2], -_LOGGED_AGAIN_S) >= _LOGGED_AGAIN_S:
            self._logged_s[event[:2]] = now
            uuid = event.uuid or "(unknown UUID)"
            _LOG.warning(
                "the driver reported an error of GPU %s: %s", uuid, xids.meaning(event.xid)
            )
