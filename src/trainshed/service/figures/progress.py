"""Lists how far the running jobs are, for the queue.

Pages ask again and again, and a thousand files are read for an answer.  So it is computed at most
once in ``EVERY_S``; what does not change within an attempt is read once, and each sample once.  The
first answers of a server with many jobs lack the figures of some (``CPU_S_MAX``).
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trainshed.engines.capabilities import SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.bounded import BoundedDict
from trainshed.model.job import JobSpec
from trainshed.model.refusals import Code, Refusal
from trainshed.model.status import JobState
from trainshed.planning.job_cost import split_cost
from trainshed.planning.prices import machines_of
from trainshed.service.costs.prices import PriceSource
from trainshed.service.figures.answers import JobProgress, ProgressRow
from trainshed.service.figures.attempt_tails import AttemptTail
from trainshed.service.figures.newest_figures import NewestFigures
from trainshed.service.goodput.facts import goodput_facts
from trainshed.store.listed_jobs import JobListQuery, ListedKind
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord

#: Seconds for which an answer is given again.
EVERY_S: Final = 10.0
#: The most jobs of one answer, the newest.
ROWS_MAX: Final = 1000
#: The CPU time in which one answer reads attempts, in seconds; the next one reads others.
CPU_S_MAX: Final = 0.15
#: The longest time that a caller waits for another one's answer, in seconds.
_WAIT_S_MAX: Final = 10.0
_SCOPES_MAX: Final = 256
_KINDS: Final = frozenset(ListedKind) - {ListedKind.TUNING_JOB}


@dataclass(frozen=True, slots=True)
class _AttemptFacts:
    """What does not change while an attempt runs."""

    spec: JobSpec
    earlier_s: float
    """Seconds for which earlier attempts held their machines."""
    placed_s: float
    predicted_step_s: float | None


class _Job(NamedTuple):
    """A job that runs."""

    uid: int
    name: str
    project: str
    attempt: int

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.uid, self.attempt)


class ProgressReader:
    """Reads the progress of running jobs.  Thread-safe."""

    def __init__(
        self,
        store: Store,
        engines: Engines,
        prices: PriceSource,
        predict_step_s: Callable[[str, JobSpec], float | None] = lambda _project, _spec: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``predict_step_s`` returns the predicted time of a step of a job of a project."""
        self._store = store
        self._engines = engines
        self._prices = prices
        self._predict_step_s = predict_step_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._answers = BoundedDict[str | None, tuple[float, JobProgress]](_SCOPES_MAX)
        self._facts = BoundedDict[AttemptKey, _AttemptFacts](10 * ROWS_MAX)
        self._tails = BoundedDict[AttemptKey, AttemptTail](2 * ROWS_MAX)
        self._reported_s = BoundedDict[str, float](10 * ROWS_MAX)
        self._read_at = BoundedDict[AttemptKey, float](10 * ROWS_MAX)

    @property
    def reported_s(self) -> Mapping[str, float]:
        """When the program of each job last reported progress, since 1970, by the job's name.

        As old as the answers of ``progress``.
        """
        return self._reported_s

    def progress(self, project: str | None) -> JobProgress:
        """Return the progress of a project's running jobs; None for those of all projects.

        Raises Refusal (UNAVAILABLE) if another call computes it for too long.
        """
        with self._alone():
            computed_s, answer = self._answers.get(project, (0.0, None))
            if answer is None or self._monotonic() - computed_s >= EVERY_S:
                jobs = self._list_running(project)
                self._read(jobs)
                answer = self._answer(jobs)
                self._answers[project] = self._monotonic(), answer
            return answer

    def progress_of(self, record: JobRecord) -> JobProgress:
        """Return the progress of one job, read now; without a row unless it runs.

        Raises Refusal (UNAVAILABLE) if another call computes for too long.
        """
        if record.job.status.state is not JobState.RUNNING or record.job.spec.is_study:
            return JobProgress(rows=[])
        job = _Job(record.uid, record.name, record.job.project, record.attempt)
        with self._alone():
            self._read([job])
            return self._answer([job])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=_WAIT_S_MAX):
            message = "other callers read the progress of the jobs; try again in some seconds"
            raise Refusal(Code.UNAVAILABLE, message)
        try:
            yield
        finally:
            self._lock.release()

    def _list_running(self, project: str | None) -> Sequence[_Job]:
        states = frozenset({JobState.RUNNING})
        query = JobListQuery(project=project, states=states, kinds=_KINDS, page_size=ROWS_MAX)
        rows = self._store.job_rows(query)
        return [_Job(row.uid, row.name, row.project, row.attempt) for row in rows]

    def _read(self, jobs: Sequence[_Job]) -> None:
        """Read the attempts of jobs, those first that were not read for longest."""
        until_s = time.thread_time() + CPU_S_MAX
        for job in sorted(jobs, key=lambda job: self._read_at.get(job.key, 0.0)):
            self._read_at[job.key] = self._monotonic()
            self._read_facts(job)
            self._read_tail(job)
            if time.thread_time() >= until_s:
                break

    def _read_tail(self, job: _Job) -> None:
        engine = self._engines.find_by_name(self._engines.name_of(job.key))
        if not isinstance(engine, SupportsUsage):
            return
        tail = self._tails.pop(job.key, None) or AttemptTail()
        with suppress(OSError):  # the engine cannot be reached; its nodes say so
            tail.follow(engine, job.key, time.time())
            self._tails[job.key] = tail
            if (reported_s := tail.figures(time.time()).reported_s) is not None:
                self._reported_s[job.name] = reported_s

    def _answer(self, jobs: Sequence[_Job]) -> JobProgress:
        # the store's time, by which the attempts were placed: the machine's clock may be set
        store_s = self._store.now().timestamp()
        return JobProgress(rows=[self._row(job, store_s) for job in jobs])

    def _row(self, job: _Job, store_s: float) -> ProgressRow:
        facts, tail = self._facts.get(job.key), self._tails.get(job.key)
        figures = tail.figures(time.time()) if tail else NewestFigures()
        return ProgressRow(
            project=job.project,
            job=job.name,
            attempt=job.attempt,
            step=figures.step,
            total=figures.total,
            step_s=figures.step_s,
            predicted_step_s=facts.predicted_step_s if facts else None,
            gpu_use=figures.gpu_use,
            cost=self._cost_of(facts, store_s) if facts else None,
        )

    def _read_facts(self, job: _Job) -> None:
        """Read the facts of an attempt once; none of a job that was just deleted."""
        if job.key not in self._facts and (facts := self._find_facts(job.key, job.project)):
            self._facts[job.key] = facts

    def _find_facts(self, key: AttemptKey, project: str) -> _AttemptFacts | None:
        record = self._store.job_by_uid(key.uid)
        if record is None or record.attempt != key.attempt:
            return None
        attempts = goodput_facts(self._store, record).attempts
        if not attempts:
            return None
        spec = self._store.expanded(key.uid)
        return _AttemptFacts(
            spec=spec,
            earlier_s=sum(
                one.ended_s - one.placed_s for one in attempts[:-1] if one.ended_s is not None
            ),
            placed_s=attempts[-1].placed_s,
            predicted_step_s=self._predict_step_s(project, spec),
        )

    def _cost_of(self, facts: _AttemptFacts, store_s: float) -> Mapping[str, Any] | None:
        """Return what the machines have cost so far; None if no machine has a price."""
        held_s = facts.earlier_s + max(0.0, store_s - facts.placed_s)
        prices = self._prices.list_for_job(facts.spec)
        cost = split_cost(machines_of(facts.spec), prices, {"held": held_s})
        return cost.document if cost.amount is not None else None
