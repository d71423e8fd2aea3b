"""Lists how far the running jobs are, for the queue.

Pages ask again and again, and a thousand files are read for an answer: it is computed at most once
in ``EVERY_S``, and what does not change within an attempt is read once.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
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
from trainshed.service.figures.newest_figures import NewestFigures, newest_figures
from trainshed.service.goodput.facts import goodput_facts
from trainshed.store.listed_jobs import JobListQuery, JobListRow, ListedKind
from trainshed.store.opening import Store

#: Seconds for which an answer is given again.
EVERY_S: Final = 10.0
#: The most jobs of one answer, the newest.
ROWS_MAX: Final = 1000
#: The most attempts of one answer whose steps are searched in all their samples.
_SEARCHES_MAX: Final = 10
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


class _LastStep(NamedTuple):
    step: int | None
    total: int | None
    reported_s: float | None


def _find_last_step(figures: NewestFigures) -> _LastStep:
    return _LastStep(figures.step, figures.total, figures.reported_s)


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
        self._last_steps = BoundedDict[AttemptKey, _LastStep](10 * ROWS_MAX)
        self._reported_s = BoundedDict[str, float](10 * ROWS_MAX)
        self._searches_left = 0

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
        if not self._lock.acquire(timeout=_WAIT_S_MAX):
            message = "other callers read the progress of the jobs; try again in some seconds"
            raise Refusal(Code.UNAVAILABLE, message)
        try:
            computed_s, answer = self._answers.get(project, (0.0, None))
            if answer is None or self._monotonic() - computed_s >= EVERY_S:
                self._searches_left = _SEARCHES_MAX
                answer = JobProgress(rows=[*map(self._row, self._list_running(project))])
                self._answers[project] = self._monotonic(), answer
            return answer
        finally:
            self._lock.release()

    def _list_running(self, project: str | None) -> Sequence[JobListRow]:
        states = frozenset({JobState.RUNNING})
        query = JobListQuery(project=project, states=states, kinds=_KINDS, page_size=ROWS_MAX)
        return self._store.job_rows(query)

    def _row(self, job: JobListRow) -> ProgressRow:
        key = AttemptKey(job.uid, job.attempt)
        facts, figures = self._facts_of(key, job.project), self._figures_of(key)
        if figures.reported_s is not None:
            self._reported_s[job.name] = figures.reported_s
        return ProgressRow(
            project=job.project,
            job=job.name,
            attempt=job.attempt,
            step=figures.step,
            total=figures.total,
            step_s=figures.step_s,
            predicted_step_s=facts.predicted_step_s if facts else None,
            gpu_use=figures.gpu_use,
            cost=self._cost_of(facts) if facts else None,
        )

    def _figures_of(self, key: AttemptKey) -> NewestFigures:
        engine = self._engines.find_by_name(self._engines.name_of(key))
        if not isinstance(engine, SupportsUsage):
            return NewestFigures()
        try:
            figures = newest_figures(engine.read_newest_usage(key), time.time())
            last = self._last_step(engine, key, figures)
        except OSError:
            return NewestFigures()  # the engine cannot be reached; its nodes say so
        reported_s = figures.reported_s or last.reported_s
        return figures._replace(step=last.step, total=last.total, reported_s=reported_s)

    def _last_step(
        self, engine: SupportsUsage, key: AttemptKey, figures: NewestFigures
    ) -> _LastStep:
        """Return the last step of an attempt: its newest samples have none while it makes none.

        Raises OSError.
        """
        if figures.step is not None:
            self._last_steps[key] = _find_last_step(figures)
        elif key not in self._last_steps and self._searches_left:
            self._searches_left -= 1
            all_figures = newest_figures(engine.read_usage(key), time.time())
            self._last_steps[key] = _find_last_step(all_figures)
        return self._last_steps.get(key, _LastStep(None, None, None))

    def _facts_of(self, key: AttemptKey, project: str) -> _AttemptFacts | None:
        """Return the facts of an attempt; None for a job that was just deleted."""
        facts = self._facts.get(key)
        if facts is None and (facts := self._read_facts(key, project)):
            self._facts[key] = facts
        return facts

    def _read_facts(self, key: AttemptKey, project: str) -> _AttemptFacts | None:
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

    def _cost_of(self, facts: _AttemptFacts) -> Mapping[str, Any] | None:
        """Return what the machines have cost so far; None if no machine has a price."""
        # the store's time, by which the attempt was placed: the machine's clock may be set
        held_s = facts.earlier_s + max(0.0, self._store.now().timestamp() - facts.placed_s)
        prices = self._prices.list_for_job(facts.spec)
        cost = split_cost(machines_of(facts.spec), prices, {"held": held_s})
        return cost.document if cost.amount is not None else None
