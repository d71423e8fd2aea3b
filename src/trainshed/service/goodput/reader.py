"""Computes the goodput of a job, with its cost and the energy of its GPUs, for the API."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainshed.engines.capabilities import SupportsSteps, SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Role
from trainshed.model.step_times import StepTimes
from trainshed.planning.goodput import (
    AttemptTimes,
    Goodput,
    JobTimes,
    add_goodputs,
    attempt_goodputs,
    gpu_seconds,
    job_goodput,
    study_goodput,
)
from trainshed.planning.job_cost import JobCost, split_cost, sum_costs
from trainshed.planning.prices import machines_of
from trainshed.service.costs.prices import Prices
from trainshed.service.goodput.answers import AttemptGoodput, JobGoodput
from trainshed.service.goodput.facts import goodput_facts
from trainshed.service.goodput.words import goodput_sentence
from trainshed.service.jobs.story import Stories
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord

#: The most trials of a study whose times are read, the newest.
TRIALS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputReader:
    """Reads the goodput of jobs."""

    stories: Stories
    engines: Engines
    prices: Prices
    clock: Callable[[], float] = time.time

    def goodput(self, project: str, job_id: str) -> JobGoodput:
        """Return the goodput of a job until now, or until its end.  Raises Refusal."""
        record = self.stories.find(project, job_id)
        records = [record]
        if record.job.spec.is_study:
            records = list(_list_trial_jobs(self.stories.store, record.uid))
        return self._answer(record, records)

    def _answer(self, record: JobRecord, jobs: Sequence[JobRecord]) -> JobGoodput:
        """Compose the answer; ``jobs`` are the job itself, or the trials of a study."""
        store, now_s = self.stories.store, self.clock()
        times = [goodput_facts(store, job, self._read_steps) for job in jobs]
        total, ratio = _sum_up(times, now_s, is_study=record.job.spec.is_study)
        cost = self._cost(jobs, times, now_s)
        return JobGoodput(
            job=record.job.job_id,
            state=record.job.status.state,
            goodput=ratio.ratio,
            at_most=ratio.at_most,
            scheduling=ratio.scheduling,
            ettr=ratio.ettr,
            program=_program_goodput(store, record.uid),
            seconds=total.seconds,
            attempts=[] if record.job.spec.is_study else _list_attempts(times[0], now_s),
            gpu_seconds=add_goodputs(gpu_seconds(one, now_s) for one in times).seconds,
            energy_j=self._energy_j(jobs, times),
            cost=None if cost is None else cost.document,
            message=goodput_sentence(ratio, cost),
        )

    def _cost(
        self, jobs: Sequence[JobRecord], times: Sequence[JobTimes], now_s: float
    ) -> JobCost | None:
        """Return what the machines have cost; None for two currencies, which are not added."""
        costs = []
        for job, one in zip(jobs, times, strict=True):
            spec = self.stories.store.expanded(job.uid)
            held = job_goodput(one, now_s).held_seconds
            costs.append(split_cost(machines_of(spec), self.prices.list_for_job(spec), held))
        sums = sum_costs(costs)
        return sums[0] if len(sums) == 1 else None

    def _read_steps(self, key: AttemptKey) -> StepTimes | None:
        """Read the steps of a living attempt's primary; None if its engine cannot."""
        engine = self.engines.get_by_attempt(key)
        rows = self.stories.store.replicas(key.uid, key.attempt)
        task = next((row.task_name for row in rows if row.role == Role.PRIMARY.value), None)
        if task is None or not isinstance(engine, SupportsSteps):
            return None
        return engine.read_steps(key, task)

    def _energy_j(self, jobs: Sequence[JobRecord], times: Sequence[JobTimes]) -> float | None:
        """Return the measured energy of all GPUs; None: nothing was measured."""
        joules = [
            value
            for job, one in zip(jobs, times, strict=True)
            for attempt in one.attempts
            if attempt.gpus
            for value in self._list_joules(AttemptKey(job.uid, attempt.attempt))
        ]
        return sum(joules) if joules else None

    def _list_joules(self, key: AttemptKey) -> Iterator[float]:
        engine = self.engines.get_by_attempt(key)
        if not isinstance(engine, SupportsUsage):
            return
        try:
            lines = engine.read_usage(key)
        except OSError:
            return
        for line in lines:
            for gpu in line.gpus.values():
                if gpu.energy_j is not None:
                    yield gpu.energy_j


def _sum_up(times: Sequence[JobTimes], now_s: float, *, is_study: bool) -> tuple[Goodput, Goodput]:
    """Return the goodput in seconds, and the one for ratios, which weights trials with GPUs."""
    total = add_goodputs(job_goodput(one, now_s) for one in times)
    return total, study_goodput(times, now_s) if is_study else total


def _list_trial_jobs(store: Store, uid: int) -> Iterator[JobRecord]:
    results = store.trial_results(uid)
    for result in results[-TRIALS_MAX:]:
        record = store.job_by_uid(result.job_uid)
        if record is not None:
            yield record


def _list_attempts(job: JobTimes, now_s: float) -> Sequence[AttemptGoodput]:
    pairs: Iterable[tuple[AttemptTimes, Goodput]] = zip(
        job.attempts, attempt_goodputs(job, now_s), strict=True
    )
    return [
        AttemptGoodput(
            attempt=attempt.attempt,
            placed=attempt.placed_s,
            ended=attempt.ended_s,
            first_step=attempt.first_step,
            last_step=attempt.last_step,
            seconds=goodput.held_seconds,
            goodput=goodput.ratio,
            at_most=goodput.at_most,
        )
        for attempt, goodput in pairs
    ]


def _program_goodput(store: Store, uid: int) -> float | None:
    """Return the predicted over the measured time of the steps; None without a prediction."""
    score: dict[str, Any] = store.outcome(uid) or {}
    predicted_s, took_s = score.get("predicted_s"), score.get("took_s")
    return predicted_s[1] / took_s if predicted_s and took_s else None
