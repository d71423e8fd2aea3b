"""Carries out stop orders and reports changes, in the poller's thread between two polls.

An order is a file in the attempt's folder.  A job that has not begun, or whose end is known, is
cancelled.  A job that runs is ended by its launcher: a signal makes the launcher read the order,
and the job is cancelled only if it takes longer than the order allows.  Orders that an earlier
server wrote are carried out when Slurm lists their jobs.
"""

import enum
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.attempt_table import AttemptTable
from trainshed.engines.slurm import attempt_files, comments, states
from trainshed.engines.slurm.attempt import SlurmAttempt
from trainshed.engines.slurm.holding import KeptAllocations
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.poll import LastAnswer, Poller
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.states import MOVING, OVER, SlurmState
from trainshed.engines.spool import Spool
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault

#: Rounds between two calls of ``refresh``.
_ROUNDS_OF_REFRESH: Final = 5
#: Answers between two sweeps of the jobs that wait: another server may have written an order.
_ANSWERS_OF_ALL: Final = 6
#: The most jobs in one query of who has cancelled them, and seconds after a query that Slurm's
#: accounting did not answer.
_ASKED_MAX: Final = 500
_ACCOUNTS_S: Final = 10.0
#: Seconds until a job that still runs is cancelled again.
_CANCEL_S: Final = 10.0


class OrderStep(enum.Enum):
    """The next step for an order."""

    DONE = "DONE"
    WAIT = "WAIT"
    SHOW_KEPT = "SHOW_KEPT"
    """Make squeue show that the allocation is kept; no further step follows."""
    REMIND = "REMIND"
    """Signal the launcher to read the order."""
    CANCEL = "CANCEL"


class OrderFacts(NamedTuple):
    """The state of an attempt that is to end."""

    is_submitted: bool = True
    is_settled: bool = False
    """Whether Slurm would list the job of the attempt by now."""
    job: str = "1"
    """Slurm's number; empty until Slurm has given one."""
    is_answered: bool = True
    """Whether Slurm has answered at all."""
    state: SlurmState | None = None
    """The state of the job; None: Slurm does not list the job."""
    is_final: bool = False
    """Whether the end of the attempt was observed."""
    has_end: bool = False
    """Whether the end that Slurm reported is stored."""
    is_kept: bool = False
    """Whether the allocation is kept for the next attempt, or the next attempt uses it."""
    is_leaving: bool = False
    """Whether the launcher recorded the end just now, and so exits by itself."""
    has_begun: bool = False
    is_starting: bool = False
    """Whether a job has the claim but has not begun; its launcher reads the order when it begins.

    A signal, or the end of the job, would kill a launcher that cannot record its end yet.
    """
    is_overdue: bool = False
    """Whether the time that the order allows is over."""
    is_requeued: bool = False
    is_reminded: bool = False
    """Whether the launcher was signalled to read the order."""


def next_step(facts: OrderFacts) -> OrderStep:
    """Decide the next step of an order.  Valid only while Slurm answers."""
    if facts.is_final and facts.is_kept:
        return OrderStep.SHOW_KEPT if facts.state is not None else OrderStep.DONE
    if not facts.job:
        is_over = not facts.is_submitted or (facts.is_final and facts.is_settled)
        return OrderStep.DONE if is_over else OrderStep.WAIT
    if facts.state in OVER:
        return OrderStep.DONE
    if facts.state is None and facts.is_final and facts.is_answered:
        return OrderStep.DONE if facts.is_settled else OrderStep.WAIT
    is_end_known = facts.is_final or facts.has_end
    is_queued = not (facts.has_begun or facts.is_starting)
    if is_end_known or is_queued or facts.is_overdue or facts.is_requeued:
        return OrderStep.WAIT if facts.is_leaving else OrderStep.CANCEL
    return OrderStep.WAIT if facts.is_reminded or facts.is_starting else OrderStep.REMIND


