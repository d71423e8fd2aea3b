"""Offers and releases allocations that are kept for the next attempt of their job.

With ``hold_s`` the launcher of an attempt that has failed keeps its nodes for so many seconds
(``engines.warden.hold``).  This module decides whether the next attempt runs there, and releases
the nodes otherwise: jobs of one name run one after the other, so an allocation that is kept for
no attempt would prevent the next attempt from starting in its own allocation.

Server and launcher exchange files in the folder of the attempt that has ended:

``held``
    The launcher keeps its nodes.  The file has the number of the Slurm job, the end of this time,
    and the archive that the launcher runs from.
``next``
    The server offers the attempt with this number.
``taken``
    The launcher has renamed ``next`` to this name, and becomes the launcher of that attempt.
``withdrawn``
    The server has renamed ``next`` to this name, and submits that attempt like any other.
``release``
    The server or the launcher releases the allocation.  This file may exist before ``held``, and
    remains after ``taken`` exists.

Only one of server and launcher can rename ``next``, so an attempt that was offered begins once,
even if one of them is killed in between.  A server that reads ``next``, ``taken`` or ``withdrawn``
continues from that state.
"""

import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from trainshed.engines.slurm.attempt_files import read_submission
from trainshed.engines.slurm.commands import SlurmAway
from trainshed.engines.slurm.comments import compose_comment, owner_of
from trainshed.engines.slurm.nodes import ClusterState, is_open
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.script import Submission, job_name, sbatch_words
from trainshed.engines.slurm.states import SlurmState, state_of
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.folder import AttemptFolder, read_json, write_json
from trainshed.engines.warden import hold
from trainshed.files.beneath import Beneath
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault
from trainshed.model.stopping import StopReason

#: Orders after which a job may have another attempt, in the allocation of this one.
_GOES_ON: Final = frozenset({StopReason.AGAIN, StopReason.HANG})
_DIGITS: Final = 16
#: Seconds in which a launcher must take an offered attempt, and seconds between two checks.
TAKE_S: Final = 10.0
_LOOK_S: Final = 0.05
#: Seconds after the promised time in which a launcher may still release its nodes.
_LATE_S: Final = 30.0


class KeptAllocation(NamedTuple):
    """A launcher's record of an allocation that it keeps."""

    job: str
    until_s: float
    """When the launcher releases its nodes, in seconds since 1970."""
    archive: str
    """The archive that the launcher runs from, also for the next attempt."""


class TakenAllocation(NamedTuple):
    """The kept allocation that an attempt runs in."""

    job: str
    attempt: int
    """Number of the earlier attempt whose allocation was kept."""


class KeptAllocations:
    """The kept allocations of one installation; their state is only in files."""

    def __init__(self, queue: Queue, spool: Spool, *, is_on: bool) -> None:
        """``spool`` has the folders of all attempts; ``is_on``: whether launchers keep nodes."""
        self._queue = queue
        self._spool = spool
        self._is_on = is_on

    def take(
        self, submission: Submission, ends_s: float | None, cluster: ClusterState
    ) -> TakenAllocation | None:
        """Offer an attempt to a kept allocation; None: no allocation has taken the attempt or will.

        ``ends_s``: seconds for which the attempt may need nodes; None: without limit.  May be
        called again for an attempt that was offered before.  Raises SlurmAway or OSError.
        """
        earlier = self._find_earlier(submission.key)
        if earlier is None:
            return None
        key, allocation = earlier
        folder = self._spool.folder(key)
        if not self._offer(
            folder, allocation, submission, ends_s, cluster
        ) or not self._await_taken(folder, submission.key):
            self._release(folder, allocation)
            return None
        name = job_name(submission.installation, submission.key.uid)
        for row in self._queue.jobs(name):
            if row.id == allocation.job and not row.component:
                self._rename(row, compose_comment(submission.key, submission.owner))
        return TakenAllocation(allocation.job, key.attempt)

    def keeps(self, folder: AttemptFolder) -> bool:
        """Return whether the allocation of an attempt is kept, and no attempt has taken it."""
        allocation = read_allocation(folder)
        if allocation is None or time.time() > allocation.until_s + _LATE_S:
            return False
        return not _list_names(folder) & {hold.RELEASE, hold.TAKEN}

    def goes_on(self, folder: AttemptFolder) -> bool:
        """Return whether the allocation of an ended attempt is kept, or a later attempt uses it."""
        return read_allocation(folder) is not None and (
            bool(_read_taker(folder)) or self.keeps(folder)
        )

    def stop(self, key: AttemptKey, reason: StopReason) -> None:
        """Release all allocations after an order that ends the job for good.  Raises OSError."""
        if self._is_on and reason not in _GOES_ON:
            self.end(key.uid)

    def end(self, uid: int) -> None:
        """Release kept allocations of a job, and prevent new ones.  Raises OSError."""
        for key in self._spool.attempts_of(uid):
            self._spool.check(key)
            folder = self._spool.folder(key)
            if (allocation := read_allocation(folder)) is not None:
                self._release(folder, allocation)
            elif self._is_on:
                hold.release(folder)  # the launcher may be about to keep its nodes

    def show_use(self, key: AttemptKey, row: SlurmJob) -> bool:
        """Make ``squeue`` show that an allocation is kept, or which attempt uses it now.

        Returns False if the allocation is neither kept nor used, so that its Slurm job must end.
        """
        folder = self._spool.folder(key)
        if not self.goes_on(folder):
            return False
        taker = _read_taker(folder)
        shown_key = AttemptKey(key.uid, taker) if taker else key
        self._rename(row, compose_comment(shown_key, owner_of(row.comment), is_kept=not taker))
        return True

    def _rename(self, row: SlurmJob, comment: str) -> None:
        if row.comment != comment:
            with suppress(SlurmAway):  # the comment is only for users
                self._queue.comment(row.id, comment)

    def _find_earlier(self, key: AttemptKey) -> tuple[AttemptKey, KeptAllocation] | None:
        """Return the last earlier attempt with a kept allocation."""
        for earlier in reversed(self._spool.attempts_of(key.uid)):
            if earlier.attempt < key.attempt:
                self._spool.check(earlier)
                if (allocation := self._await_allocation(self._spool.folder(earlier))) is not None:
                    return earlier, allocation
        return None

    def _await_allocation(self, folder: AttemptFolder) -> KeptAllocation | None:
        """Wait for the record of a kept allocation; release the nodes if the record is late."""
        until_s = time.monotonic() + TAKE_S
        may_keep = _hold_seconds(folder) > 0
        while (allocation := read_allocation(folder)) is None and may_keep:
            if hold.RELEASE in _list_names(folder) or time.monotonic() > until_s:
                break
            time.sleep(_LOOK_S)
        if allocation is None and (may_keep or self._is_on):
            hold.release(folder)
        return allocation

    def _offer(
        self,
        folder: AttemptFolder,
        allocation: KeptAllocation,
        submission: Submission,
        ends_s: float | None,
        cluster: ClusterState,
    ) -> bool:
        """Offer the allocation to the next attempt; return whether this offer exists."""
        names = _list_names(folder)
        if names & {hold.TAKEN, hold.WITHDRAWN, hold.NEXT}:
            return True
        if hold.RELEASE in names or not self._fits(folder, allocation, submission, ends_s, cluster):
            return False
        write_json(f"{folder.path}/{hold.NEXT}", submission.key.attempt, durably=True)
        return True

    def _fits(
        self,
        folder: AttemptFolder,
        allocation: KeptAllocation,
        submission: Submission,
        ends_s: float | None,
        cluster: ClusterState,
    ) -> bool:
        """Return whether an allocation matches the request, is complete and lasts long enough."""
        record = read_submission(folder)
        if record is None or record.job != allocation.job:
            return False
        if record.shape != hash_request(submission):
            return False
        if allocation.archive != submission.archive or time.time() > allocation.until_s:
            return False
        name = job_name(submission.installation, submission.key.uid)
        rows = [row for row in self._queue.jobs(name) if row.id == allocation.job]
        if state_of(rows) is not SlurmState.RUNNING or not _are_good(rows, submission, cluster):
            return False
        left_s = self._queue.left_s(allocation.job)
        return left_s is not None and left_s >= (float("inf") if ends_s is None else ends_s)

    def _await_taken(self, folder: AttemptFolder, key: AttemptKey) -> bool:
        """Wait until the launcher takes the attempt; withdraw the offer after ``TAKE_S``."""
        until_s = time.monotonic() + TAKE_S
        while not (names := _list_names(folder)) & {hold.TAKEN, hold.WITHDRAWN}:
            if hold.RELEASE in names or time.monotonic() > until_s:
                hold.rename_order(folder, hold.WITHDRAWN)
                names = _list_names(folder)
                break
            time.sleep(_LOOK_S)
        return hold.TAKEN in names and _read_taker(folder) == key.attempt

    def _release(self, folder: AttemptFolder, allocation: KeptAllocation) -> None:
        """Release an allocation, and cancel its Slurm job unless the next attempt uses it."""
        was_kept = self.keeps(folder) and _is_own_job(folder, allocation)
        hold.release(folder)
        if was_kept and hold.TAKEN not in _list_names(folder):
            with suppress(SlurmAway):  # the launcher finds the file by itself
                self._queue.cancel(allocation.job)


