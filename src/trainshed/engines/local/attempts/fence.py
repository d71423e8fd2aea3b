"""Ends the older attempts of a job before a newer one begins, so that they never run together.

The engine writes an order into the folder of each older attempt, so that a supervisor that starts
late does not begin.  Then the engine kills a running supervisor, also a suspended one, and ends the
processes that this supervisor leaves.
"""

import os
import signal
import time
from collections.abc import Iterator
from typing import Final

from trainshed.engines.base import NotYet
from trainshed.engines.local.attempts.sweep import Sweeper
from trainshed.engines.processes import identity
from trainshed.engines.processes.identity import Identity
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.engines.supervise.record.records import Began
from trainshed.model.attempt import AttemptKey

#: Seconds to wait for killed processes, which normally end within milliseconds.  After this time
#: the call fails, and the caller retries.
_GONE_S_MAX: Final = 0.5
_POLL_S: Final = 0.005


class OlderAttemptLives(NotYet):
    """Raised if an older attempt of the job could not be ended yet; the caller retries."""


class Fence:
    """Ends the older attempts of a job."""

    def __init__(self, sweeper: Sweeper) -> None:
        """``sweeper`` ends the processes that a killed supervisor leaves."""
        self._sweeper = sweeper

    def close(self, key: AttemptKey, folder: AttemptFolder) -> None:
        """End every older attempt of the job.  Raises OlderAttemptLives or OSError."""
        for older_key, older_folder in _list_older(key, folder):
            self._end(older_key, older_folder)

    def _end(self, key: AttemptKey, folder: AttemptFolder) -> None:
        records = AttemptRecords()
        records.read(folder.records)
        if records.ended is None:
            folder.give_order(Order(grace_s=0.0, reason="end", lost=True))
            records.read(folder.records)
        _kill(key, folder, records)
        records.read(folder.records)
        began = find_supervisor(folder, records)
        if records.ended is None and not self._sweeper.ensure_clean(
            key, began, folder, wait_s=_GONE_S_MAX
        ):
            raise OlderAttemptLives(f"processes of attempt {key} still live")


def has_living_supervisor(folder: AttemptFolder, began: Began | None) -> bool:
    """Return whether a supervisor of the attempt lives.  Raises OSError.

    This also checks the process, because a removed lock file counts as a free lock.
    """
    return folder.is_held() or (began is not None and identity.is_alive(identity_of(began)))


def identity_of(began: Began) -> Identity:
    """Return the process of a supervisor that has begun."""
    return Identity(began.pid, began.start_ticks, began.boot_id)


def find_supervisor(folder: AttemptFolder, records: AttemptRecords) -> Began | None:
    """Return the supervisor that has begun or, without a record, the holder of the lock.

    The holder has begun, or will begin at once; its ``places`` are unknown.
    """
    holder = folder.holder() if records.began is None else None
    return records.began if holder is None else Began(*holder)


def list_supervisors(folder: AttemptFolder, began: Began | None) -> Iterator[Identity]:
    """Yield the supervisor that has begun and the holder of the lock, which may differ."""
    for supervisor in (folder.holder(), began and identity_of(began)):
        if supervisor is not None:
            yield supervisor


def find_suspended(folder: AttemptFolder, began: Began | None) -> Identity | None:
    """Return the supervisor if it is suspended, so that it reads no order; else None."""
    return next(filter(identity.is_suspended, list_supervisors(folder, began)), None)


def _list_older(
    key: AttemptKey, folder: AttemptFolder
) -> Iterator[tuple[AttemptKey, AttemptFolder]]:
    try:
        names = os.listdir(folder.job)  # noqa: PTH208 - folders of attempts are strings
    except FileNotFoundError:
        return
    for name in names:
        if name.isdecimal() and int(name) < key.attempt:
            yield AttemptKey(key.uid, int(name)), AttemptFolder(f"{folder.job}/{name}")


def _kill(key: AttemptKey, folder: AttemptFolder, records: AttemptRecords) -> None:
    deadline = time.monotonic() + _GONE_S_MAX
    while has_living_supervisor(folder, records.began):
        for supervisor in list_supervisors(folder, records.began):
            identity.send_signal(supervisor, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise OlderAttemptLives(f"the supervisor of attempt {key} still lives")
        time.sleep(_POLL_S)
