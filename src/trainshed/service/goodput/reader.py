"""Computes the goodput of a job, with its cost and the energy of its GPUs, for the API."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from trainshed.service.costs.job_accounts import JobAccounts
from trainshed.service.costs.job_use import idle_ratio, sum_cost
from trainshed.service.goodput.answers import AttemptGoodput, JobGoodput, TrialGoodput
from trainshed.service.goodput.words import goodput_sentence, study_sentence
from trainshed.service.jobs.story import Stories
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.usage import UsageRow

#: The most trials of a study whose times are read, the newest.
TRIALS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputReader:
    """Reads the goodput of jobs."""

    stories: Stories
    accounts: JobAccounts

    def goodput(self, project: str, job_id: str) -> JobGoodput:
        """Return the goodput of a job until now, or until its end.  Raises Refusal."""
        record = self.stories.find(project, job_id)
        if not record.job.spec.is_study:
            return self._answer(record, [record])
        trials = dict(_list_trial_jobs(self.stories.store, record.uid))
        return self._answer(record, list(trials.values()), list(trials))

    def _answer(
        self, record: JobRecord, jobs: Sequence[JobRecord], trials: Sequence[int] = ()
    ) -> JobGoodput:
        """Compose the answer; ``jobs`` are the job itself, or those of a study's ``trials``."""
        store = self.stories.store
        uses = [self.accounts.read(job.uid) for job in jobs]
        times, used = [use.times for use in uses], [row for use in uses for row in use.rows]
        is_study, now_s = record.job.spec.is_study, store.now().timestamp()
        total, ratio = _sum_up(times, now_s, is_study=is_study)
        cost = sum_cost(used)
        return JobGoodput(
            job=record.job.job_id,
            state=record.job.status.state,
            goodput=ratio.ratio,
            at_most=ratio.at_most,
            scheduling=ratio.scheduling,
            ettr=ratio.ettr,
            program=_program_goodput(store, record.uid),
            seconds=total.seconds,
            attempts=[] if is_study else _list_attempts(times[0], now_s),
            trials=[
                _trial_goodput(number, job_goodput(use.times, now_s), use.rows)
                for number, use in zip(trials, uses, strict=False)
            ],
            gpu_seconds=add_goodputs(gpu_seconds(one, now_s) for one in times).seconds,
            energy_j=_sum_energy(used),
            cost=None if cost is None else cost.document,
            message=study_sentence(ratio, len(jobs), cost)
            if is_study
            else goodput_sentence(ratio, cost, idle_ratio(used)),
        )


def _sum_energy(rows: Iterable[UsageRow]) -> float | None:
    """Return the measured joules of all GPUs; None: nothing was measured."""
    joules = [row.energy_j for row in rows if row.energy_j is not None]
    return sum(joules) if joules else None


def _sum_up(times: Sequence[JobTimes], now_s: float, *, is_study: bool) -> tuple[Goodput, Goodput]:
    """Return the goodput in seconds, and the one for ratios, which weights trials with GPUs."""
    total = add_goodputs(job_goodput(one, now_s) for one in times)
    return total, study_goodput(times, now_s) if is_study else total


def _list_trial_jobs(store: Store, uid: int) -> Iterator[tuple[int, JobRecord]]:
    """Yield the numbers of a study's newest trials, and their jobs."""
    results = store.trial_results(uid)
    for result in results[-TRIALS_MAX:]:
        record = store.job_by_uid(result.job_uid)
        if record is not None:
            yield result.trial.number, record


def _trial_goodput(number: int, own: Goodput, use: Iterable[UsageRow]) -> TrialGoodput:
    cost = sum_cost(use)
    return TrialGoodput(
        trial=number,
        held=own.held_s,
        goodput=own.ratio,
        at_most=own.at_most,
        cost=None if cost is None else cost.document,
    )


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
