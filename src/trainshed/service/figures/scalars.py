"""Reads the scalars of a job: values given to ``progress``, and event files of TensorBoard."""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from trainshed.engines.capabilities import SupportsWorkFolders
from trainshed.files.beneath import PathBeneath
from trainshed.launch.directories import FOLDER
from trainshed.launch.variables import AIP_TENSORBOARD_LOG_DIR
from trainshed.model.attempt import AttemptKey
from trainshed.model.job import JobSpec
from trainshed.model.refusals import Code, Refusal
from trainshed.service.figures.answers import JobScalars, ScalarCurve, ScalarSource
from trainshed.service.figures.attempt_curves import AttemptCurves
from trainshed.service.figures.attempt_spans import list_attempt_spans
from trainshed.service.figures.event_curves import EventCurves, LogFolder
from trainshed.service.figures.merge_curves import NamedCurve, merge_curves
from trainshed.service.figures.usage import (
    ATTEMPTS_MAX,
    OF_TRIALS,
    SERIES_MAX,
    UnreadSamples,
    UsageReader,
)
from trainshed.service.starts.bucket_uris import HasBucket, buckets_of_project
from trainshed.storage.buckets import SCHEME, Buckets, split
from trainshed.store.records.jobs import JobRecord

#: The longest time that a call reads event files, in seconds: other callers share the processor.
READ_S_MAX: Final = 0.25
#: The longest time that a call waits for another one that reads the same job, in seconds.
_WAIT_S_MAX: Final = 5.0
#: The most attempts of a job whose working folders are searched, the newest.
_WORK_FOLDERS_MAX: Final = 10
#: The most jobs whose curves are in memory.
_JOBS_MAX: Final = 8


