"""Measures the other load of the machine during a measurement."""

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
#: Fields of the first line: user nice system idle iowait irq softirq steal.
_IDLE, _IOWAIT, _STEAL = 3, 4, 7


def busy_elsewhere(seconds: float = 0.5) -> float:
    """Wait and measure how many processors other programs and the hypervisor use.

    Return 0 if the system does not report it.
    """
    try:
        before, began = _read(), time.monotonic()
        time.sleep(seconds)
        after, passed = _read(), time.monotonic() - began
    except (OSError, ValueError, IndexError):
        return 0.0
    return max(0.0, (after - before) / os.sysconf("SC_CLK_TCK") / passed)


def _read() -> int:
    with _STAT.open(encoding="ascii") as file:
        spent = [int(word) for word in file.readline().split()[1:]]
    return sum(spent[: _STEAL + 1]) - spent[_IDLE] - spent[_IOWAIT]
