"""Decides which calibration was measured on a kind of host."""

from collections.abc import Sequence

from trainshed.planning.scaling.calibration import Calibration
from trainshed.planning.scaling.cluster import HostKind


def on_host(calibrations: Sequence[Calibration], host: HostKind) -> Calibration | None:
    """Return the calibration that fits a kind of host; None without one.

    Without a calibration of that kind of host, one of another host with the same accelerator fits:
    ``predict`` then takes the links from the data sheet of ``host``.
    """
    same = (calibration for calibration in calibrations if is_same(calibration.host, host))
    same_accelerator = (
        calibration
        for calibration in calibrations
        if calibration.host.accelerator == host.accelerator != "CPU"
    )
    return next(same, None) or next(same_accelerator, None)


def is_same(measured: HostKind, host: HostKind) -> bool:
    """Return whether ``host`` is of the measured kind; an unnamed machine type fits any."""
    if measured.accelerator != host.accelerator:
        return False
    if measured.machine_type not in {"", host.machine_type}:
        return False
    return host.accelerator == "CPU" or measured.per_host == host.per_host
