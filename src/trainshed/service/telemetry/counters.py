"""Counts what this process does, from its start; callable from any thread.

Other packages call these methods, most of them as callbacks: the store and the controller may not
import this package.  A call takes about 1 µs.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trainshed.model.restarts import Cause
from trainshed.service.telemetry import families
from trainshed.service.telemetry.family import Distribution, Family, FamilyKind, Samples

#: Projects and rules with a label of their own; later ones are counted together.
PROJECTS_MAX: Final = 20
RULES_MAX: Final = 40
OTHER: Final = "other"
#: Statuses of calls that were refused for their credentials, their role, or a limit.
_AUTH_REASONS: Final[Mapping[int, str]] = {
    401: "credentials",
    403: "role",
    429: "limit",
}
#: The state and cause of most ends of jobs.
USUAL_ENDS: Final = (
    ("SUCCEEDED", "none"),
    ("FAILED", "program"),
    ("FAILED", "infra"),
    ("CANCELLED", "cancelled"),
)
#: The class of the statuses of requests that the server could not answer.
_FAILED: Final = "5xx"


class LabelValues:
    """The values of a label that have series of their own; a value that has one keeps it.

    A counter whose values moved between series would seem to start again.
    """

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._values: dict[str, None] = {}

    def choose(self, value: str) -> str:
        """Return the value itself, or ``other`` if enough values came before it."""
        if value in self._values:
            return value
        if len(self._values) >= self._values_max:
            return OTHER
        self._values[value] = None
        return value


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0

    def sample(self) -> Distribution:
        return Distribution(tuple(self.counts), sum(self.counts), self.total)


class Counters:
    """The counters and histograms of one server."""

    def __init__(self) -> None:
        """Begin at 0.

        Histograms without labels, and counters with few values of one label, have samples from the
        start: Prometheus cannot see that a new series has begun at 0, and misses its first count.
        Ends of a project's jobs have samples from its first submission, failed requests of an API
        from its first answer.
        """
        self._lock = threading.Lock()
        self.projects = LabelValues(PROJECTS_MAX)
        self._rules = LabelValues(RULES_MAX)
        self._counts: dict[Family, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[Family, dict[tuple[str, ...], _Histogram]] = {}
        for family in COUNTED:
            if family.kind is FamilyKind.HISTOGRAM:
                self._histograms[family] = {}
                if not family.labels:
                    self._histograms[family][()] = _Histogram(len(family.buckets))
            else:
                self._counts[family] = defaultdict(float)
                self._counts[family].update(dict.fromkeys(FIRST.get(family, ()), 0.0))

    def submitted(self, project: str, dialect: str) -> None:
        """Count a job that was accepted and is new."""
        label = self.projects.choose(project)
        self._add(families.JOBS_SUBMITTED, label, dialect)
        for end in USUAL_ENDS:
            self._add(families.JOBS_FINISHED, label, *end, amount=0.0)

    def refused(self, dialect: str, rule: str) -> None:
        """Count a job that was refused; ``rule`` is the first rule that it broke."""
        self._add(families.JOBS_REFUSED, dialect, self._rules.choose(rule))

    def finished(self, project: str, state: str, cause: str) -> None:
        """Count a job that ended in a final state."""
        self._add(families.JOBS_FINISHED, self.projects.choose(project), state, cause)

    def restarted(self, cause: str) -> None:
        """Count a restart of a job: maintenance, infra or user."""
        self._add(families.JOB_RESTARTS, cause)

    def noticed(self, *, is_honoured: bool) -> None:
        """Count a replica that had a notice: whether it ended in time, or was killed."""
        self._add(families.NOTICES, "yes" if is_honoured else "no")

    def waited(self, seconds: float) -> None:
        """Count a wait in the queue that has ended with nodes."""
        self._observe(families.QUEUE_WAIT, seconds)

    def started(self, seconds: float) -> None:
        """Count an attempt that is RUNNING, since it got its nodes."""
        self._observe(families.JOB_START, seconds)

    def ran(self, seconds: float) -> None:
        """Count the running time of a job that has ended."""
        self._observe(families.JOB_RUN, seconds)

    def placed(self, replicas: int) -> None:
        """Count an attempt that got its nodes."""
        self._observe(families.GANG_PLACED, replicas)

    def passed(self, seconds: float) -> None:
        """Count a pass of the scheduler over the queue."""
        self._observe(families.SCHEDULING_PASS, seconds)

    def commanded(self, command: str, seconds: float) -> None:
        """Count a call of an engine that succeeded: ``launch`` or ``stop``."""
        self._observe(families.ENGINE_SECONDS, seconds, command)

    def trial_finished(self, state: str, *, is_stopped_early: bool) -> None:
        """Count a trial that ended in a final state."""
        self._add(families.TRIALS_FINISHED, state, "true" if is_stopped_early else "false")

    def suggested(self, seconds: float) -> None:
        """Count a decision of a study that begins new trials."""
        self._observe(families.SUGGEST_SECONDS, seconds)

    def pruned_log(self, size_bytes: int) -> None:
        """Count the bytes of lines of jobs that were removed."""
        self._add(families.LOG_PRUNED, amount=size_bytes)

    def signed_in(self, *, is_refused: bool) -> None:
        """Count a browser that signed in, or was refused."""
        self._add(families.SIGN_INS, "refused" if is_refused else "done")

    def add_console_stream(self, number: int) -> None:
        """Count a stream of changes to a page that begins (1) or ends (-1)."""
        self._add(families.CONSOLE_STREAMS, amount=number)

    def committed(self, seconds: float, writes: int) -> None:
        """Count a commit of the store's writer."""
        self._observe(families.STORE_COMMIT, seconds)
        self._observe(families.STORE_WRITES, writes)

    def store_failed(self, kind: str) -> None:
        """Count a write that the database did not store: ``away`` or ``error``."""
        self._add(families.STORE_ERRORS, kind)

    def answered(self, api: str, status: int, seconds: float | None) -> None:
        """Count an answer; ``seconds`` None: a stream, whose time says nothing."""
        if status in _AUTH_REASONS:
            self._add(families.AUTH_REFUSALS, _AUTH_REASONS[status])
        self._add(families.HTTP_REQUESTS, api, f"{status // 100}xx")
        self._add(families.HTTP_REQUESTS, api, _FAILED, amount=0.0)
        if seconds is not None:
            self._observe(families.HTTP_SECONDS, seconds, api)

    def held(self, node: str, project: str, gpu_seconds: float, *, is_busy: bool) -> None:
        """Count time for which a job held a GPU of this machine."""
        labels = (node, self.projects.choose(project))
        self._add(families.GPU_HELD, *labels, amount=gpu_seconds)
        self._add(families.GPU_BUSY, *labels, amount=gpu_seconds if is_busy else 0.0)

    def read(self) -> Iterator[tuple[Family, Samples]]:
        """Yield a copy of all counters and histograms."""
        with self._lock:
            counts = [(family, dict(samples)) for family, samples in self._counts.items()]
            histograms = [
                (family, {labels: one.sample() for labels, one in samples.items()})
                for family, samples in self._histograms.items()
            ]
        yield from counts
        yield from histograms

    def _add(self, family: Family, *labels: str, amount: float = 1.0) -> None:
        with self._lock:
            self._counts[family][labels] += amount

    def _observe(self, family: Family, value: float, *labels: str) -> None:
        with self._lock:
            by_labels = self._histograms[family]
            if labels not in by_labels:
                by_labels[labels] = _Histogram(len(family.buckets))
            histogram = by_labels[labels]
            histogram.counts[bisect_left(family.buckets, value)] += 1
            histogram.total += value


