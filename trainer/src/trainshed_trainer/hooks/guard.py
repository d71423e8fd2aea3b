"""Keeps errors of hooks out of the user's program: the first error turns all hooks off for good.

Hooks run inside of the user's training steps and get objects of arbitrary types.
"""

from __future__ import annotations

import functools
import sys
from contextlib import suppress
from typing import Any, Callable

from trainshed_trainer.steps import step_times

#: The errors of hooks; the hooks are off if there is one.
_ERRORS: list[str] = []


def guarded(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a hook so that it never raises; after the first error every hook returns None."""

    @functools.wraps(hook)
    def call(*args: Any) -> Any:
        if _ERRORS:
            return None
        try:
            return hook(*args)
        except Exception as error:  # noqa: BLE001  # a framework's objects may raise anything
            _turn_off(f"{type(error).__name__}: {error}")
        return None

    return call


def _turn_off(reason: str) -> None:
    """Turn the hooks off and log it once; ``progress`` records the steps from now on."""
    _ERRORS.append(reason)
    with suppress(Exception):
        times = step_times()
        if times is not None:
            times.leave()
            sys.stderr.write(
                f"WARNING: cannot record steps by hooks any more: {reason};"
                " call trainshed_trainer.progress(step) to record them\n"
            )
            sys.stderr.flush()
