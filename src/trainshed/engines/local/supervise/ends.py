"""Words for how a replica ended: the signal, the want of memory and the most it used."""

import signal
from typing import Final

from trainshed.engines.local.supervise.limits import Limits, Usage

_HINTS: Final[dict[int, str]] = {signal.SIGBUS: "is /dev/shm full?"}

_UNIT: Final = 1024


def describe_end(status: int, usage: Usage, limits: Limits) -> str:
    """How a replica ended, to follow its name: "was killed by SIGKILL: out of memory ...".

    ``status`` is as ``os.waitstatus_to_exitcode`` gives it: the code, or a signal's number negated.
    """
    peak = "" if usage.peak_bytes is None else f"peak {in_words(usage.peak_bytes)}"
    how = f"was killed by {_signal_name(-status)}" if status < 0 else f"exited with code {status}"
    if usage.oom_kills and status:
        return f"{how}{_whose(status, usage)}: {_limit(limits)}{_bracketed(peak)}"
    if usage.machine_oom_kills and status == -signal.SIGKILL:
        return f"{how} while the machine was out of memory{_bracketed(peak)}"
    how += _bracketed(_HINTS.get(-status, ""))
    return f"{how}; {peak.replace('peak', 'peak memory')}" if peak and status else how


def in_words(size_bytes: int) -> str:
    """A size for people: ``310 MiB``, ``2.0 GiB``."""
    mib = size_bytes / _UNIT**2
    return f"{mib:.0f} MiB" if mib < _UNIT else f"{mib / _UNIT:.1f} GiB"


def _whose(status: int, usage: Usage) -> str:
    """A replica may go on, and end by itself, after the kernel killed a child of it."""
    if status == -signal.SIGKILL:
        return ""
    return f" after {usage.oom_kills} of its processes had been killed"


def _limit(limits: Limits) -> str:
    if limits.memory_bytes is None:
        return "out of memory"
    return f"out of memory at its limit of {in_words(limits.memory_bytes)}"


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""


def _signal_name(number: int) -> str:
    """A real-time signal has only its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
