"""Reads the facts of alerts, logs each alert once, and answers with those that hold."""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trainshed.model.event_kinds import HUNG, RECOVERED
from trainshed.model.explanation import Reason
from trainshed.model.resource_names import ResourceName
from trainshed.model.resources import shown_name
from trainshed.service.alerts.rules import (
    Alert,
    AlertFacts,
    AlertKind,
    HeldGpu,
    HungReplica,
    QueueState,
    list_alerts,
)
from trainshed.service.nodes import node_gpus
from trainshed.service.nodes.node_gpus import GpusNow
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding
from trainshed.store.records.nodes import NodeRow
from trainshed.wire.native_v1 import Answer, answer_of
from trainshed.wire.times import timestamp

_NS: Final = 1_000_000_000

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertAnswer(Answer):
    """A condition that a person should look at."""

    kind: AlertKind
    subject: str
    """What it is about: a replica, a GPU, a node, a disk or the queue."""
    message: str
    """What was measured, and what to do next."""
    since: str
    job: str | None = None
    """The job that is concerned; absent for conditions of machines."""
    page: str
    """The page of the console that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertList(Answer):
    """The alerts that hold now and that the caller may see."""

    alerts: Sequence[AlertAnswer]


@dataclass(slots=True, kw_only=True)
class Alerts:
    """The alerts of one server; safe to call from any thread.

    The use of GPUs and the disks are those of this server's machine.
    """

    store: Store
    gpus_now: GpusNow | None = None
    """Reads the GPUs of this server's machine; None: the engine reads none."""
    disks: Mapping[str, Path] = field(default_factory=dict)
    """Folders whose disks are watched, by what is in them."""
    now: Callable[[], float]
    """Returns the store's time in seconds since 1970."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _began_s: dict[tuple[AlertKind, str], float] = field(default_factory=dict)
    _stuck_since_s: float | None = None

    def look(self) -> None:
        """Log the alerts that began or ended since the last call.  Raises StoreFault."""
        self._read()

    def listing(self, sees: Callable[[str], bool] = lambda _: True) -> AlertList:
        """Return the alerts that hold; of jobs, those whose project ``sees`` allows.

        Raises StoreFault.
        """
        alerts = [alert for alert in self._read() if alert.project is None or sees(alert.project)]
        return AlertList(
            alerts=[
                answer_of(AlertAnswer, alert, since=timestamp(int(alert.since_s * _NS)))
                for alert in alerts
            ]
        )

    def _read(self) -> Sequence[Alert]:
        with self._lock:
            alerts = list_alerts(self._read_facts())
            self._log_changes(alerts)
            return [self._date(alert) for alert in alerts]

    def _date(self, alert: Alert) -> Alert:
        """Return an alert with its begin: that of a disk is when this server first noticed it."""
        if alert.kind is not AlertKind.DISK_NEARLY_FULL:
            return alert
        return replace(alert, since_s=self._began_s[alert.kind, alert.subject])

    def _log_changes(self, alerts: Sequence[Alert]) -> None:
        current = {(alert.kind, alert.subject): alert for alert in alerts}
        for key, alert in current.items():
            if key not in self._began_s:
                fields = _log_fields(alert)
                _LOG.warning(
                    "alert %s: %s", alert.kind.value, alert.message, extra={"fields": fields}
                )
                self._began_s[key] = alert.since_s
        for key in self._began_s.keys() - current.keys():
            _LOG.info("alert %s of %s is over", key[0].value, key[1])
            del self._began_s[key]

    def _read_facts(self) -> AlertFacts:
        now_s = self.now()
        rows, holding = self.store.nodes(), self.store.holding()
        several = len({row.engine for row in rows}) > 1
        names = {(row.engine, row.node.name): _name(row, several=several) for row in rows}
        queue = self._read_queue(rows, holding)
        if not queue.looks_stuck:
            self._stuck_since_s = None
        elif self._stuck_since_s is None:
            self._stuck_since_s = now_s
        seen_s = {names[row.engine, row.node.name]: row.seen_time.timestamp() for row in rows}
        return AlertFacts(
            now_s=now_s,
            hung=list(self._list_hung(holding)),
            held_gpus=list(self._list_held_gpus(rows, names, holding)),
            queue=queue,
            stuck_since_s=self._stuck_since_s,
            nodes_seen_s=seen_s,
            disks=dict(self._list_disks()),
        )

    def _read_queue(self, rows: Sequence[NodeRow], holding: Sequence[Holding]) -> QueueState:
        counts = self.store.count_open()
        held = node_gpus.count_held(holding)
        return QueueState(
            oldest_wait_s=counts.oldest_wait_s or 0.0,
            waits_for_capacity=counts.waiting.get(Reason.CAPACITY, 0),
            gpus_free=sum(node_gpus.count_free(row, held) for row in rows),
        )

    def _list_hung(self, holding: Sequence[Holding]) -> Iterator[HungReplica]:
        """Yield the replicas whose newest event of a hang says that they hang."""
        newest = {}
        for event in self.store.held_events((HUNG, RECOVERED)):
            newest[event.uid, str(event.data.get("task_name"))] = event
        jobs = {int(held.uid): held for held in holding}
        for (uid, task_name), event in newest.items():
            if event.kind == HUNG and uid in jobs:
                yield HungReplica(
                    project=jobs[uid].project,
                    job=jobs[uid].name,
                    task_name=task_name,
                    since_s=event.stamp_ns / _NS,
                )

    def _list_held_gpus(
        self,
        rows: Sequence[NodeRow],
        names: Mapping[tuple[str, str], str],
        holding: Sequence[Holding],
    ) -> Iterator[HeldGpu]:
        now = node_gpus.by_uuid(self.gpus_now)
        jobs = {int(held.uid): held for held in holding}
        for row in rows:
            for gpu in row.node.devices:
                status = now.get(gpu.uuid)
                held = jobs.get(status.attempt.uid) if status and status.attempt else None
                if status and held and status.idle_s is not None:
                    yield HeldGpu(
                        node=names[row.engine, row.node.name],
                        gpu=gpu.index,
                        project=held.project,
                        job=held.name,
                        user=held.creator,
                        idle_s=status.idle_s,
                    )

    def _list_disks(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for what, folder in self.disks.items():
            with suppress(OSError):
                disk = os.statvfs(folder)
                yield what, (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)


def _log_fields(alert: Alert) -> Mapping[str, object]:
    """Return what an alert is about, as fields of a record of a JSON log."""
    job = ResourceName.parse(alert.job).id if alert.job else ""
    return {"project": alert.project, "job": job, "node": alert.node, "task": alert.task}


def _name(row: NodeRow, *, several: bool) -> str:
    return shown_name(row.node, several=several)
