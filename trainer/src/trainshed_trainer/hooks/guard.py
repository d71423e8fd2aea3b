"""What fails in a hook does not fail the program: the first failure turns all hooks off, for good.

Hooks are called from within the user's own steps, with objects that nobody here has ever seen.
"""

from __future__ import annotations

import functools
import sys
from contextlib import suppress
from typing import Any, Callable

from trainshed_trainer.steps import step_times

#: Filled once a hook has failed.
_FAILED: list[str] = []


def guarded(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Give the hook that never raises; None is what a failed one returns, and all after it."""

    @functools.wraps(hook)
    def tried(*args: Any) -> Any:
        if _FAILED:
            return None
        try:
            return hook(*args)
        except Exception as error:  # noqa: BLE001  # whatever a framework's objects raise
            _turn_off(f"{type(error).__name__}: {error}")
        return None

    return tried


def _turn_off(why: str) -> None:
    """The log says so once; ``progress`` tells steps again, as where there are no hooks."""
    _FAILED.append(why)
    with suppress(Exception):
        times = step_times()
        if times is not None:
            times.leave()
            sys.stderr.write(f"WARNING: hooks see no more steps, for one has failed: {why}\n")
            sys.stderr.flush()
