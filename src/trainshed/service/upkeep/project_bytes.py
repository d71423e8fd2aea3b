"""Limits a project's disk usage: its buckets, uploads under way, and the folders of its jobs.

A chore measures folders; between two runs uploads are counted as they come.  Over the limit uploads
and new jobs are refused.  Running jobs go on, because their last write may be their result.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobUid
from trainshed.storage.disk_usage import sizes
from trainshed.storage.uploads import Uploads
from trainshed.store.opening import Store


class NoRoom(Exception):
    """An upload exceeds the limit of its project."""


class ProjectBytes:
    """The limit, and the usage of every project.  Thread-safe."""

    def __init__(self, most: int | None = None) -> None:
        """``most`` bytes of one project; None is no limit, and nothing is counted."""
        self.most = most
        self._lock = threading.Lock()
        self._used: Counter[str] = Counter()

    def measured(self, used: Mapping[str, int]) -> None:
        """Replace the usage of all projects; a project that is not named has none."""
        with self._lock:
            self._used = Counter(used)

    def take(self, project: str, count: int) -> None:
        """Count bytes of an upload.  Raises NoRoom."""
        if self.most is None:
            return
        with self._lock:
            if self._used[project] + count > self.most:
                raise NoRoom(self._sentence(project))
            self._used[project] += count

    def check(self, project: str) -> None:
        """Raise Refusal for a new job of a project over its limit."""
        if self.most is None:
            return
        with self._lock:
            if self._used[project] > self.most:
                raise Refusal(Code.RESOURCE_EXHAUSTED, self._sentence(project))

    def _sentence(self, project: str) -> str:
        return (
            f"project {project} has {self._used[project]} bytes in its buckets and in the folders "
            f"of its jobs, and may have {self.most} (limits.project_bytes_max): delete some; the "
            "usage is measured once a minute"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Measures the usage of all projects; a chore of housekeeping."""

    store: Store
    buckets: Path
    jobs: tuple[Path, ...]
    """The parents of the folders of jobs."""
    uploads: Uploads
    project_bytes: ProjectBytes
    _settled: dict[JobUid, tuple[str, int]] = field(default_factory=dict, init=False)
    """The bytes of ended jobs, whose folders do not change any more."""

    def look(self) -> None:
        """Measure the usage if there is a limit.  Raises OSError."""
        if self.project_bytes.most is None:
            return
        used: Counter[str] = Counter()
        for project, size in (
            *self._measure_buckets(),
            *self._measure_uploads(),
            *self._measure_jobs(),
        ):
            used[project] += size
        self.project_bytes.measured(used)

    def _measure_buckets(self) -> Iterator[tuple[str, int]]:
        """Yield the bytes of objects and of their metadata."""
        roots = (self.buckets, self.uploads.objects.data_dir / "objects")
        owned = {root / name: self._owner(name) for root in roots for name in _names(root)}
        for folder, size in sizes([folder for folder, owner in owned.items() if owner]).items():
            yield owned[folder], size

    def _measure_uploads(self) -> Iterator[tuple[str, int]]:
        for bucket, size in self.uploads.unfinished():
            yield self._owner(bucket), size

    def _measure_jobs(self) -> Iterator[tuple[str, int]]:
        named = {root: set(_names(root)) for root in self.jobs}
        uids = {JobUid(int(name)) for name in set().union(*named.values()) if name.isdecimal()}
        for uid in self._settled.keys() - uids:
            del self._settled[uid]
        records = {uid: self.store.job_by_uid(uid) for uid in uids - self._settled.keys()}
        folders = {uid: self._folders(uid, named) for uid, record in records.items() if record}
        folder_sizes = sizes([folder for job_folders in folders.values() for folder in job_folders])
        for uid, record in records.items():
            if record is None or not any(folder in folder_sizes for folder in folders[uid]):
                continue
            size = sum(folder_sizes.get(folder, 0) for folder in folders[uid])
            if record.job.status.state.is_final:
                self._settled[uid] = record.job.project, size
            else:
                yield record.job.project, size
        yield from self._settled.values()

    def _folders(self, uid: JobUid, named: Mapping[Path, Collection[str]]) -> list[Path]:
        return [root / str(uid) for root, names in named.items() if str(uid) in names]

    def _owner(self, bucket: str) -> str:
        row = self.store.bucket(bucket)
        return row[0] if row else ""


def _names(folder: Path) -> Iterable[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []
