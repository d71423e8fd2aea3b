"""The goodput of open jobs, from the rows that the accounting of jobs writes every few minutes.

Reading the events of a thousand jobs for each scrape would take a second.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from trainshed.store.open_job_counts import OpenJob
from trainshed.store.opening import Store
from trainshed.store.records.usage import AttemptUse

#: Seconds for which a reading counts; the rows of a job change less often.
FRESH_S: Final = 60.0
_NS_PER_S: Final = 1e9


class OpenJobUse(NamedTuple):
    """What a job has used until its rows were last written."""

    goodput: float | None
    """Productive over held time; None if it is unknown."""
    ettr: float | None
    """Productive over wall time; None if it is unknown."""
    gpu_seconds: float
    energy_j: float | None
    """None: not measured."""


class OpenJobUses:
    """Reads what open jobs have used.  For one thread."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._read_at = float("-inf")
        self._uses: Mapping[int, OpenJobUse] = {}

    def read(self, jobs: Iterable[OpenJob]) -> Mapping[int, OpenJobUse]:
        """Return the use of jobs by uid, at most ``FRESH_S`` old; also of jobs that have ended.

        A job whose use was not written until now has none.  Raises StoreFault.
        """
        if self._monotonic() - self._read_at >= FRESH_S:
            self._uses = self._read({job.uid: job for job in jobs if job.attempt})
            self._read_at = self._monotonic()
        return self._uses

    def _read(self, jobs: Mapping[int, OpenJob]) -> Mapping[int, OpenJobUse]:
        if not jobs:
            return {}
        now_ns = round(self._store.now().timestamp() * _NS_PER_S)
        rows = self._store.attempt_uses(jobs.keys())
        return {
            uid: sum_job_use(list(attempts), jobs[uid].create_ns, now_ns)
            for uid, attempts in groupby(rows, key=attrgetter("uid"))
        }


def sum_job_use(attempts: Sequence[AttemptUse], create_ns: int, now_ns: int) -> OpenJobUse:
    """Add up the attempts of a job, which are in order and not empty."""
    held_s = sum(attempt.held_s for attempt in attempts)
    wall_s = max(held_s, _until_s(attempts[-1], now_ns) - create_ns / _NS_PER_S)
    productive_s = sum(attempt.productive_s + attempt.idle_s for attempt in attempts)
    is_known = held_s > 0 and not any(map(_is_bound, attempts))
    joules = [attempt.energy_j for attempt in attempts if attempt.energy_j is not None]
    return OpenJobUse(
        goodput=productive_s / held_s if is_known else None,
        ettr=productive_s / wall_s if is_known else None,
        gpu_seconds=sum(attempt.gpu_seconds for attempt in attempts),
        energy_j=sum(joules) if joules else None,
    )


def _is_bound(attempt: AttemptUse) -> bool:
    """Return whether the productive time is unknown: all of it may have been counted as idle."""
    return attempt.unknown_s > 0 or (attempt.idle_s > 0 and not attempt.productive_s)


def _until_s(last: AttemptUse, now_ns: int) -> float:
    """Return when the rows were written; now, if the job waits again."""
    if last.end_ns is not None:
        return now_ns / _NS_PER_S
    return last.placed_ns / _NS_PER_S + last.held_s
