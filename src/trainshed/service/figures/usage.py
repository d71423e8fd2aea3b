"""Reads what the replicas and GPUs of a job used, through the engines of its attempts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from trainshed.engines.capabilities import SupportsUsage
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.refusals import Code, Refusal
from trainshed.model.usage_curves import UNITS, SeriesKey, UsageColumns
from trainshed.service.figures.answers import JobUsage, UsageCurve
from trainshed.service.figures.attempt_curves import LINES_MAX, AttemptCurveCache, AttemptCurves
from trainshed.service.figures.attempt_spans import list_attempt_spans
from trainshed.service.figures.growing_curve import GrowingCurve
from trainshed.service.jobs.story import Stories
from trainshed.store.records.jobs import JobRecord

#: The most series of one answer, and the most attempts, the newest.
SERIES_MAX: Final = 200
ATTEMPTS_MAX: Final = 100
#: What an answer for a tuning job lacks.
OF_TRIALS: Final = "a tuning job has no figures of its own; ask for one of its trials"
#: The words of a sentence for the series of a GPU.
_GPU_WORDS: Final = {
    "gpu_use": "use",
    "gpu_memory": "memory",
    "gpu_power": "power",
    "gpu_temperature": "temperature",
}


class UnreadSamples(Exception):
    """The samples of an attempt cannot be read; the text is a sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCall:
    """What a caller asks for; times in seconds since 1970."""

    attempt: int | None = None
    """None: all attempts."""
    since_s: float = -math.inf
    until_s: float = math.inf
    points_max: int


@dataclass(frozen=True, slots=True)
class UsageReader:
    """Reads the use of machines.  Raises Refusal for a job that does not exist."""

    stories: Stories
    engines: Engines
    cache: AttemptCurveCache = field(default_factory=AttemptCurveCache)

    def usage(self, project: str, job_id: str, call: UsageCall) -> JobUsage:
        """Return the curves of a job's replicas and GPUs, those of the newest attempt first."""
        record = self.stories.find(project, job_id)
        spans = list_attempt_spans(self.stories.store, record)
        curves: list[UsageCurve] = []
        missing: list[str] = [OF_TRIALS] if record.job.spec.is_study else []
        for count, number in enumerate(_choose_attempts(record, call)):
            if len(curves) >= SERIES_MAX or count == ATTEMPTS_MAX:
                missing.append(_explain_limit(number))
                break
            try:
                added = self._read_curves(AttemptKey(record.uid, number), call)
            except UnreadSamples as unread:
                missing.append(str(unread))
                continue
            missing += self._explain_gaps(record, number, added)
            curves += added
        missing += _explain_rest(len(curves))
        return JobUsage(attempts=spans, series=curves[:SERIES_MAX], missing=missing)

    def _read_curves(self, key: AttemptKey, call: UsageCall) -> list[UsageCurve]:
        """Return the curves of an attempt in the time of the call.  Raises UnreadSamples."""
        if math.isinf(call.since_s) and math.isinf(call.until_s):
            with self.open_curves(key) as curves:
                return list(_draw(key.attempt, curves.usage, call.points_max))
        with self._open(key) as engine:
            lines = engine.read_usage(key, call.since_s, call.until_s)[-LINES_MAX:]
        samples = UsageColumns(lines).usage
        drawn = {
            name: GrowingCurve.of_samples(columns, call.points_max)
            for name, columns in samples.items()
        }
        return list(_draw(key.attempt, drawn, call.points_max))

    @contextmanager
    def open_curves(self, key: AttemptKey) -> Iterator[AttemptCurves]:
        """Yield the curves of an attempt until now.  Raises UnreadSamples."""
        with self._open(key) as engine, self.cache.open(engine, key) as curves:
            yield curves

    @contextmanager
    def _open(self, key: AttemptKey) -> Iterator[SupportsUsage]:
        """Yield the engine of an attempt.  Raises UnreadSamples, also for an OSError inside."""
        name = self.engines.name_of(key)
        engine = self.engines.find_by_name(name)
        if engine is None:
            text = f"this server runs without the engine {name} of attempt {key.attempt}"
            raise UnreadSamples(text)
        if not isinstance(engine, SupportsUsage):
            text = f"the engine {name} of attempt {key.attempt} measures no use of machines"
            raise UnreadSamples(text)
        try:
            yield engine
        except OSError as error:
            text = f"cannot read the samples of attempt {key.attempt}: {error}; try again later"
            raise UnreadSamples(text) from error

    def _explain_gaps(
        self, record: JobRecord, attempt: int, series: Sequence[UsageCurve]
    ) -> Iterator[str]:
        """Yield a sentence for each kind of value that was not measured."""
        if not series:
            yield (
                f"attempt {attempt} has no samples in this time: it had not run for 10 seconds, "
                "the server samples nothing ([usage] every), or an older release started it"
            )
            return
        demand = self.stories.store.demand(record.uid)
        uuids = {one.gpu for one in series if one.gpu}
        if not uuids and any(group.each.gpu_count for group in demand.groups):
            yield f"the GPUs of attempt {attempt} were not measured"
        for name, word in _GPU_WORDS.items():
            measured = {one.gpu for one in series if one.name == name}
            if lacking := sorted(uuids - measured):
                yield f"the {word} of {', '.join(lacking)} was not measured in attempt {attempt}"


def _choose_attempts(record: JobRecord, call: UsageCall) -> Sequence[int]:
    """Return the attempts to read, the newest first.  Raises Refusal."""
    if call.attempt is None:
        return range(record.attempt, 0, -1)
    if call.attempt > record.attempt:
        message = f"{record.name} has no attempt {call.attempt}; its newest is {record.attempt}"
        raise Refusal(Code.NOT_FOUND, message)
    return [call.attempt]


def _explain_rest(count: int) -> Iterator[str]:
    if count > SERIES_MAX:
        yield (
            f"{count - SERIES_MAX} of {count} series are left out: an answer has at most "
            f"{SERIES_MAX}"
        )


def _explain_limit(attempt: int) -> str:
    return (
        f"attempts up to {attempt} are left out: an answer has at most {SERIES_MAX} series of "
        f"{ATTEMPTS_MAX} attempts; ask for one of them with attempt={attempt}"
    )


def _draw(
    attempt: int, curves: Mapping[SeriesKey, GrowingCurve], points_max: int
) -> Iterator[UsageCurve]:
    for (name, task, gpu), curve in curves.items():
        yield UsageCurve(
            name=name,
            unit=UNITS[name],
            attempt=attempt,
            task=task or None,
            gpu=gpu or None,
            points=[(at, low, mean, high) for _, at, low, mean, high in curve.points(points_max)],
        )