class ScalarReader:
    """Reads scalars.  Thread-safe.  Raises Refusal for a job that does not exist."""

    def __init__(
        self, usage: UsageReader, buckets: Buckets, remote_buckets: Collection[str] = ()
    ) -> None:
        """Read values given to ``progress`` through ``usage``, and event files of ``buckets``.

        ``remote_buckets`` are the names of buckets that are not on this machine.
        """
        self._usage = usage
        self._buckets = buckets
        self._remote_buckets = remote_buckets
        self._lock = threading.Lock()
        self._readers: OrderedDict[int, tuple[threading.Lock, EventCurves]] = OrderedDict()

    def scalars(
        self, project: str, job_id: str, names: Collection[str], points_max: int
    ) -> JobScalars:
        """Return the curves of a job's values; empty ``names`` means all.

        Raises Refusal (UNAVAILABLE) if other calls read the same job for some seconds.
        """
        record = self._usage.stories.find(project, job_id)
        chosen = frozenset(names)
        left_out: list[str] = [OF_TRIALS] if record.job.spec.is_study else []
        series = [*self._read_progress(record, chosen, points_max, left_out)]
        is_complete = self._read_events(record, chosen, points_max, series, left_out)
        if len(series) > SERIES_MAX:
            left_out.append(
                f"{len(series) - SERIES_MAX} of {len(series)} series are left out; ask for some "
                "of them with names=NAME"
            )
        return JobScalars(series=series[:SERIES_MAX], left_out=left_out, complete=is_complete)

    def _read_progress(
        self,
        record: JobRecord,
        names: Collection[str],
        points_max: int,
        left_out: list[str],
    ) -> Iterator[ScalarCurve]:
        """Yield the curves of values given to ``progress``."""
        count = 0
        for attempt in range(record.attempt, 0, -1):
            if count >= SERIES_MAX or attempt <= record.attempt - ATTEMPTS_MAX:
                left_out.append(
                    f"values given to progress by attempts up to {attempt} are left out; the "
                    "newer attempts have enough for an answer"
                )
                break
            try:
                with self._usage.open_curves(AttemptKey(record.uid, attempt)) as curves:
                    named = _name_values(curves, attempt, names)
                    series = [*merge_curves(named, ScalarSource.PROGRESS, points_max)]
            except UnreadSamples as unread:
                left_out.append(str(unread))
                continue
            count += len(series)
            yield from series

    def _read_events(
        self,
        record: JobRecord,
        names: Collection[str],
        points_max: int,
        series: list[ScalarCurve],
        left_out: list[str],
    ) -> bool:
        """Add the curves of event files to ``series``; return whether all was read."""
        lock, reader = self._reader_of(record.uid)
        if not lock.acquire(timeout=_WAIT_S_MAX):
            raise Refusal(
                Code.UNAVAILABLE,
                f"other callers read the event files of {record.name}; try again in some seconds",
            )
        try:
            spans = list_attempt_spans(self._usage.stories.store, record)
            folders = [*self._list_folders(record)]
            is_complete = reader.read(folders, spans, time.monotonic() + READ_S_MAX)
            series += reader.curves(names, points_max)
            left_out += reader.left_out()
            left_out += self._explain_remote(record)
            if not folders:
                left_out += self._explain_lacking(record)
            if not is_complete:
                left_out.append(reader.describe_rest())
        finally:
            lock.release()
        return is_complete

    def _explain_remote(self, record: JobRecord) -> Iterator[str]:
        """Say which log folders are not read because their bucket is not on this machine."""
        for uri in filter(None, (record.job.spec.job_dir, record.job.spec.base_output_dir)):
            if uri.startswith(SCHEME) and split(uri)[0] in self._remote_buckets:
                yield (
                    f"event files in {uri} are not read, because the bucket is remote; copy them: "
                    f"gcloud storage rsync -r {uri} events && trainshed tensorboard events"
                )

    def _explain_lacking(self, record: JobRecord) -> Iterator[str]:
        """Say that event files in the working folder are not read, if the engine keeps none."""
        name = self._usage.engines.name_of(AttemptKey(record.uid, record.attempt))
        engine = self._usage.engines.find_by_name(name)
        if record.attempt and engine and not isinstance(engine, SupportsWorkFolders):
            yield (
                f"event files in the working folder are not read: the engine {name} does not keep "
                "it; write them below the job's output directory in a bucket"
            )

    def _list_folders(self, record: JobRecord) -> Iterator[LogFolder]:
        """Yield the log folders in buckets, and the working folders of the newest attempts.

        Torch writes below its working folder unless its program names another one.
        """
        has_bucket = buckets_of_project(self._usage.stories.store, record.job.project)
        for place in list_log_folders(record.job.spec, self._buckets, has_bucket):
            yield LogFolder(place)
        for attempt in range(record.attempt, max(0, record.attempt - _WORK_FOLDERS_MAX), -1):
            key = AttemptKey(record.uid, attempt)
            engines = self._usage.engines
            engine = engines.find_by_name(engines.name_of(key))
            if isinstance(engine, SupportsWorkFolders):
                yield LogFolder(engine.work_folder(key), attempt)

    def _reader_of(self, uid: int) -> tuple[threading.Lock, EventCurves]:
        """Return the reader of a job's event files; forget that of the job not read for longest."""
        with self._lock:
            if uid not in self._readers:
                self._readers[uid] = threading.Lock(), EventCurves()
            self._readers.move_to_end(uid)
            if len(self._readers) > _JOBS_MAX:
                self._readers.popitem(last=False)
            return self._readers[uid]


def list_log_folders(spec: JobSpec, buckets: Buckets, has_bucket: HasBucket) -> list[PathBeneath]:
    """Return the folders in which a job's program writes event files; empty without buckets.

    They are the output folder of AI Platform, and AIP_TENSORBOARD_LOG_DIR of Vertex AI.  A bucket
    that the project no longer has may be another project's now, and is left out.
    """
    trial = (spec.trial.trial_id,) if spec.trial else ()
    logs = FOLDER[AIP_TENSORBOARD_LOG_DIR]
    bases = ((spec.job_dir, trial), (spec.base_output_dir, (*trial, logs)))
    return [
        _resolve(buckets, base, names)
        for base, names in bases
        if base and base.startswith(SCHEME) and has_bucket(split(base)[0])
    ]


def _resolve(buckets: Buckets, uri: str, names: Sequence[str]) -> PathBeneath:
    path = PathBeneath(*buckets.place_of(uri))
    for name in names:
        path = path.below(name)
    return path


def _name_values(
    curves: AttemptCurves, attempt: int, names: Collection[str]
) -> Iterator[NamedCurve]:
    """Yield the curves of the values that the replicas of an attempt gave to ``progress``."""
    for (name, task), curve in curves.values.items():
        if not names or name in names:
            yield NamedCurve(name, task, attempt, curve)