class Orders:
    """The orders of one engine that are not carried out yet."""

    def __init__(
        self,
        attempts: AttemptTable[SlurmAttempt],
        spool: Spool,
        queue: Queue,
        kept_allocations: KeptAllocations,
        *,
        refresh: Callable[[], None],
    ) -> None:
        """Call ``refresh`` about once a second."""
        self._attempts = attempts
        self._spool = spool
        self._queue = queue
        self._holding = kept_allocations
        self._refresh = refresh
        self._swept_at = 0
        self._rounds = 0
        self._waiting = frozenset[AttemptKey]()
        self._moving: Sequence[SlurmAttempt] = ()
        """The open attempts whose jobs do not wait, by the last answer and ``_version``."""
        self._version = -1
        self._sweeps = 0
        self._accounts_at_s = float("-inf")
        self.pending: set[AttemptKey] = set()
        self.callback: Callable[[Collection[AttemptKey]], None] = lambda _: None
        """The function to call with the attempts whose state may have changed."""

    def add(self, key: AttemptKey) -> None:
        """Carry out the order in the folder of an attempt as soon as possible."""
        with self._attempts.lock:
            self.pending.add(key)

    def work(self, poller: Poller) -> bool:
        """Report grown records and carry out orders; return whether a job is changing."""
        self._rounds += 1
        answer = poller.last_answer
        if self._rounds % _ROUNDS_OF_REFRESH == 0:
            self._refresh()
        is_new_answer = answer.number != self._swept_at
        with self._attempts.lock:
            pending = list(self.pending)
        moving = self._list_moving(answer, is_new_answer=is_new_answer)
        self._report([attempt.key for attempt in moving if _has_grown(attempt)])
        for key in pending:
            self._carry_out(key, poller)
        if is_new_answer:
            self._swept_at = answer.number
            is_full = self._sweeps % _ANSWERS_OF_ALL == 0
            self._sweep(answer.rows, () if is_full else self._waiting)
            self._sweeps += 1
            self._ask_who_cancelled(moving, answer)
        return bool(pending) or any(
            _is_changing(attempt, attempt.rows(answer)) for attempt in moving
        )

    def _list_moving(self, answer: LastAnswer, *, is_new_answer: bool) -> Sequence[SlurmAttempt]:
        """List the open attempts whose jobs do not wait in Slurm's queue.

        Thousands may wait, and only an answer can say that one begins.
        """
        if is_new_answer or self._version != self._attempts.version:
            self._version, open_attempts = self._attempts.version, self._list_open()
            if is_new_answer:
                self._waiting = _list_waiting(open_attempts, answer)
            self._moving = [one for one in open_attempts if one.key not in self._waiting]
        return [attempt for attempt in self._moving if attempt.final is None]

    def list_open_jobs(self) -> frozenset[str]:
        """List Slurm's numbers of the jobs that are not over."""
        with self._attempts.lock:
            return frozenset(attempt.job for attempt in self._list_open() if attempt.job)

    def report_all(self) -> None:
        """Call back for all attempts that are not over, because their state may have changed."""
        with self._attempts.lock:
            keys = [attempt.key for attempt in self._list_open()]
        self._report(keys)

    def _list_open(self) -> list[SlurmAttempt]:
        return [attempt for attempt in self._attempts.list_all() if attempt.final is None]

    def _report(self, keys: Collection[AttemptKey]) -> None:
        if keys:
            self.callback(keys)

    def _sweep(
        self, rows: Mapping[str, Sequence[SlurmJob]], excluded: Collection[AttemptKey]
    ) -> None:
        """Add orders from before this server's start, and orders for jobs of ended attempts."""
        for job, parts in rows.items():
            key = comments.key_of(parts[0].comment)
            if key is None or key in excluded or states.state_of(parts) in OVER:
                continue
            with suppress(OSError, ValueError, EngineFault):
                self._spool.check(key)
                if self._must_end(self._attempts.get(key), job, parts):
                    self.add(key)

    def _ask_who_cancelled(self, attempts: Sequence[SlurmAttempt], answer: LastAnswer) -> None:
        """Ask Slurm who has cancelled jobs that this server did not order to end."""
        unexplained = [attempt for attempt in attempts if self._is_unexplained(attempt, answer)]
        attempts_by_job = {attempt.job: attempt for attempt in unexplained[:_ASKED_MAX]}
        if not attempts_by_job or time.monotonic() < self._accounts_at_s:
            return
        uids = {job: attempt.key.uid for job, attempt in attempts_by_job.items()}
        cancellations, is_complete = self._queue.find_cancellations(uids)
        if not is_complete:
            self._accounts_at_s = time.monotonic() + _ACCOUNTS_S
        for job, attempt in attempts_by_job.items():
            attempt.take_cancellation(cancellations.get(job), is_complete=is_complete)
        self._report([attempt.key for attempt in attempts_by_job.values()])

    def _is_unexplained(self, attempt: SlurmAttempt, answer: LastAnswer) -> bool:
        """Return whether Slurm has ended or forgotten a job, and the server has not queried why."""
        if not attempt.job or attempt.cancellation is not None or attempt.key in self.pending:
            return False
        rows = attempt.rows(answer)
        return states.state_of(rows) is SlurmState.STOPPED if rows else attempt.is_missed

    def _must_end(self, attempt: SlurmAttempt, job: str, parts: Sequence[SlurmJob]) -> bool:
        """Return whether a job must end: its attempt has an order or an end, or was requeued."""
        if attempt.final is not None and self._holding.show_use(attempt.key, parts[0]):
            return False
        if attempt.submitted is None:
            attempt.submitted = attempt_files.read_submission(attempt.folder)
        has_end = attempt_files.read_end(attempt.folder) is not None
        has_order = attempt.folder.stop_order() is not None
        # if the number is unknown, the comment has identified the job
        is_own_job = attempt.job in {job, ""} and attempt.submitted is not None
        return is_own_job and (has_end or has_order or attempt.is_requeued)

    def _carry_out(self, key: AttemptKey, poller: Poller) -> None:
        try:
            is_done = self._take_step(self._attempts.get(key), poller)
        except (OSError, ValueError, EngineFault):
            return  # the next round retries
        if is_done:
            with self._attempts.lock:
                self.pending.discard(key)

    def _take_step(self, attempt: SlurmAttempt, poller: Poller) -> bool:
        """Take the next step of an order; return whether the order is complete."""
        answer = poller.last_answer
        if answer.is_away:
            return False
        self._attempts.observe(attempt.key)
        step = next_step(self._read_facts(attempt, answer))
        if step is OrderStep.SHOW_KEPT:
            return self._holding.show_use(attempt.key, attempt.rows(answer)[0])
        if step is OrderStep.REMIND:
            self._queue.look_now(attempt.job)
            attempt.is_reminded = True
        if step is OrderStep.CANCEL and time.monotonic() - attempt.cancelled_s >= _CANCEL_S:
            attempt.cancelled_s = time.monotonic()
            self._queue.cancel(attempt.job)
        return step is OrderStep.DONE

    def _read_facts(self, attempt: SlurmAttempt, answer: LastAnswer) -> OrderFacts:
        """Read the facts for the next step of an order.  Raises OSError or ValueError."""
        rows = attempt.rows(answer)
        state = states.state_of(rows) if rows else None
        is_final = attempt.final is not None
        is_open = bool(attempt.job) and not is_final and state not in OVER
        has_end = is_final or (is_open and attempt_files.read_end(attempt.folder) is not None)
        has_begun = attempt.records.began is not None
        is_starting = attempt.is_starting and not has_begun
        is_kept = is_final and self._holding.goes_on(attempt.folder)
        # after the nodes are released, the launcher has some time to exit
        may_leave = is_final and not is_kept and attempt.records.ended is not None
        return OrderFacts(
            is_submitted=attempt.submitted is not None,
            is_settled=is_final and state is None and attempt.is_settled(),
            job=attempt.job,
            is_answered=answer.number > 0,
            state=state,
            is_final=is_final,
            has_end=has_end,
            is_kept=is_kept,
            is_leaving=may_leave and attempt.is_leaving(),
            has_begun=has_begun,
            is_starting=is_starting,
            is_overdue=is_open and (has_begun or is_starting) and not has_end and attempt.overdue(),
            is_requeued=attempt.is_requeued,
            is_reminded=attempt.is_reminded,
        )


def _list_waiting(attempts: Collection[SlurmAttempt], answer: LastAnswer) -> frozenset[AttemptKey]:
    """List the attempts whose jobs wait in Slurm's queue and have not begun."""
    return frozenset(
        attempt.key
        for attempt in attempts
        if attempt.records.began is None
        and (rows := attempt.rows(answer))
        and states.state_of(rows) is SlurmState.PENDING
    )


def _has_grown(attempt: SlurmAttempt) -> bool:
    """Return whether the records have grown since the last call."""
    try:
        size = os.lstat(attempt.folder.records).st_size
    except OSError:
        return False
    old_size, attempt.records_size = attempt.records_size, size
    return size != old_size


def _is_changing(attempt: SlurmAttempt, rows: Sequence[SlurmJob]) -> bool:
    """Return whether the state of the job in Slurm is expected to change soon."""
    if not rows:
        return bool(attempt.job) and not attempt.awaits_accounts
    state = states.state_of(rows)
    if state is SlurmState.RUNNING:
        return attempt.records.ready is None or attempt.records.ended is not None
    began = attempt.records.began is not None
    return state in MOVING or (state is SlurmState.PENDING and began) or state in OVER