#: Labels of some counters, which have samples from the start.
FIRST: Final[Mapping[Family, Sequence[tuple[str, ...]]]] = {
    families.JOB_RESTARTS: [(cause.value,) for cause in Cause],
    families.NOTICES: [("yes",), ("no",)],
    families.SIGN_INS: [("done",), ("refused",)],
    families.CONSOLE_STREAMS: [()],
    families.LOG_PRUNED: [()],
}
#: The families that a process counts; the others are read for each page.
COUNTED: Final = (
    families.HTTP_REQUESTS,
    families.HTTP_SECONDS,
    families.AUTH_REFUSALS,
    families.JOBS_SUBMITTED,
    families.JOBS_REFUSED,
    families.JOBS_FINISHED,
    families.JOB_RESTARTS,
    families.NOTICES,
    families.QUEUE_WAIT,
    families.JOB_START,
    families.JOB_RUN,
    families.SCHEDULING_PASS,
    families.ENGINE_SECONDS,
    families.GANG_PLACED,
    families.GPU_HELD,
    families.GPU_BUSY,
    families.TRIALS_FINISHED,
    families.SUGGEST_SECONDS,
    families.LOG_PRUNED,
    families.SIGN_INS,
    families.CONSOLE_STREAMS,
    families.STORE_COMMIT,
    families.STORE_WRITES,
    families.STORE_ERRORS,
)
