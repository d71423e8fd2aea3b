"""Keeps the nodes of an attempt that has ended, so that the next attempt can run on them.

The server orders the next attempt by a file, ``next``, in the folder of the attempt that has ended.
The process that renames this file decides.  The launcher renames the file to ``taken`` and runs the
attempt, or the server renames the file to ``withdrawn`` and submits the attempt to the queue.  The
launcher releases the nodes when a file ``release`` exists.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.kernel.signals import ENDING
from trainshed.engines.supervise.record import spec as specs
from trainshed.engines.supervise.record.folder import (
    AttemptFolder,
    read_file,
    read_json,
    sync_folder,
    write_json,
)
from trainshed.engines.supervise.record.records import Ended, decode_all
from trainshed.engines.warden.archive_words import archive_words
from trainshed.files.beneath import PathBeneath
from trainshed.model.attempt import ReplicaExit
from trainshed.model.exit_status import SIGNAL_BASE

HELD, NEXT, TAKEN, WITHDRAWN, RELEASE = "held", "next", "taken", "withdrawn", "release"
CLAIM: Final = "claim"
_LOOK_S: Final = 0.1
#: After a long wait, the launcher lists the folder less often, to spare the shared file system.
_LOOK_S_MAX: Final = 1.0
_SLOWER: Final = 1.05
_PRIVATE_FILE: Final = 0o600
_CLAIM_BYTES_MAX: Final = 1 << 20
#: Values of ``model.stopping.StopReason`` after which another attempt may follow.
_MAY_FOLLOW: Final = ("hang", "again")
#: The exit status after SIGTERM, which a cluster sends first to get nodes back.
_TERMINATED: Final = SIGNAL_BASE + signal.SIGTERM


def run_next_attempt(path: str) -> None:
    """Keep the nodes if the plan has ``hold_s``, and run the next attempt if the server orders one.

    Replaces this process by the launcher of the next attempt; returns if there is no next attempt.
    """
    for signum in ENDING:
        signal.signal(signum, signal.SIG_DFL)
    with suppress(OSError, ValueError):  # the end of this attempt is recorded already
        if next_folder := await_next_attempt(AttemptFolder(path)):
            _exec_launcher(next_folder)


def await_next_attempt(folder: AttemptFolder) -> AttemptFolder | None:
    """Wait for an order; return the folder of the next attempt, or None if there is no order."""
    hold_s = hold_seconds(folder)
    if not hold_s or HELD in os.listdir(folder.path):
        return None
    claim = read_file(PathBeneath.of_file(f"{folder.path}/{CLAIM}"), bytes_max=_CLAIM_BYTES_MAX)
    job = claim.decode().split()[0]
    record = {"job": job, "until_s": time.time() + hold_s, "archive": os.path.abspath(sys.argv[0])}
    write_json(f"{folder.path}/{HELD}", record, durably=True)
    try:
        next_folder = _await_order(folder, time.monotonic() + hold_s)
    finally:
        release(folder)
    return next_folder if next_folder is not None and create_claim(next_folder, claim) else None


def release(folder: AttemptFolder) -> None:
    """Create the file that releases a kept allocation, unless it exists.  Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    os.close(os.open(f"{folder.path}/{RELEASE}", flags, _PRIVATE_FILE))
    sync_folder(folder.path)


def rename_order(folder: AttemptFolder, name: str) -> bool:
    """Rename the order for the next attempt; return False if it has been renamed already."""
    try:
        os.rename(f"{folder.path}/{NEXT}", f"{folder.path}/{name}")
    except FileNotFoundError:
        return False
    sync_folder(folder.path)
    return True


def hold_seconds(folder: AttemptFolder) -> float:
    """Return the seconds for which to keep the nodes; 0 if no attempt can follow."""
    ended = read_end(folder)
    if ended is None or not _may_be_followed(folder, ended):
        return 0.0
    remote = specs.read(folder.plan).remote
    return remote.hold_s if remote is not None else 0.0


def read_end(folder: AttemptFolder) -> Ended | None:
    """Return the recorded end of an attempt, or None.  Raises OSError."""
    records = decode_all(read_file(PathBeneath.of_file(folder.records)))
    return next((record for record in records if isinstance(record, Ended)), None)


def _may_be_followed(folder: AttemptFolder, ended: Ended) -> bool:
    """Return whether the program failed or was stopped for a hang, and no node was lost."""
    if ended.lost or ended.fault is not None or not ended.outcome.replicas:
        return False
    order, outcome = folder.stop_order(), ended.outcome
    failed = outcome.exit_code > SIGNAL_BASE
    if order is not None:
        return order.reason in _MAY_FOLLOW and (failed or outcome.interrupted)
    return failed and not outcome.interrupted and not any(map(_was_terminated, outcome.replicas))


def _was_terminated(replica: ReplicaExit) -> bool:
    """Return whether another program, such as the cluster, has sent SIGTERM to a replica."""
    return replica.status == _TERMINATED and not replica.stopped_by_us


def _await_order(folder: AttemptFolder, until_s: float) -> AttemptFolder | None:
    """Wait for an order until a time; None: no order has come, or ``release`` exists."""
    pause_s = _LOOK_S
    while time.monotonic() < until_s:
        names = os.listdir(folder.path)  # a lookup of one new name may fail on NFS
        if RELEASE in names:
            return None
        if NEXT in names and (next_folder := _take_order(folder)) is not None:
            return next_folder
        time.sleep(min(pause_s, max(0.0, until_s - time.monotonic())))
        pause_s = min(_LOOK_S_MAX, pause_s * _SLOWER)
    return None


def _take_order(folder: AttemptFolder) -> AttemptFolder | None:
    """Take an order and return the folder of its attempt; None if the server withdrew it."""
    with suppress(OSError, ValueError, TypeError):
        number = int(read_json(f"{folder.path}/{NEXT}"))
        own_number = int(folder.path.rpartition("/")[2])
        if number > own_number and rename_order(folder, TAKEN):
            return AttemptFolder(f"{folder.job}/{number}")
    return None


def create_claim(folder: AttemptFolder, content: bytes) -> bool:
    """Create the claim of an attempt; return False if the claim exists already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(f"{folder.path}/{CLAIM}", flags, _PRIVATE_FILE)
    except FileExistsError:
        return False
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder.path)
    return True


def write_output_to(folder: AttemptFolder) -> None:
    """Let this launcher write its output to the folder of its attempt.  Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    output = os.open(folder.words, flags, _PRIVATE_FILE)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)


def _exec_launcher(folder: AttemptFolder, run: Callable[..., object] = os.execv) -> None:
    """Replace this process by the launcher of another attempt, which writes to its own folder."""
    os.chdir(folder.path)
    write_output_to(folder)
    archive = os.path.abspath(sys.argv[0])
    # the reaper of this launcher is that of the next one
    run(sys.executable, [*archive_words(sys.executable, archive), "next", folder.path])
