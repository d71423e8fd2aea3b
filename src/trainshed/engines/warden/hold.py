"""What a launcher does after an attempt that may be tried again: its nodes are kept for the next.

The server orders that by a file, ``next``, in the folder of the attempt that has ended.  It may
change its mind.  Whoever gives that file another name has decided: ``taken`` by the launcher, or
``withdrawn`` by the server, which submits the attempt as any other.  ``release`` ends it all.
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
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.engines.supervise.record.records import Ended
from trainshed.files.beneath import PathBeneath
from trainshed.model.attempt import SIGNAL_BASE, ReplicaExit

HELD, NEXT, TAKEN, WITHDRAWN, RELEASE = "held", "next", "taken", "withdrawn", "release"
CLAIM: Final = "claim"
_LOOK_S: Final = 0.1
#: What waits long is asked for less often: it is a shared file system that is looked at.
_LOOK_S_MAX: Final = 1.0
_SLOWER: Final = 1.05
_PRIVATE_FILE: Final = 0o600
_CLAIM_BYTES_MAX: Final = 1 << 20
#: Of ``model.stopping.StopReason``.
_GOES_ON: Final = ("hang", "again")
#: What a cluster begins with where it wants nodes back.
_ASKED: Final = SIGNAL_BASE + signal.SIGTERM


def go_on(path: str) -> None:
    """Keep the nodes if that is wanted, and become the launcher of the next attempt if it comes."""
    for signum in ENDING:
        signal.signal(signum, signal.SIG_DFL)
    with suppress(OSError, ValueError):  # the attempt is over, and its end is written down
        if following := await_next_attempt(AttemptFolder(path)):
            _become(following)


def await_next_attempt(folder: AttemptFolder) -> AttemptFolder | None:
    """The folder of the attempt that is to run next; None: the nodes are not, or no more, kept."""
    kept_s = seconds(folder)
    if not kept_s or HELD in os.listdir(folder.path):
        return None
    claim = read_file(PathBeneath.of_file(f"{folder.path}/{CLAIM}"), bytes_max=_CLAIM_BYTES_MAX)
    job = claim.decode().split()[0]
    held = {"job": job, "until_s": time.time() + kept_s, "archive": os.path.abspath(sys.argv[0])}
    write_json(f"{folder.path}/{HELD}", held, durably=True)
    try:
        following = _await_order(folder, time.monotonic() + kept_s)
    finally:
        release(folder)
    return following if following is not None and _claims(following, claim) else None


def release(folder: AttemptFolder) -> None:
    """Release a kept allocation; server and launcher may both do so.  Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    os.close(os.open(f"{folder.path}/{RELEASE}", flags, _PRIVATE_FILE))
    sync_folder(folder.path)


def renamed(folder: AttemptFolder, name: str) -> bool:
    """Whether the order for the next attempt has this name from now on: only one can give it."""
    try:
        os.rename(f"{folder.path}/{NEXT}", f"{folder.path}/{name}")
    except FileNotFoundError:
        return False
    sync_folder(folder.path)
    return True


def seconds(folder: AttemptFolder) -> float:
    """How long the nodes are kept; 0: not at all, as there is nothing to be tried again."""
    records = AttemptRecords()
    records.read(folder.records)
    if records.ended is None or not _may_go_on(folder, records.ended):
        return 0.0
    remote = specs.read(folder.plan).remote
    return remote.hold_s if remote is not None else 0.0


def _may_go_on(folder: AttemptFolder, ended: Ended) -> bool:
    """Whether its program has failed, or was ended for a hang, on nodes that all were there."""
    if ended.lost or ended.fault is not None or not ended.outcome.replicas:
        return False
    order, outcome = folder.stop_order(), ended.outcome
    failed = outcome.exit_code > SIGNAL_BASE
    if order is not None:
        return order.reason in _GOES_ON and (failed or outcome.interrupted)
    return failed and not outcome.interrupted and not any(map(_was_asked, outcome.replicas))


def _was_asked(replica: ReplicaExit) -> bool:
    """Return whether another program has signalled a replica to end."""
    return replica.status == _ASKED and not replica.stopped_by_us


def _await_order(folder: AttemptFolder, until_s: float) -> AttemptFolder | None:
    """Wait for an order; None: it is over."""
    pause_s = _LOOK_S
    while time.monotonic() < until_s:
        names = os.listdir(folder.path)  # listed: NFS may hide a new name from who asks for it
        if RELEASE in names:
            return None
        if NEXT in names and (following := _take_order(folder)) is not None:
            return following
        time.sleep(min(pause_s, max(0.0, until_s - time.monotonic())))
        pause_s = min(_LOOK_S_MAX, pause_s * _SLOWER)
    return None


def _take_order(folder: AttemptFolder) -> AttemptFolder | None:
    """The attempt of an order, if that is still there to be taken."""
    with suppress(OSError, ValueError, TypeError):
        number = int(read_json(f"{folder.path}/{NEXT}"))
        own = int(folder.path.rpartition("/")[2])
        if number > own and renamed(folder, TAKEN):
            return AttemptFolder(f"{folder.job}/{number}")
    return None


def _claims(folder: AttemptFolder, claim: bytes) -> bool:
    """Have the attempt, as the batch script of an allocation of its own would; False: it is had."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(f"{folder.path}/{CLAIM}", flags, _PRIVATE_FILE)
    except FileExistsError:
        return False
    with open(descriptor, "wb") as file:
        file.write(claim)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder.path)
    return True


def _become(folder: AttemptFolder, run: Callable[..., object] = os.execv) -> None:
    """Be the launcher of another attempt; what it says of itself goes into that one's folder."""
    os.chdir(folder.path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    words = os.open(folder.words, flags, _PRIVATE_FILE)
    for descriptor in (1, 2):
        os.dup2(words, descriptor)
    archive = os.path.abspath(sys.argv[0])
    run(sys.executable, [sys.executable, "-I", "-S", archive, "attempt", folder.path])
