"""The page of the newest open jobs, with series for each of them; switched off by default."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.model.refusals import Code, Refusal
from trainshed.model.restarts import Cause
from trainshed.service.figures.answers import ProgressRow
from trainshed.service.telemetry import job_families as families
from trainshed.service.telemetry.family import Family, FamilySamples
from trainshed.service.telemetry.job_families import JOB_FAMILIES
from trainshed.service.telemetry.job_goodput import OpenJobUse, OpenJobUses
from trainshed.service.telemetry.page import write_page
from trainshed.service.telemetry.server_page import FRESH_S
from trainshed.service.telemetry.timed_reader import TimedReader
from trainshed.store.open_job_counts import OpenJob
from trainshed.store.opening import Store

#: Seconds to wait for the database and the progress of jobs; Prometheus waits ten for the page.
READ_S_MAX: Final = 8.0
#: The most characters of a label's value; names of jobs may be long.
LABEL_CHARS_MAX: Final = 128
_UNAVAILABLE: Final = "The server cannot use its database now; try again in a moment"

_Key = tuple[str, str]
_Samples = dict[Family, dict[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """Where the page reads what programs of jobs report; times are in seconds since 1970."""

    progress: Callable[[], Iterable[ProgressRow]] = tuple
    """Returns the rows of the running jobs of all projects."""
    reported: Callable[[], Mapping[str, float]] = dict
    """Returns when the programs of these rows last reported progress, by the name of the job."""
    checkpoints: Callable[[], Mapping[int, float]] = dict
    """Returns when the newest checkpoints were complete, by uid."""


class JobsPage:
    """The page of jobs.  Thread-safe."""

    def __init__(
        self,
        store: Store,
        jobs_max: int,
        figures: JobFigures | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without ``figures`` the page has what the store has of jobs."""
        self._figures = figures or JobFigures()
        self._store = store
        self._jobs_max = jobs_max
        self._monotonic = monotonic
        self._uses = OpenJobUses(store, monotonic)
        self._reader = TimedReader(self._read, "metrics-jobs")
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._samples: _Samples = {}

    def text(self, names: Sequence[str], *, is_open: bool) -> str:
        """Return the page with the families of these names; without names, with all of them.

        Raises Refusal for an unknown name, and while the database does not answer.
        """
        chosen = _choose(names)
        with self._lock:
            if self._monotonic() - self._read_at >= FRESH_S:
                if (samples := self._reader.read(READ_S_MAX)) is None:
                    raise Refusal(Code.UNAVAILABLE, _UNAVAILABLE)
                self._samples = samples
                self._read_at = self._monotonic()
            samples = self._samples
        return write_page(_select(chosen, samples), is_open=is_open)

    def _read(self) -> _Samples:
        samples: _Samples = defaultdict(dict)
        jobs = self._store.newest_open(limit=self._jobs_max)
        uses = self._uses.read(jobs)
        checkpoints = self._figures.checkpoints()
        keys = set()
        for job in jobs:
            key = _cut(job.project), _cut(job.job_id)
            keys.add(key)
            _add_job(samples, key, job)
            if (use := uses.get(job.uid)) is not None:
                _add_use(samples, key, use)
            if (checkpoint_s := checkpoints.get(job.uid)) is not None:
                samples[families.CHECKPOINT][key] = checkpoint_s
        rows, reported = self._figures.progress(), self._figures.reported()
        for row in rows:
            key = _cut(row.project), _cut(row.job.rpartition("/")[2])
            if key in keys:
                _add_progress(samples, key, row, reported.get(row.job))
        return samples


def _select(chosen: Iterable[Family], samples: _Samples) -> Iterator[FamilySamples]:
    for family in chosen:
        yield family, samples.get(family, {})


def _choose(names: Sequence[str]) -> Sequence[Family]:
    """Return the families of these names, with or without the suffix of a counter."""
    if not names:
        return JOB_FAMILIES
    families_by_name = {name: f for f in JOB_FAMILIES for name in (f.name, f.sample_name)}
    if unknown := [name for name in names if name not in families_by_name]:
        accepted = ", ".join(f.sample_name for f in JOB_FAMILIES)
        message = f"family must be one of {accepted}, got {unknown[0][:LABEL_CHARS_MAX]!r}"
        raise Refusal(Code.INVALID_ARGUMENT, message)
    return list(dict.fromkeys(families_by_name[name] for name in names))


def _add_job(samples: _Samples, key: _Key, job: OpenJob) -> None:
    info = (*key, job.kind, job.state, str(job.attempt), _cut(job.creator))
    samples[families.INFO][info] = 1.0
    samples[families.CREATED][key] = job.create_ns / 1e9
    samples[families.GPUS][key] = job.gpus
    if job.restarts is not None:
        for cause in Cause:
            samples[families.RESTARTS][*key, cause.value] = job.restarts.of(cause)


def _add_use(samples: _Samples, key: _Key, use: OpenJobUse) -> None:
    figures = {
        families.GPU_SECONDS: use.gpu_seconds,
        families.ENERGY: use.energy_j,
        families.GOODPUT: use.goodput,
        families.ETTR: use.ettr,
    }
    _add_figures(samples, key, figures)


def _add_progress(samples: _Samples, key: _Key, row: ProgressRow, reported_s: float | None) -> None:
    figures = {
        families.STEP: row.step,
        families.STEPS_EXPECTED: row.total,
        families.STEP_SECONDS: row.step_s,
        families.STEP_PREDICTED: row.predicted_step_s,
        families.GPU_UTILIZATION: row.gpu_use,
        families.REPORTED: reported_s,
    }
    _add_figures(samples, key, figures)
    if row.cost and isinstance(amount := row.cost.get("amount"), int | float):
        at_least = "true" if row.cost.get("at_least") else "false"
        samples[families.COST][*key, str(row.cost.get("currency")), at_least] = amount


def _add_figures(samples: _Samples, key: _Key, figures: Mapping[Family, float | None]) -> None:
    for family, value in figures.items():
        if value is not None:
            samples[family][key] = value


def _cut(text: str) -> str:
    return text[:LABEL_CHARS_MAX]
