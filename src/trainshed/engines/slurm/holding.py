"""Offers, shows and releases allocations that are kept for the next attempt of their job.

With ``hold_s`` the launcher of an attempt that has failed keeps its nodes for so many seconds
(``engines.warden.hold``).  This module decides whether the next attempt runs there, and releases
the nodes otherwise: jobs of one name run one after the other, so an allocation that is kept for
no attempt would prevent the next attempt from getting its own.

Server and launcher exchange files in the folder of the attempt that has ended:

``held``
    The launcher keeps its nodes: the number of its job, until when, and the archive it runs from.
``next``
    The server offers the attempt with this number.
``taken``
    The launcher has renamed ``next`` to this: it becomes the launcher of that attempt.
``withdrawn``
    The server has renamed ``next`` to this: it submits that attempt like any other.
``release``
    The server or the launcher releases the allocation.  The file may exist before ``held``, and it
    stays beside ``taken``.

Only one of the two can rename ``next``, so an attempt that was offered begins once, even if
either is killed in between: a server that reads ``next``, ``taken`` or ``withdrawn`` continues from
that state.
"""

import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from trainshed.engines.slurm.commands import SlurmAway
from trainshed.engines.slurm.nodes import ClusterState, is_open
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.script import Submission, job_name, sbatch_words
from trainshed.engines.slurm.spool import Spool, read_submission
from trainshed.engines.slurm.states import SlurmState, state_of
from trainshed.engines.supervise.record.folder import AttemptFolder, read_json, write_json
from trainshed.engines.warden import hold
from trainshed.files.beneath import Beneath
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault
from trainshed.model.stopping import StopReason

#: Orders after which a job may have another attempt, in the allocation of this one.
_GOES_ON: Final = frozenset({StopReason.AGAIN, StopReason.HANG})
#: Suffix of a job's comment while its allocation is kept.
MARK: Final = " kept"
_KEY_MAX: Final = 45
_DIGITS: Final = 16
#: Seconds a launcher has to take an attempt, and between two checks.
TAKE_S: Final = 10.0
_LOOK_S: Final = 0.05
#: Seconds by which a launcher may release its nodes late.
_LATE_S: Final = 30.0


class KeptAllocation(NamedTuple):
    """A launcher's record of an allocation that it keeps."""

    job: str
    until_s: float
    archive: str
    """The archive that the launcher runs from, also for the next attempt."""


class Taker(NamedTuple):
    """The allocation that has taken an attempt."""

    job: str
    attempt: int
    """Number of the attempt that it was kept from."""


