"""Ends the older attempts of a job before a newer one begins, so that they never run together.

An order in its folder gives each older attempt up, so that a supervisor that is only late never
begins; a supervisor that lives, suspended or not, is killed; and the processes it leaves are ended.
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

#: Killed processes end within milliseconds; a longer wait is left to the next try.
_GONE_S_MAX: Final = 0.5
_POLL_S: Final = 0.005


class OlderAttemptLives(NotYet):
    """An older attempt of the job could not be ended yet."""


class Fence:
    """Ends older attempts."""

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
        began = begun(folder, records)
        if records.ended is None and not self._sweeper.is_clean(
            key, began, folder, wait_s=_GONE_S_MAX
        ):
            raise OlderAttemptLives(f"processes of attempt {key} still live")


def lives(folder: AttemptFolder, began: Began | None) -> bool:
    """Whether a supervisor of the attempt lives.  Raises OSError.

    A free lock proves nothing after its file was removed, so the supervisor is looked for too.
    """
    return folder.is_held() or (began is not None and identity.is_alive(identity_of(began)))


def identity_of(began: Began) -> Identity:
    """The process of a supervisor that has begun."""
    return Identity(began.pid, began.start_ticks, began.boot_id)


def begun(folder: AttemptFolder, records: AttemptRecords) -> Began | None:
    """The supervisor that has begun, or without that record the one that has taken the lock.

    The latter has begun, or is about to; its ``places`` are unknown.
    """
    holder = folder.holder() if records.began is None else None
    return records.began if holder is None else Began(*holder)


def supervisors(folder: AttemptFolder, began: Began | None) -> Iterator[Identity]:
    """The supervisor that has begun, and the one that has taken the lock, which it does first."""
    for supervisor in (folder.holder(), began and identity_of(began)):
        if supervisor is not None:
            yield supervisor


def suspended(folder: AttemptFolder, began: Began | None) -> Identity | None:
    """The supervisor of the attempt where it is suspended, and so obeys no order."""
    return next(filter(identity.is_suspended, supervisors(folder, began)), None)


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
    while lives(folder, records.began):
        for supervisor in supervisors(folder, records.began):
            identity.send_signal(supervisor, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise OlderAttemptLives(f"the supervisor of attempt {key} still lives")
        time.sleep(_POLL_S)
