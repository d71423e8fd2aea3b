"""One attempt as its folder and Slurm have it: what can be proven of it now.

Records tell how its programs ended.  Slurm tells why: a program that SIGTERM has ended may have
been preempted, stopped by somebody else, or at its limit.  So an end by a signal that nobody of
ours has ordered is believed only when Slurm has said how the job ended.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from trainshed.engines.processes.moments import Moments
from trainshed.engines.slurm import holding, spool, states
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.poll import LastAnswer
from trainshed.engines.slurm.spool import EndInSlurm, SpoolRecord
from trainshed.engines.slurm.states import OVER, SlurmState
from trainshed.engines.supervise.judging import STOPPED_EARLY
from trainshed.engines.supervise.record import observe
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.observe import AttemptRecords, decided_outcome
from trainshed.engines.warden.protocol import IS_LEFT
from trainshed.model.attempt import SIGNAL_BASE, AttemptKey, Loss, Observation, Outcome, Phase
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.resources import Seat

#: A job that so many answers in a row do not have is gone.
_MISSES: Final = 2
_QUEUED: Final = frozenset({SlurmState.PENDING, SlurmState.REQUEUED})
#: How long Slurm may take to show what was submitted, and a job to go whose launcher has ended.
SETTLE_S: Final = 10.0
#: How long after its grace a job is given to end by itself.
SPARE_S: Final = 5.0


@dataclass(slots=True)
class SlurmAttempt:
    """One attempt, to be read on from where the last look ended."""

    key: AttemptKey
    folder: AttemptFolder
    engine: str
    lost_after_s: float
    records: AttemptRecords = field(default_factory=AttemptRecords)
    submitted: SpoolRecord | None = None
    final: Observation | None = None
    launching: threading.Lock = field(default_factory=threading.Lock)
    """Held by the thread that launches it."""
    is_reminded: bool = False
    """Whether its launcher was reminded of its order."""
    only_looks: bool = False
    """Whether nothing may be changed by looking: nobody serves it from here."""
    cancelled_s: float = float("-inf")
    records_size: int = -1
    """How long its records were when somebody last heard of them."""
    _sign: tuple[object, ...] | None = None
    """What folder and answer were when it was last looked at."""
    _last: Observation | None = None
    _knows_claimant: bool = False
    _held_at: int | None = None
    """The number of the answer before which its launcher was seen to keep its nodes."""
    _began_at: int | None = None
    """The number of the answer that had it waiting when its records said that it had begun."""
    is_requeued: bool = False
    """Whether Slurm has it waiting though it began: somebody has had it start again."""
    _missed: tuple[int, int] = (0, 0)
    """How many answers in a row did not have it, and the number of the last of them."""
    _over_s: float | None = None
    _moments: Moments = field(default_factory=Moments)

    @property
    def job(self) -> str:
        """Slurm's number; empty: not known."""
        return self.submitted.job if self.submitted else ""

    def rows(self, answer: LastAnswer) -> Sequence[SlurmJob]:
        """What Slurm says of it; a submission whose number was lost is found by its comment."""
        if self.submitted is not None and not self.submitted.job:
            job_id = next((job for job, rows in answer.rows.items() if self._is_mine(rows[0])), "")
            if job_id:
                self._has_job(self.submitted, job_id)
        rows = answer.rows.get(self.job, ())
        # a controller that lost its state gives the same numbers again
        return rows if rows and self._is_mine(rows[0]) else ()

    def unchanged(self, answer: LastAnswer) -> Observation | None:
        """What was found last, where neither its folder nor Slurm's answer is another since.

        There may be thousands that wait or run.  What may change with time alone is looked at.
        """
        if self.final is not None:
            return self.final
        is_timed = (
            self._over_s is not None or self.records.ended is not None or not self.rows(answer)
        )
        sign, self._sign = self._sign, None if is_timed else self._signature(answer)
        return self._last if sign is not None and sign == self._sign else None

    def _signature(self, answer: LastAnswer) -> tuple[object, ...] | None:
        try:
            status = os.lstat(self.folder.path)
            with suppress(FileNotFoundError):
                size = os.lstat(self.folder.records).st_size
                return (answer.number, answer.is_away, status.st_ino, status.st_mtime_ns, size)
        except OSError:
            return None
        return (answer.number, answer.is_away, status.st_ino, status.st_mtime_ns)

    def observation(
        self, answer: LastAnswer, bad_nodes: Callable[[], frozenset[str]]
    ) -> Observation:
        """What can be proven now.  Raises what reading a folder can raise."""
        self._last = None  # what cannot be read now is not as it was
        if self.final is None:
            self._read()
            observation = self._observe(answer, bad_nodes)
            if observation.phase not in {Phase.ENDED, Phase.LOST}:
                self._last = observation
                return observation
            # it may be over before Slurm was asked where it is
            observation = self._add_seats(observation, spool.nodes_of(self.folder))
            self.final = observe.with_report(observation, self.folder)
        return self.final

    def _read(self) -> None:
        if self.submitted is None or not self.submitted.job:
            self.submitted = spool.submitted(self.folder) or self.submitted
        self.records.read(self.folder.records)
        self._follow_claim()

    def _follow_claim(self) -> None:
        """The job that has the claim is the attempt's, whatever else was submitted for it.

        A submission that gave no answer in time may have been taken late, and was made again.
        """
        if self._knows_claimant or self.submitted is None:
            return
        if self.job and self.records.began is None:
            return
        job = spool.claimant(self.folder)
        if job and job != self.job:
            self._has_job(self.submitted, job)
        self._knows_claimant = bool(job)

    def _has_job(self, submitted: SpoolRecord, job: str) -> None:
        self.submitted = submitted._replace(job=job)
        if not self.only_looks:
            spool.keep_submitted(self.folder, self.submitted)

    def _observe(self, answer: LastAnswer, bad_nodes: Callable[[], frozenset[str]]) -> Observation:
        end = spool.end_in_slurm(self.folder)
        if end is not None:
            return self._report_end(end)
        order = self.folder.stop_order()
        rows = self.rows(answer)
        if self.submitted is None:
            return self._not_submitted(order)
        if order is not None and self._never_begins():
            return self._end(_early(order))
        if self.records.ended is not None:
            return self._report_recorded_end(answer, rows, order)
        return self._going(answer, rows, bad_nodes)

    def _never_begins(self) -> bool:
        """Whether no job has begun it, and none will: the claim is ours."""
        is_open = self.records.began is None and not self.only_looks
        return is_open and spool.take_claim(self.folder)

    def _not_submitted(self, order: Order | None) -> Observation:
        if order is None:
            return Observation(key=self.key, phase=Phase.UNKNOWN)
        return self._report_end(_early(order))

    def _report_recorded_end(
        self, answer: LastAnswer, rows: Sequence[SlurmJob], order: Order | None
    ) -> Observation:
        """Its records tell an end; Slurm may have to say whose doing it was."""
        ended = self.records.ended
        if ended is None or order is not None or not _is_doubtful(ended.outcome):
            return observe.recorded(self.key, self.records)
        state = self._state(answer, rows)
        if state is None and not self._is_gone(answer):
            return self._report_running(rows)
        if state is SlurmState.DONE and ended.outcome.interrupted:
            return self._end(_interrupted(ended.outcome))
        is_kept = state is SlurmState.RUNNING and self._is_kept(answer)
        if state is None or state is SlurmState.DONE or is_kept:
            return self._end(EndInSlurm(stands=True))
        if state in _QUEUED:
            return self._pending(answer, rows)
        return self._end(self._end_by(state, rows)) if state in OVER else self._report_running(rows)

    def _is_kept(self, answer: LastAnswer) -> bool:
        """Whether its job was seen to run on after its end: then nobody else has ended it."""
        if holding.read(self.folder) is None:
            return False
        if self._held_at is None:
            self._held_at = answer.number
        return answer.number > self._held_at + 1  # one may have been under way

    def _going(
        self, answer: LastAnswer, rows: Sequence[SlurmJob], bad_nodes: Callable[[], frozenset[str]]
    ) -> Observation:
        """No end is recorded."""
        if answer.is_away:
            return self._unknown()
        state = self._state(answer, rows)
        if state is None:
            return self._without_job(answer)
        if state in OVER:
            return self._over(state, rows)
        self._over_s = None
        if state in _QUEUED:
            return self._pending(answer, rows)
        self._began_at = None
        return self._report_begun(state, rows, bad_nodes().intersection(_nodes(rows)))

    def _report_begun(
        self, state: SlurmState, rows: Sequence[SlurmJob], silent: frozenset[str]
    ) -> Observation:
        """It has its nodes, of which Slurm does not reach some."""
        if silent:
            return self._unknown()._replace(waits=states.unreachable(self.key, silent))
        if state is SlurmState.UNKNOWN:
            return self._unknown()
        waits = states.suspended(rows) if state is SlurmState.SUSPENDED else None
        return self._report_running(rows)._replace(waits=waits)

    def _state(self, answer: LastAnswer, rows: Sequence[SlurmJob]) -> SlurmState | None:
        return states.state_of(rows) if rows and not answer.is_away else None

    def _pending(self, answer: LastAnswer, rows: Sequence[SlurmJob]) -> Observation:
        """In the queue, unless the answer is older than its start, or somebody has requeued it."""
        if self.records.began is None and states.state_of(rows) is SlurmState.PENDING:
            why = states.never(rows)
            if why is not None and spool.take_claim(self.folder):
                return self._end(EndInSlurm(fault=why, never=True))
            return self._waiting(states.waiting_for(rows))
        if self._began_at is None:
            self._began_at = answer.number
        # the answer after the one that was under way was asked for when it had begun
        self.is_requeued = self.is_requeued or answer.number > self._began_at + 1
        return self._unknown() if self.is_requeued else self._report_running(rows)

    def _waiting(self, waits: Explanation) -> Observation:
        return Observation(key=self.key, phase=Phase.WAITING, waits=waits)

    def _report_running(self, rows: Sequence[SlurmJob]) -> Observation:
        """As its records have it, but for an end that is not believed yet."""
        ended, self.records.ended = self.records.ended, None
        try:
            observation = observe.recorded(self.key, self.records)
        finally:
            self.records.ended = ended
        return self._add_seats(observation, [row.nodes for row in rows])

    def _add_seats(self, observation: Observation, nodes: list[tuple[str, ...]]) -> Observation:
        kept_from = self.submitted.kept if self.submitted else 0
        how = (
            f"in the allocation kept from attempt {kept_from} (Slurm job {self.job})"
            if kept_from
            else ""
        )
        return observation._replace(placed=self._list_seats(nodes), placed_how=how)

    def _list_seats(self, nodes: list[tuple[str, ...]]) -> tuple[Seat, ...]:
        """Where its replicas are, by the nodes of its parts."""
        parts = self.submitted.parts if self.submitted else ()
        # parts of a packed allocation share its nodes
        nodes *= len(parts) if len(nodes) == 1 else 1
        placements = spool.spread(parts, nodes)
        return tuple(
            Seat(role=role, index=index, node=node, engine=self.engine)
            for role, index, node in placements
        )

    def _unknown(self) -> Observation:
        return Observation(key=self.key, phase=Phase.UNKNOWN)

    def _without_job(self, answer: LastAnswer) -> Observation:
        """An answer that does not have it is no proof; its first answer may be to come."""
        if not answer.number or not self.job:
            return self._unknown() if not self.job else self._report_handed_over()
        if self.submitted is not None and self.submitted_for_s() < SPARE_S:
            return (
                self._report_handed_over()
                if self.records.began is None
                else self._report_running(())
            )
        if not self._is_gone(answer):
            return self._unknown()
        if not self._has_waited():
            return self._unknown()
        return self._give_up("Slurm does not know its job any more, and it recorded no end", ())

    def _report_handed_over(self) -> Observation:
        text = f"Slurm has it as job {self.job} and has said no more of it yet"
        return self._waiting(Explanation(reason=Reason.ENGINE_QUEUE, message=text))

    def _is_gone(self, answer: LastAnswer) -> bool:
        """Whether so many answers in a row have not had it, of a controller that works."""
        count, last = self._missed
        if answer.is_away or not answer.is_up or not answer.number:
            return False
        if answer.number != last:
            count = count + 1 if not self.rows(answer) else 0
            self._missed = (count, answer.number)
        return count >= _MISSES

    def _over(self, state: SlurmState, rows: Sequence[SlurmJob]) -> Observation:
        """Slurm says that nothing of it runs, and its end is not recorded."""
        if state is not SlurmState.DONE and (
            state is not SlurmState.STOPPED or self.folder.stop_order() is None
        ):
            return self._end(self._end_by(state, rows))
        if not self._has_waited():
            return self._report_running(rows)
        return self._give_up("its launcher was killed", _nodes(rows))

    def _has_waited(self) -> bool:
        """Whether records that are only late would be there by now."""
        if self._over_s is None:
            self._over_s = time.monotonic()
        return time.monotonic() - self._over_s >= self.lost_after_s

    def _give_up(self, why: str, nodes: Sequence[str]) -> Observation:
        self.records.read(self.folder.records)
        if self.records.ended is not None:
            return observe.recorded(self.key, self.records)
        if self.records.decided is not None:
            return self._end(EndInSlurm(stands=True))
        spool.take_claim(self.folder)
        last_words = observe.last_words(self.folder)
        del nodes  # the fault was not proven to be theirs
        return self._end(
            EndInSlurm(fault=f"{why}: {last_words}" if last_words else why, loss=Loss.INFRA)
        )

    def _end_by(self, state: SlurmState, rows: Sequence[SlurmJob]) -> EndInSlurm:
        spool.take_claim(self.folder)
        job, nodes = rows[0].id, _nodes(rows)
        if state is SlurmState.PREEMPTED:
            return EndInSlurm(f"Slurm has preempted its job {job}", Loss.MAINTENANCE)
        if state is SlurmState.LIMIT:
            return EndInSlurm(f"its job {job} was at the time limit of Slurm", Loss.LIMIT)
        if state is SlurmState.NODE_LOST:
            states_ = {row.state for row in rows}
            why = f"Slurm says {', '.join(sorted(states_))} of its job {job}"
            return EndInSlurm(f"{why} on {', '.join(nodes) or 'no node'}", Loss.INFRA, nodes)
        why = f"somebody else has stopped its job {job} (scancel)"
        if self.is_requeued:
            why = f"somebody has requeued its job {job}: an attempt starts once"
        return EndInSlurm(why, Loss.INFRA)

    def _end(self, end: EndInSlurm) -> Observation:
        """Keep an end, then tell it: Slurm forgets."""
        spool.keep_end(self.folder, end)
        return self._report_end(end)

    def _report_end(self, end: EndInSlurm) -> Observation:
        if end.stands and self.records.ended is not None:
            return observe.recorded(self.key, self.records)
        if end.stands and self.records.decided is not None:
            return observe.ended(self.key, self.records, decided_outcome(self.records.decided))
        if end.early:
            return observe.ended(self.key, self.records, STOPPED_EARLY)
        if end.never:
            outcome = Outcome(exit_code=1, message=end.fault)
            return observe.ended(self.key, self.records, outcome, end.fault)
        ran_s = observe.ran_s(self.folder)
        return observe.lost(self.key, self.records, end.fault, ran_s)._replace(loss=end.loss)

    def _is_mine(self, row: SlurmJob) -> bool:
        key = holding.key_of(row.comment)
        is_kept = self.submitted is not None and self.submitted.kept > 0
        return key == self.key or (is_kept and key is not None and key.uid == self.key.uid)

    def overdue(self) -> bool:
        """Whether it has been given longer than its order says."""
        order = self.folder.stop_order()
        if order is None:
            return False
        given_s = self._moments.age_s("order", os.lstat(self.folder.order).st_mtime)
        return given_s >= order.grace_s + SPARE_S

    def submitted_for_s(self) -> float:
        """How many seconds ago it was handed over, as far as this process has seen."""
        return self._moments.age_s("job", self.submitted.since_s if self.submitted else 0.0)

    def is_settled(self) -> bool:
        """Whether Slurm would have shown its job by now."""
        return self.submitted_for_s() > SETTLE_S

    def is_leaving(self) -> bool:
        """Whether its launcher has written its last record just now, and its job goes by itself."""
        with suppress(OSError):
            written_s = os.lstat(self.folder.records).st_mtime
            return self._moments.age_s("records", written_s) < SETTLE_S
        return False


def _early(order: Order) -> EndInSlurm:
    if order.lost:
        return EndInSlurm("it was given up before it began", Loss.INFRA)
    return EndInSlurm(early=True)


def _is_doubtful(outcome: Outcome) -> bool:
    """Whether somebody other than the program may have ended it."""
    if not outcome.exit_code:
        return False
    return outcome.interrupted or any(
        replica.signal is not None or (replica.exit_code or 0) >= SIGNAL_BASE
        for replica in outcome.replicas
    )


def _interrupted(outcome: Outcome) -> EndInSlurm:
    """Why an attempt has ended in time: of a job that ends in its grace Slurm says no more."""
    if outcome.message.endswith(IS_LEFT):
        return EndInSlurm(f"the cluster wants its nodes: {outcome.message}", Loss.MAINTENANCE)
    return EndInSlurm("somebody else has ended its launcher", Loss.INFRA)


def _nodes(rows: Sequence[SlurmJob]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for row in rows for node in row.nodes))