class KeptAllocations:
    """The kept allocations of one installation; their state is only in files."""

    def __init__(self, queue: Queue, spool: Spool, *, is_on: bool) -> None:
        """``spool`` has the folders of all attempts; ``is_on``: launchers keep their nodes."""
        self._queue = queue
        self._spool = spool
        self._is_on = is_on

    def take(
        self, submission: Submission, ends_s: float | None, cluster: ClusterState
    ) -> Taker | None:
        """Offer an attempt to a kept allocation; None: none has taken it, and none will.

        ``ends_s``: seconds for which the attempt may need it; None: without limit.  May be called
        again for an attempt that was offered before.  Raises SlurmAway or OSError.
        """
        earlier = self._find_earlier(submission.key)
        if earlier is None:
            return None
        key, held = earlier
        folder = self._spool.folder(key)
        if not self._is_offered(folder, held, submission, ends_s, cluster) or not self._is_taken(
            folder, submission.key
        ):
            self._give_back(folder, held)
            return None
        name = job_name(submission.installation, submission.key.uid)
        for row in self._queue.jobs(name):
            if row.id == held.job and not row.component:
                self._rename(row, str(submission.key))
        return Taker(held.job, key.attempt)

    def keeps(self, folder: AttemptFolder) -> bool:
        """Return whether the allocation of an attempt may wait for the next one."""
        held = read(folder)
        if held is None or time.time() > held.until_s + _LATE_S:
            return False
        return not _list_names(folder) & {hold.RELEASE, hold.TAKEN}

    def goes_on(self, folder: AttemptFolder) -> bool:
        """Whether the allocation of an ended attempt is kept, or used by the next attempt."""
        return read(folder) is not None and (bool(_read_taker(folder)) or self.keeps(folder))

    def stop(self, key: AttemptKey, reason: StopReason) -> None:
        """Release all allocations after an order that ends the job for good.  Raises OSError."""
        if self._is_on and reason not in _GOES_ON:
            self.end(key.uid)

    def end(self, uid: int) -> None:
        """Release kept allocations of a job, and prevent new ones.  Raises OSError."""
        for key in self._spool.attempts_of(uid):
            self._spool.check(key)
            folder = self._spool.folder(key)
            if (held := read(folder)) is not None:
                self._give_back(folder, held)
            elif self._is_on:
                hold.release(folder)  # its launcher may be about to keep it

    def name(self, key: AttemptKey, row: SlurmJob) -> bool:
        """Make ``squeue`` show that an allocation is kept, or which attempt uses it now.

        False: it is neither, so its job must end.
        """
        folder = self._spool.folder(key)
        if not self.goes_on(folder):
            return False
        taker = _read_taker(folder)
        self._rename(row, str(AttemptKey(key.uid, taker)) if taker else f"{key}{MARK}")
        return True

    def _rename(self, row: SlurmJob, comment: str) -> None:
        if row.comment != comment:
            with suppress(SlurmAway):  # only people read the comment
                self._queue.comment(row.id, comment)

    def _find_earlier(self, key: AttemptKey) -> tuple[AttemptKey, KeptAllocation] | None:
        """Return the last earlier attempt with a kept allocation."""
        for earlier in reversed(self._spool.attempts_of(key.uid)):
            if earlier.attempt < key.attempt:
                self._spool.check(earlier)
                if (held := self._await_held(self._spool.folder(earlier))) is not None:
                    return earlier, held
        return None

    def _await_held(self, folder: AttemptFolder) -> KeptAllocation | None:
        """Wait for the record of a kept allocation; release it if there is none in time."""
        until_s = time.monotonic() + TAKE_S
        may_keep = _hold_seconds(folder) > 0
        while (held := read(folder)) is None and may_keep:
            if hold.RELEASE in _list_names(folder) or time.monotonic() > until_s:
                break
            time.sleep(_LOOK_S)
        if held is None and (may_keep or self._is_on):
            hold.release(folder)
        return held

    def _is_offered(
        self,
        folder: AttemptFolder,
        held: KeptAllocation,
        submission: Submission,
        ends_s: float | None,
        cluster: ClusterState,
    ) -> bool:
        """Offer the allocation to the next attempt; return whether it is or was offered."""
        names = _list_names(folder)
        if names & {hold.TAKEN, hold.WITHDRAWN, hold.NEXT}:
            return True
        if hold.RELEASE in names or not self._fits(folder, held, submission, ends_s, cluster):
            return False
        write_json(f"{folder.path}/{hold.NEXT}", submission.key.attempt, durably=True)
        return True

    def _fits(
        self,
        folder: AttemptFolder,
        held: KeptAllocation,
        submission: Submission,
        ends_s: float | None,
        cluster: ClusterState,
    ) -> bool:
        """Return whether an allocation matches the request, is complete and lasts long enough."""
        record = read_submission(folder)
        if record is None or (record.job, record.shape) != (held.job, shape_of(submission)):
            return False
        if held.archive != submission.archive or time.time() > held.until_s:
            return False
        name = job_name(submission.installation, submission.key.uid)
        rows = [row for row in self._queue.jobs(name) if row.id == held.job]
        if state_of(rows) is not SlurmState.RUNNING or not _are_good(rows, submission, cluster):
            return False
        left_s = self._queue.left_s(held.job)
        return left_s is not None and left_s >= (float("inf") if ends_s is None else ends_s)

    def _is_taken(self, folder: AttemptFolder, key: AttemptKey) -> bool:
        """Wait for its launcher to take the attempt; withdraw the offer if it does not in time."""
        until_s = time.monotonic() + TAKE_S
        while not (names := _list_names(folder)) & {hold.TAKEN, hold.WITHDRAWN}:
            if hold.RELEASE in names or time.monotonic() > until_s:
                hold.rename_order(folder, hold.WITHDRAWN)
                names = _list_names(folder)
                break
            time.sleep(_LOOK_S)
        return hold.TAKEN in names and _read_taker(folder) == key.attempt

    def _give_back(self, folder: AttemptFolder, held: KeptAllocation) -> None:
        """Release an allocation, unless the next attempt uses it or the job is not its own."""
        was_kept = self.keeps(folder) and _is_of(folder, held)
        hold.release(folder)
        if was_kept and hold.TAKEN not in _list_names(folder):
            with suppress(SlurmAway):  # its launcher reads the file by itself
                self._queue.cancel(held.job)


