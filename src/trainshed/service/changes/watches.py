"""One watch for each kind of topic: reads the present state, and compares it with the last one.

A scope that is new to its watch is only remembered.  After a look that failed all pages read again
what they show, because some watches may have remembered the new state already.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from trainshed.model.refusals import Refusal
from trainshed.model.resource_names import JobUid
from trainshed.service.changes.comparing import compare_marks, count_states
from trainshed.service.changes.documents import (
    JobChange,
    LogChange,
    NodesChange,
    QueueChange,
    StudyChange,
)
from trainshed.service.changes.topics import TopicScope
from trainshed.service.jobs.job_lists import row_answer
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.story_answers import JobSummary
from trainshed.service.log.numbered import NumberedLogs
from trainshed.service.nodes.node_service import Fleet, NodeService, NodeSummary
from trainshed.store.listed_jobs import JobListRow
from trainshed.store.marks import JobMark, TrialMark, changes_row
from trainshed.store.opening import Store
from trainshed.wire.native_v1 import Answer

#: The most jobs of one event; after more changes the page reads its list again.
JOBS_MAX: Final = 1000
#: How long a job has ended when its end is read for the last time: servers' clocks differ.
OVERLAP: Final = timedelta(seconds=10)
#: Seconds between two looks at nodes, which change rarely.
NODES_S: Final = 2.0
#: Seconds that a look may count lines of logs; the next look continues.
COUNT_S_MAX: Final = 0.2

#: The document of each scope that has changed; None: too much has changed for a document.
Changes = Mapping[TopicScope, Answer | None]


class Watch(Protocol):
    """Finds the changes of the scopes of one kind."""

    def look(self, scopes: Collection[TopicScope]) -> Changes:
        """Return the changes since the last look, and forget other scopes.  Raises StoreFault."""


class LogMark(NamedTuple):
    """What changes whenever a log does."""

    last_stamp_ns: int | None
    size_bytes: int


@dataclass(slots=True)
class QueueWatch:
    """Finds changed jobs in the lists of projects.

    A job that was added and ended between two looks was never open in one; it is read because it
    ended recently.
    """

    store: Store
    _before: Mapping[int, JobMark] | None = None
    _ended: frozenset[int] = frozenset()
    """The jobs that had ended recently at the last look."""
    _looked_time: datetime | None = None
    _open: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The (project, state) of each open job, without trials."""

    def look(self, scopes: Collection[TopicScope]) -> Changes:
        """Compare the marks of all open jobs, and read the rows of those that have changed."""
        before, self._before = self._before, None
        if not scopes:
            self._open = {}
            return {}
        now = self.store.open_marks()
        short = self._find_ended() - now.keys()
        uids: Collection[int] = ()
        if before is not None:
            marks = compare_marks(before, now)
            changed = (uid for uid in marks.changed if changes_row(before.get(uid), now[uid]))
            uids = (*changed, *marks.left, *(short - before.keys()))
        if before is None or len(uids) > JOBS_MAX:
            states = self.store.open_states()  # the next look reads jobs that were just added
            self._open = {uid: state for uid, state in states.items() if uid in now}
        changes = self._read_changes(scopes, uids)
        self._before = now
        return changes

    def _find_ended(self) -> frozenset[int]:
        """Return the jobs that ended recently and had not at the last look."""
        now = self.store.now()
        since = (self._looked_time or now) - OVERLAP
        before, self._looked_time = self._ended, now
        self._ended = self.store.ended_since(since, limit=2 * JOBS_MAX)
        return self._ended - before

    def _read_changes(self, scopes: Collection[TopicScope], uids: Collection[int]) -> Changes:
        """Read the rows of jobs that were added, have changed or are no longer open."""
        if not uids:
            return {}
        if len(uids) > JOBS_MAX:
            return dict.fromkeys(scopes)
        rows = self.store.job_rows_of(uids)
        old_states = {uid: state for uid in uids if (state := self._open.pop(uid, None))}
        open_rows = (row for row in rows if row.end_ns is None)
        self._open |= {row.uid: (row.project, row.state.value) for row in open_rows}
        gone = old_states.keys() - {row.uid for row in rows}
        deleted = {uid: old_states[uid][0] for uid in gone}
        changes = {scope: self._select(scope.project, rows, deleted) for scope in scopes}
        return {scope: change for scope, change in changes.items() if change.jobs or change.gone}

    def _select(
        self, project: str | None, rows: Sequence[JobListRow], deleted: Mapping[int, str]
    ) -> QueueChange:
        """Return the changes of one project, or of all; ``deleted``: the project by uid."""
        return QueueChange(
            jobs=[row_answer(row) for row in rows if project in (None, row.project)],
            gone=[str(uid) for uid, owner in deleted.items() if project in (None, owner)],
            counts=count_states(self._open.values(), project),
        )