def describe(kept_from: int, job: str) -> str:
    """Describe the kept allocation that an attempt runs in; empty: the attempt has its own."""
    if not kept_from:
        return ""
    return f"in the allocation kept from attempt {kept_from} (Slurm job {job})"


def hash_request(submission: Submission) -> str:
    """Return a hash of the request to Slurm, without the values that differ between attempts."""
    key = AttemptKey(submission.key.uid, 0)
    normalized = replace(
        submission,
        key=key,
        owner="",
        folder="",
        minutes=None,
        exclude=(),
        partition="",  # of several, those that permit the time that is left
    )
    return hashlib.sha256("\0".join(sbatch_words(normalized)).encode()).hexdigest()[:_DIGITS]


def _are_good(rows: Sequence[SlurmJob], submission: Submission, cluster: ClusterState) -> bool:
    """Return whether all nodes accept jobs, and no attempt of the job was lost on one of them."""
    nodes = {node for row in rows for node in row.nodes}
    open_nodes = {node.name for node in cluster.nodes if is_open(node)}
    return bool(nodes) and nodes <= open_nodes and nodes.isdisjoint(submission.exclude)


def read_allocation(folder: AttemptFolder) -> KeptAllocation | None:
    """Read the record of a kept allocation; None: no record, or a damaged record."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        record = read_json(f"{folder.path}/{hold.HELD}")
        if _is_number(record["job"]):
            return KeptAllocation(record["job"], float(record["until_s"]), str(record["archive"]))
    return None


def _is_own_job(folder: AttemptFolder, allocation: KeptAllocation) -> bool:
    """Return whether the kept job is the attempt's own."""
    with suppress(OSError, ValueError):
        record = read_submission(folder)
        return record is not None and record.job == allocation.job
    return False


def _hold_seconds(folder: AttemptFolder) -> float:
    """Return the seconds for which the launcher of an attempt keeps its nodes; 0: not at all."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return hold.hold_seconds(folder)
    return 0.0


def _read_taker(folder: AttemptFolder) -> int:
    """Return the number of the attempt that has taken an allocation; 0: no attempt."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        number = read_json(f"{folder.path}/{hold.TAKEN}")
        return number if isinstance(number, int) and not isinstance(number, bool) else 0
    return 0


def _is_number(job: Any) -> bool:
    return isinstance(job, str) and job.isascii() and job.isdecimal()


def _list_names(folder: AttemptFolder) -> set[str]:
    """List the files of an attempt's folder: on NFS, a lookup may not find a new file."""
    try:
        with Beneath(folder.path) as own:
            return {name for name, _ in own.entries()}
    except FileNotFoundError as error:
        raise EngineFault(f"cannot list {folder.path}: the folder was removed") from error
