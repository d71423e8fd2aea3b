"""Lets a command clean up when SIGTERM ends it, as it does after Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from trainshed.model.exit_status import SIGNAL_BASE


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit, as Ctrl-C raises KeyboardInterrupt; for the main thread."""

    def leave(signum: int, _frame: object) -> NoReturn:
        raise SystemExit(SIGNAL_BASE + signum)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