def key_of(comment: str) -> AttemptKey | None:
    """Parse the attempt in a job's comment, also while its allocation is kept."""
    uid, _, attempt = comment.removesuffix(MARK).partition("/")
    is_one = uid.isdecimal() and attempt.isdecimal() and len(comment) <= _KEY_MAX
    return AttemptKey(int(uid), int(attempt)) if is_one else None


def is_job_of(comment: str, key: AttemptKey, kept_from: int) -> bool:
    """Return whether a job with this comment belongs to an attempt, or was kept for it."""
    other = key_of(comment)
    return other == key or (kept_from > 0 and other is not None and other.uid == key.uid)


def describe(kept_from: int, job: str) -> str:
    """Say where an attempt runs; empty: in an allocation of its own."""
    if not kept_from:
        return ""
    return f"in the allocation kept from attempt {kept_from} (Slurm job {job})"


def shape_of(submission: Submission) -> str:
    """Return a hash of the request to Slurm, without the values that differ between attempts."""
    same = replace(
        submission, key=AttemptKey(submission.key.uid, 0), folder="", minutes=None, exclude=()
    )
    return hashlib.sha256("\0".join(sbatch_words(same)).encode()).hexdigest()[:_DIGITS]


def _are_good(rows: Sequence[SlurmJob], submission: Submission, cluster: ClusterState) -> bool:
    """Return whether all nodes accept jobs, and no attempt of the job was lost on one of them."""
    nodes = {node for row in rows for node in row.nodes}
    open_ = {node.name for node in cluster.nodes if is_open(node)}
    return bool(nodes) and nodes <= open_ and nodes.isdisjoint(submission.exclude)


def read(folder: AttemptFolder) -> KeptAllocation | None:
    """Read the record of a kept allocation, which programs of the job may have damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        record = read_json(f"{folder.path}/{hold.HELD}")
        if _is_number(record["job"]):
            return KeptAllocation(record["job"], float(record["until_s"]), str(record["archive"]))
    return None


def _is_of(folder: AttemptFolder, held: KeptAllocation) -> bool:
    """Return whether the kept job is the attempt's own."""
    with suppress(OSError, ValueError):
        record = read_submission(folder)
        return record is not None and record.job == held.job
    return False


def _hold_seconds(folder: AttemptFolder) -> float:
    """Return the seconds for which its launcher keeps its nodes; 0: it does not keep them."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return hold.hold_seconds(folder)
    return 0.0


def _read_taker(folder: AttemptFolder) -> int:
    """Return the number of the attempt that has taken an allocation; 0: none."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        number = read_json(f"{folder.path}/{hold.TAKEN}")
        return number if isinstance(number, int) and not isinstance(number, bool) else 0
    return 0


def _is_number(job: Any) -> bool:
    return isinstance(job, str) and job.isascii() and job.isdecimal()


def _list_names(folder: AttemptFolder) -> set[str]:
    """List the names in a folder; NFS may hide new names from a lookup."""
    try:
        with Beneath(folder.path) as own:
            return {name for name, _ in own.entries()}
    except FileNotFoundError as error:
        raise EngineFault(f"cannot list {folder.path}: the folder was removed") from error