@dataclass(slots=True)
class JobWatch:
    """Finds changes of single jobs, also of those that have ended."""

    store: Store
    stories: Stories
    _before: Mapping[int, JobMark | None] = field(default_factory=dict)

    def look(self, scopes: Collection[TopicScope]) -> Changes:
        """Compare the marks of these jobs, and summarize those that have changed."""
        marks = self.store.marks_of({scope.uid for scope in scopes}) if scopes else {}
        changes = {
            scope: JobChange(summary=self._summarize(scope))
            for scope in scopes
            if scope.uid in self._before and self._before[scope.uid] != marks.get(scope.uid)
        }
        self._before = {scope.uid: marks.get(scope.uid) for scope in scopes}
        return changes

    def _summarize(self, scope: TopicScope) -> JobSummary | None:
        """Return the summary; None if the job was deleted, even if another one has its name."""
        try:
            summary = self.stories.job(scope.project or "", scope.job)
        except Refusal:
            return None
        return summary if summary.uid == str(scope.uid) else None


@dataclass(slots=True)
class LogWatch:
    """Finds logs with new lines or sentences of the service, and pruned ones."""

    store: Store
    logs: NumberedLogs
    clock: Callable[[], float] = time.monotonic
    _before: Mapping[TopicScope, LogMark] = field(default_factory=dict)

    def look(self, scopes: Collection[TopicScope]) -> Changes:
        """Compare the sizes of the files, and the stamps of the newest sentences."""
        stamps = self.store.last_stamps({scope.uid for scope in scopes}) if scopes else {}
        now = {scope: LogMark(stamps.get(scope.uid), self._bytes(scope.uid)) for scope in scopes}
        before, self._before = self._before, now
        late_s = self.clock() + COUNT_S_MAX
        return {
            scope: LogChange(total=self._count(scope.uid, late_s))
            for scope, mark in now.items()
            if before.get(scope, mark) != mark
        }

    def _count(self, uid: JobUid, late_s: float) -> int | None:
        """Return the number of a log's lines; None for a study, and if counting takes too long."""
        if self.store.trial_jobs(uid):
            return None
        return self.logs.count_lines(uid, lambda: self.clock() > late_s)

    def _bytes(self, uid: JobUid) -> int:
        """Return the size of a job's log; for a study that of its open trials' logs."""
        trials = self.store.trial_jobs(uid)
        uids = [trial.job_uid for trial in trials if trial.end_time is None] if trials else [uid]
        return sum(self.logs.job_log.size_bytes(JobUid(one)) for one in uids)


@dataclass(slots=True)
class NodesWatch:
    """Finds changes of nodes and engines, for callers who may know the jobs of a project."""

    nodes: NodeService
    clock: Callable[[], float] = time.monotonic
    _before: Mapping[TopicScope, Fleet] = field(default_factory=dict)
    _due_s: float = 0.0

    def look(self, scopes: Collection[TopicScope]) -> Changes:
        """Compare the nodes as their engines last reported them, at most every ``NODES_S``."""
        is_new = any(scope not in self._before for scope in scopes)
        if scopes and not is_new and self.clock() < self._due_s:
            return {}
        now = {scope: self._read(scope.project) for scope in scopes}
        changes = {
            scope: change
            for scope, fleet in now.items()
            if (change := _nodes_change(self._before.get(scope, fleet), fleet))
        }
        self._before, self._due_s = now, self.clock() + NODES_S
        return changes

    def _read(self, project: str | None) -> Fleet:
        return self.nodes.listing(lambda other: project in (None, other))


def _nodes_change(before: Fleet, now: Fleet) -> NodesChange | None:
    """Return the changed nodes; the time of their last report alone is no change."""
    old, new = _by_name(before), _by_name(now)
    changed = [node for node in now.nodes if old.get(node.name) != new[node.name]]
    gone = [name for name in old if name not in new]
    if not changed and not gone and before.engines == now.engines:
        return None
    return NodesChange(nodes=changed, gone=gone, engines=now.engines)


def _by_name(fleet: Fleet) -> Mapping[str, NodeSummary]:
    return {node.name: replace(node, seen="") for node in fleet.nodes}


@dataclass(slots=True)
class StudyWatch:
    """Finds trials of studies that have changed or have new measurements."""

    store: Store
    _before: Mapping[TopicScope, Mapping[int, TrialMark]] = field(default_factory=dict)

    def look(self, scopes: Collection[TopicScope]) -> Changes:
        """Compare the marks of all trials of these studies."""
        now = {scope: self.store.trial_marks(scope.uid) for scope in scopes}
        before, self._before = self._before, now
        return {
            scope: _study_change(changed, marks)
            for scope, marks in now.items()
            if (changed := compare_marks(before.get(scope, marks), marks).changed)
        }


def _study_change(changed: Collection[int], marks: Mapping[int, TrialMark]) -> StudyChange:
    return StudyChange(
        trials=sorted(changed),
        total=len(marks),
        states=Counter(mark.state for mark in marks.values()),
    )
