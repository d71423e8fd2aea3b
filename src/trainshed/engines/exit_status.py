"""The end of a process as one number; apart from ``base``, since supervisors must stay small."""

from typing import Final

#: What a shell adds to the number of a signal to say "died of it".
SIGNAL_BASE: Final = 128


def status_of(exit_code: int | None, signal: int | None) -> int:
    """The exit as one number, as a shell counts: the code, or 128 + the signal."""
    return exit_code or 0 if signal is None else SIGNAL_BASE + signal
