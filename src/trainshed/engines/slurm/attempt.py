"""Observes one attempt: reads facts from its folder and from Slurm, and performs the decision.

``proof`` decides from the facts.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.engines import decisions, spool
from trainshed.engines.cluster_end import compose_end
from trainshed.engines.decisions import GiveUp, Over, Recorded, Runs, TakeClaim, Unknown, Waits
from trainshed.engines.last_observation import LastObservation, read_folder_state
from trainshed.engines.processes.moments import Moments
from trainshed.engines.slurm import attempt_files, comments, holding, proof
from trainshed.engines.slurm.attempt_files import SpoolRecord
from trainshed.engines.slurm.parse import Cancellation, SlurmJob
from trainshed.engines.slurm.poll import LastAnswer
from trainshed.engines.slurm.proof import Decision, Memory, SlurmFacts
from trainshed.engines.supervise.record import observe
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.resources import Seat

#: Seconds in which Slurm must list a submitted job, and a job must end after its launcher.
SETTLE_S: Final = 10.0
_MINUTE_S: Final = 60.0
#: Seconds after the grace period in which a job may end by itself.
SPARE_S: Final = 5.0
#: Seconds in which Slurm's accounting must say whether a job that Slurm forgot was cancelled.
ACCOUNTS_S_MAX: Final = 600.0


@dataclass(slots=True)
class SlurmAttempt:
    """One attempt; each observation reads only the records that are new."""

    key: AttemptKey
    folder: AttemptFolder
    engine: str
    lost_after_s: float
    spool: str = ""
    """The path of the shared folder on the nodes."""
    holds_cancelled: bool = True
    """Whether a job that a person cancels in Slurm is held."""
    records: AttemptRecords = field(default_factory=AttemptRecords)
    submitted: SpoolRecord | None = None
    final: Observation | None = None
    launching: threading.Lock = field(default_factory=threading.Lock)
    """The thread that launches the attempt holds this lock."""
    is_reminded: bool = False
    """Whether the launcher was signalled to read the stop order."""
    is_read_only: bool = False
    """Whether this process must not write files, because another process serves the attempt."""
    is_starting: bool = False
    """Whether a job had the claim at the order to stop, so that its launcher reads the order."""
    cancelled_s: float = float("-inf")
    cancellation: Cancellation | None = None
    """Who has cancelled the job in Slurm, and when; None: Slurm has not answered this yet."""
    _accounts_s: float | None = None
    """When Slurm's accounting first did not answer about the job; None: it always has."""
    records_size: int = -1
    """Size of the records in bytes when their growth was last reported."""
    _last: LastObservation = field(default_factory=LastObservation)
    _last_queue_state: tuple[int, tuple[object, ...]] = (-1, ())
    """The number of an answer of Slurm, and what the answer says of the job."""
    _knows_claimant: bool = False
    _nodes: list[tuple[str, ...]] = field(default_factory=list)
    """The nodes of each part, from the claim; empty: no job has the claim yet."""
    _memory: Memory = field(default_factory=Memory)
    _moments: Moments = field(default_factory=Moments)

    @property
    def job(self) -> str:
        """Slurm's number of the job; empty: not known yet."""
        return self.submitted.job if self.submitted else ""

    @property
    def is_requeued(self) -> bool:
        """Whether the job had begun and waits in Slurm's queue again."""
        return self._memory.is_requeued

    @property
    def is_missed(self) -> bool:
        """Whether Slurm's answers lack the job, so that only its accounting can know its end."""
        return self._memory.missed >= proof.MISSES

    @property
    def awaits_accounts(self) -> bool:
        """Whether only Slurm's accounting, which does not answer, can know the job's end."""
        return self._accounts_s is not None and self.cancellation is None

    def take_cancellation(self, cancellation: Cancellation | None, *, is_complete: bool) -> None:
        """Store who has cancelled the job in Slurm; None: no answer has the job.

        ``is_complete``: whether Slurm's accounting has answered.  Otherwise the server asks again
        until ``ACCOUNTS_S_MAX`` are over.
        """
        now_s = time.monotonic()
        if cancellation is None and not is_complete:
            self._accounts_s = now_s if self._accounts_s is None else self._accounts_s
            if now_s - self._accounts_s < ACCOUNTS_S_MAX:
                return
        self.cancellation = cancellation or Cancellation(is_answered=is_complete)

    def rows(self, answer: LastAnswer) -> Sequence[SlurmJob]:
        """Return Slurm's rows of the job; find a job of unknown number by its comment."""
        if self.submitted is not None and not self.submitted.job:
            job_id = next(
                (job for job, rows in answer.rows.items() if self._is_own_row(rows[0])), ""
            )
            if job_id:
                self._adopt_job(self.submitted, job_id)
        rows = answer.rows.get(self.job, ())
        # a controller that lost its state gives the same numbers again
        return rows if rows and self._is_own_row(rows[0]) else ()

    def unchanged(self, answer: LastAnswer) -> Observation | None:
        """Return the last observation if folder and answer have not changed; else None.

        An attempt whose state can change with time alone is always observed again.
        """
        if self.final is not None:
            return self.final
        is_timed = (
            self._memory.over_since_s is not None
            or self.records.ended is not None
            or not self._read_queue_state(answer)
        )
        files = None if is_timed else read_folder_state(self.folder)
        state = (answer.is_away, *self._read_queue_state(answer))
        return self._last.reuse(files, state, time.monotonic())

    def _read_queue_state(self, answer: LastAnswer) -> tuple[object, ...]:
        """Return what an answer says of the job, composed once for each answer that has the job."""
        if self._last_queue_state[0] != answer.number:
            state = self._compose_queue_state(answer)
            self._last_queue_state = (answer.number if state else -1, state)
        return self._last_queue_state[1]

    def _compose_queue_state(self, answer: LastAnswer) -> tuple[object, ...]:
        """Return what an answer says of a waiting job; its number if the attempt may have begun.

        Empty if the answer has no such job.  Nodes may fall silent at any answer.  The expected
        start counts by the minute.
        """
        rows = self.rows(answer)
        if not rows:
            return ()
        if self.records.began is not None or any(row.nodes for row in rows):
            return (answer.number,)
        minutes = (row.start_s and row.start_s // _MINUTE_S for row in rows)
        return (*(row.without_start() for row in rows), *minutes)

    def observation(
        self, answer: LastAnswer, find_silent_nodes: Callable[[], frozenset[str]]
    ) -> Observation:
        """Observe the attempt now.  Raises OSError or ValueError if its folder is unreadable."""
        self._last.observation = None  # if reading fails, the old one is not valid any more
        if self.final is None:
            self._read()
            observation = self._decide(answer, find_silent_nodes)
            if observation.phase not in {Phase.ENDED, Phase.LOST}:
                self._last.observation = observation
                return observation
            self.final = observe.with_report(self._add_seats(observation), self.folder)
        return self.final

    def _read(self) -> None:
        if self.submitted is None or not self.submitted.job:
            self.submitted = attempt_files.read_submission(self.folder) or self.submitted
        self.records.read(self.folder.records)
        self._follow_claim()

    def _follow_claim(self) -> None:
        """Use the job that has the claim, even if other jobs were submitted for the attempt.

        Slurm may accept a submission so late that the server has already repeated it.
        """
        if self._knows_claimant or self.submitted is None:
            return
        if self.job and self.records.began is None:
            return
        job = attempt_files.read_claimant(self.folder)
        if job and job != self.job:
            self._adopt_job(self.submitted, job)
        self._knows_claimant = bool(job)

    def _adopt_job(self, submitted: SpoolRecord, job: str) -> None:
        self.submitted = submitted._replace(job=job)
        self._last_queue_state = (-1, ())
        if not self.is_read_only:
            attempt_files.keep_submitted(self.folder, self.submitted)

    def _decide(
        self, answer: LastAnswer, find_silent_nodes: Callable[[], frozenset[str]]
    ) -> Observation:
        facts = self._read_facts(answer, find_silent_nodes)
        self._memory = proof.follow(self._memory, facts)
        decision = proof.decide_state(facts, self._memory)
        if isinstance(decision, TakeClaim):
            facts = replace(facts, claim=spool.take_claim(self.folder))
            self.is_starting = not facts.claim
            decision = proof.decide_state(facts, self._memory)
        if isinstance(decision, GiveUp):
            decision = self._give_up(decision)
        return self._perform(decision)

    def _read_facts(
        self, answer: LastAnswer, find_silent_nodes: Callable[[], frozenset[str]]
    ) -> SlurmFacts:
        end = attempt_files.read_end(self.folder)
        order = None if end else self.folder.stop_order()
        rows = () if end else self.rows(answer)
        nodes = proof.nodes_of(rows)
        outcome = self.records.ended.outcome if self.records.ended else None
        return SlurmFacts(
            key=self.key,
            now_s=time.monotonic(),
            lost_after_s=self.lost_after_s,
            end=end,
            is_submitted=self.submitted is not None,
            job=self.job,
            spool=self.spool,
            is_new=outcome is None and self._is_new(answer, rows),
            order=order,
            claim=False if self.is_read_only else None,
            has_begun=self.records.began is not None,
            outcome=outcome,
            is_held=outcome is not None and holding.read_allocation(self.folder) is not None,
            number=answer.number,
            is_away=answer.is_away,
            is_up=answer.is_up,
            rows=rows,
            cancellation=self.cancellation,
            is_accounting_away=self.awaits_accounts,
            holds_cancelled=self.holds_cancelled,
            silent=find_silent_nodes().intersection(nodes) if nodes else frozenset(),
        )

    def _is_new(self, answer: LastAnswer, rows: Sequence[SlurmJob]) -> bool:
        """Return whether Slurm may not list the job yet, because it was submitted just now."""
        is_missed = self.job and answer.number and not answer.is_away and not rows
        return bool(is_missed) and self.submitted_for_s() < SPARE_S

    def _give_up(self, decision: GiveUp) -> Decision:
        self.records.read(self.folder.records)
        last_words = observe.last_words(self.folder)
        return decisions.give_up(
            decision.why,
            last_words,
            has_ended=self.records.ended is not None,
            has_decided=self.records.decided is not None,
            end=decision.end or proof.end_by_last_words(decision.why, last_words),
            nodes=attempt_files.first_node(self.folder),
        )

    def _perform(self, decision: Decision) -> Observation:
        """Store the decision, and return it as an observation."""
        if isinstance(decision, Waits):
            return Observation(key=self.key, phase=Phase.WAITING, waits=decision.waits)
        if isinstance(decision, Runs):
            return self._report_running()._replace(waits=decision.waits)
        if isinstance(decision, Recorded):
            return observe.compose_observation(self.key, self.records)
        if isinstance(decision, Over):
            return self._perform_end(decision)
        waits = decision.waits if isinstance(decision, Unknown) else None
        return Observation(key=self.key, phase=Phase.UNKNOWN, waits=waits)

    def _perform_end(self, decision: Over) -> Observation:
        """Store an end before reporting it, because Slurm forgets jobs."""
        if decision.takes_claim:
            spool.take_claim(self.folder)
        if not decision.is_written:
            attempt_files.keep_end(self.folder, decision.end)
        return compose_end(self.key, self.folder, self.records, decision.end)

    def _report_running(self) -> Observation:
        """Return the observation from the records, but without their end, which may not count."""
        observation = observe.compose_observation(self.key, replace(self.records, ended=None))
        return self._add_seats(observation)

    def _add_seats(self, observation: Observation) -> Observation:
        """Add the nodes of the replicas, once a job has the claim, which lists all of them.

        squeue lists nodes late, and fewer of them while a job ends.
        """
        kept_from = self.submitted.kept if self.submitted else 0
        how = holding.describe(kept_from, self.job)
        return observation._replace(placed=self._list_seats(), placed_how=how)

    def _list_seats(self) -> tuple[Seat, ...]:
        """List the node of each replica, from the nodes of the parts."""
        parts = self.submitted.parts if self.submitted else ()
        self._nodes = self._nodes or attempt_files.read_nodes(self.folder)
        # parts of a packed allocation share its nodes
        nodes = self._nodes * (len(parts) if len(self._nodes) == 1 else 1)
        placements = attempt_files.spread(parts, nodes)
        return tuple(
            Seat(role=role, index=index, node=node, engine=self.engine)
            for role, index, node in placements
        )

    def _is_own_row(self, row: SlurmJob) -> bool:
        kept_from = self.submitted.kept if self.submitted else 0
        return comments.is_job_of(row.comment, self.key, kept_from)

    def overdue(self) -> bool:
        """Return whether the time that the stop order allows is over."""
        order = self.folder.stop_order()
        if order is None:
            return False
        given_s = self._moments.age_s("order", os.lstat(self.folder.order).st_mtime)
        return given_s >= order.grace_s + SPARE_S

    def submitted_for_s(self) -> float:
        """Return the seconds since this process first saw the submission."""
        return self._moments.age_s("job", self.submitted.since_s if self.submitted else 0.0)

    def is_settled(self) -> bool:
        """Return whether Slurm would list the job by now, if the job existed."""
        return self.submitted_for_s() > SETTLE_S

    def is_leaving(self) -> bool:
        """Return whether the launcher wrote a record just now, so its job may end by itself."""
        with suppress(OSError):
            written_s = os.lstat(self.folder.records).st_mtime
            return self._moments.age_s("records", written_s) < SETTLE_S
        return False
