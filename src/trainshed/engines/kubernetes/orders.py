"""Deletes the objects of attempts that must end, and looks for JobSets that the lists lack.

An order to stop is a file in the attempt's folder.  The deletion of the JobSet sends SIGTERM to the
launcher and to all wardens; the launcher reads the order first, so the end of a cancelled attempt
is not reported as maintenance.  One thread does this work between the reports of the watches.

Files on the claim change without a report.  So the thread also checks all attempts in turns, of
thousands a part in each round.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from trainshed.engines.attempt_table import AttemptTable
from trainshed.engines.kubernetes import attempt_files, names, paths
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import ApiRefused
from trainshed.engines.kubernetes.attempt import KubernetesAttempt
from trainshed.engines.kubernetes.deletions import (
    delete_jobset,
    delete_secret,
    try_to_delete_secret,
)
from trainshed.engines.kubernetes.state import objects
from trainshed.engines.kubernetes.turns import Turns
from trainshed.engines.kubernetes.watched_cluster import WatchedCluster
from trainshed.engines.spool import Spool
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault

_LOG = logging.getLogger(__name__)

#: Seconds between two rounds if nothing changes.
_ROUND_S: Final = 0.2
#: Seconds before work that failed is tried again, and the least between two checks of a folder.
_ALL_S: Final = 1.0
#: Limits of one round: checks of the size of records, checks for orders, and retries.
_RECORDS_MAX: Final = 400
_FOLDERS_MAX: Final = 10
_RETRIES_MAX: Final = 200
#: Seconds until the deletion of a JobSet that still exists is repeated.
_DELETE_S: Final = 10.0
_CLOSE_S: Final = 1.5


class ClusterOrders:
    """The work of one engine that needs requests: deletions and look-ups."""

    def __init__(  # noqa: PLR0913 - keyword arguments of one caller
        self,
        attempts: AttemptTable[KubernetesAttempt],
        spool: Spool,
        cluster: WatchedCluster,
        client: Client,
        *,
        namespace: str,
        installation: str,
    ) -> None:
        self._attempts = attempts
        self._spool = spool
        self._cluster = cluster
        self._client = client
        self._namespace = namespace
        self._installation = installation
        self._pending: set[AttemptKey] = set()
        self._deleted_s: dict[str, float] = {}
        self._failed: set[AttemptKey] = set()
        """Attempts whose work is to be tried again."""
        self._refused: set[AttemptKey] = set()
        """Attempts of which a refusal was logged, until a later request succeeds."""
        self._records = Turns[KubernetesAttempt](_RECORDS_MAX, cycle_s=_ROUND_S)
        self._folders = Turns[AttemptKey](_FOLDERS_MAX, cycle_s=_ALL_S)
        self._retries = Turns[AttemptKey](_RETRIES_MAX, cycle_s=_ALL_S)
        self._wake = threading.Event()
        self._ends = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.callback: Callable[[Collection[AttemptKey]], None] = lambda _: None
        """The function to call with the attempts whose state may have changed."""

    @property
    def is_started(self) -> bool:
        """Whether the thread runs: a program that only reads, such as doctor, ends no attempts."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="kubernetes-orders", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """End the thread, without waiting long for a request that runs."""
        self._ends = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def add(self, keys: Collection[AttemptKey]) -> None:
        """Do what these attempts need as soon as possible, and report them."""
        with self._attempts.lock:
            self._pending.update(keys)
        self._wake.set()

    def _run(self) -> None:
        while not self._ends:
            try:
                self._work()
            except Exception:  # noqa: BLE001 - the next round may succeed
                _LOG.exception("cannot act on the cluster's last answer; retrying")
            self._wake.wait(_ROUND_S)
            self._wake.clear()

    def _work(self) -> None:
        with self._attempts.lock:
            pending, self._pending = self._pending, set()
        now_s = time.monotonic()
        grown = {row.key for row in self._records.take(self._list_open, now_s) if _has_grown(row)}
        if pending or grown:
            self.callback(pending | grown)
        pending |= grown | {*self._folders.take(self._list_keys, now_s)}
        for key in pending.union(self._retries.take(self._list_unfinished, now_s)):
            self._carry_out(key)

    def _list_open(self) -> list[KubernetesAttempt]:
        return [attempt for attempt in self._attempts.list_all() if attempt.final is None]

    def _list_keys(self) -> set[AttemptKey]:
        return {*self._cluster.list_keys(), *(row.key for row in self._list_open())}

    def _list_unfinished(self) -> set[AttemptKey]:
        """List the attempts whose work failed, and those that must be looked up or deleted."""
        failed, self._failed = self._failed, set()
        objects = self._cluster.list_keys()
        return failed.union(
            row.key
            for row in self._attempts.list_all()
            if row.wants_lookup
            or row.has_stray_secret
            or (row.key in objects and (row.must_end or row.final is not None))
        )

    def _carry_out(self, key: AttemptKey) -> None:
        if self._cluster.is_away:
            self._failed.add(key)
            return
        try:
            self._spool.check(key)
            if self._is_forgotten(key):
                self._refused.discard(key)
                return
            attempt = self._attempts.get(key)
            if attempt.wants_lookup:
                self._look_up(attempt)
            for uid in self._list_to_delete(attempt):
                self._keep_uid(attempt, uid)
                self._delete(attempt, uid)
            if attempt.has_stray_secret:
                self._delete_stray_secret(attempt)
            self._refused.discard(key)
        except ApiRefused as refusal:
            self._failed.add(key)
            self._log_refusal(key, refusal)
        except (OSError, ValueError, EngineFault) as error:
            self._failed.add(key)
            _LOG.debug("cannot carry out the order of %s: %s; retrying", key, error)

    def _log_refusal(self, key: AttemptKey, refusal: ApiRefused) -> None:
        """Log a refusal once for each attempt: it may last until an administrator acts."""
        if key not in self._refused and not refusal.is_transient:
            self._refused.add(key)
            _LOG.warning(
                "the cluster refuses a request for the attempt %s: %s; retrying", key, refusal
            )

    def _is_forgotten(self, key: AttemptKey) -> bool:
        """Return whether an attempt has no folder and no entry: its events end later than its job.

        An entry made for it would stay for ever.
        """
        has_folder = os.path.lexists(self._spool.folder(key).path)
        return self._attempts.peek(key) is None and not has_folder

    def _list_to_delete(self, attempt: KubernetesAttempt) -> list[str]:
        """List the uids of the JobSets that must not run: of an order, an end, or made again.

        A copy that a user made by another name is not one of them: it is not the server's.
        """
        if not os.path.lexists(attempt.folder.path):
            return []  # of a job whose files were removed, or of another server's spool
        self._attempts.observe(attempt.key)
        name = names.name_of(self._installation, attempt.key)
        jobsets = [row for row in self._cluster.list_jobsets(attempt.key) if row.name == name]
        if not jobsets:
            return []
        is_over = attempt.final is not None or attempt.must_end
        has_end = is_over or attempt_files.read_withdrawn(attempt.folder) is not None
        must_all_end = has_end or attempt.folder.stop_order() is not None
        return [
            jobset.uid
            for jobset in jobsets
            if not jobset.is_deleting
            and (must_all_end or (attempt.uid and jobset.uid != attempt.uid))
        ]

    def _keep_uid(self, attempt: KubernetesAttempt, uid: str) -> None:
        """Store the uid of a JobSet whose server was killed before it did: it will be gone."""
        if attempt.submitted is None or attempt.uid or not attempt.launching.acquire(timeout=0):
            return
        try:
            submission = attempt.submitted._replace(uid=uid)
            attempt_files.keep_submission(attempt.folder, submission)
            attempt.submitted = submission
        finally:
            attempt.launching.release()

    def _delete_stray_secret(self, attempt: KubernetesAttempt) -> None:
        """Delete the Secret of an attempt that has ended before it had a JobSet."""
        if not attempt.launching.acquire(timeout=0):
            return
        try:
            name = names.name_of(self._installation, attempt.key)
            delete_secret(self._client, self._namespace, name)
            attempt.is_secret_deleted = True
        finally:
            attempt.launching.release()

    def _delete(self, attempt: KubernetesAttempt, uid: str) -> None:
        now_s = time.monotonic()
        if now_s - self._deleted_s.get(uid, float("-inf")) < _DELETE_S:
            return
        self._deleted_s = {
            other: deleted_s
            for other, deleted_s in self._deleted_s.items()
            if now_s - deleted_s < _DELETE_S
        }
        name = names.name_of(self._installation, attempt.key)
        # the Secret first: a later server has no reason to look for it
        try_to_delete_secret(self._client, self._namespace, name)
        delete_jobset(self._client, self._namespace, name, uid)
        self._deleted_s[uid] = now_s

    def _look_up(self, attempt: KubernetesAttempt) -> None:
        """Request the JobSet by its name, because the lists lack it; store whether it exists."""
        name, uid = names.name_of(self._installation, attempt.key), attempt.uid
        try:
            answer = self._client.get(paths.jobset(self._namespace, name))
            is_absent = answer["metadata"]["uid"] != uid
        except ApiRefused as refusal:
            details = refusal.details or {}
            if not objects.proves_absence(refusal.status, refusal.reason, details, name):
                raise
            is_absent = True
        attempt.note_lookup(is_absent=is_absent)
        self.callback([attempt.key])


def _has_grown(attempt: KubernetesAttempt) -> bool:
    """Return whether the records have grown since the last call."""
    try:
        size = os.lstat(attempt.folder.records).st_size
    except OSError:
        size = -1
    old_size, attempt.records_size = attempt.records_size, size
    return size not in {old_size, -1}
