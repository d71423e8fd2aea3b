"""One process of a reducer: a ``Reducer`` on its socket, until there is a reason to end."""

import math
import os
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import Final

from trainshed.reduction.endings import Endings
from trainshed.reduction.settings import ReducerSettings

#: A BLAS would start a thread for each core, each with its memory; nothing here needs one.
_BLAS_THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def serve(  # noqa: PLR0913 - what one process is made of
    listener: socket.socket,
    settings: ReducerSettings,
    token: bytes,
    *,
    endings: Endings,
    index: int,
    starter: int | None = None,
) -> int:
    """Sum for the workers that come, and say so; the exit status of the process.

    ``starter`` is the reading end of a pipe that the starting process holds open.
    """
    for name in _BLAS_THREADS:
        os.environ.setdefault(name, "1")
    # numpy, which the command line does without, and which reads the variables set just now
    from trainshed_trainer.reduction.reducer import Reducer  # noqa: PLC0415  # see above

    def report(text: str) -> None:
        say(f"reducer {index}: {text}")

    reducer = Reducer(
        listener,
        token,
        index=index,
        timeout=settings.timeout_s,
        max_memory=settings.max_memory,
        report=report,
    )
    reducer.start()
    host, port = reducer.address
    report(f"listening on {host}:{port}")
    if settings.idle_timeout_s:
        endings.when(partial(reducer.wait_idle, settings.idle_timeout_s))
    ending = endings.wait(starter, "nobody has reduced for the time of --idle-timeout")
    if ending.is_patient and not reducer.wait_over(0.0):
        report(f"{ending.words}; serves its workers until they leave")
        endings.when(partial(reducer.wait_over, math.inf))
        endings.wait(starter, "its workers have left", patience=False)
    reducer.close()
    report(f"ends: {ending.words}")
    return ending.status


def say(line: str) -> None:
    """Write a line at once, whole; nobody may be left to read it."""
    with suppress(OSError, ValueError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
