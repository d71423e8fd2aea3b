"""Finds living attempts in the store: by their key, or by a connection of their processes."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from trainshed.engines.base import AttemptAt, Endpoint
from trainshed.engines.several import Engines
from trainshed.model.attempt import AttemptKey
from trainshed.model.bounded import BoundedDict
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.store.base import StoreFault
from trainshed.store.records.jobs import Holding, JobRecord

#: How long, in seconds, an ended attempt may still count as living.
REMEMBERED_S: Final = 1.0
#: The most attempts in the cache.
_REMEMBERED_MAX: Final = 4096


class JobQueries(Protocol):
    """The part of the store that this module uses."""

    def holding(self) -> Sequence[Holding]:
        """Return the attempts that hold places now."""

    def job_by_uid(self, uid: int) -> JobRecord | None:
        """Return the job of a uid; None if it does not exist."""

    def project(self, id_or_number: str) -> tuple[str, str]:
        """Return the (id, number) of a project."""


class AttemptsOfStore:
    """Looks attempts up; caches the results for ``REMEMBERED_S`` seconds."""

    def __init__(self, store: JobQueries, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._cache = BoundedDict[AttemptKey, tuple[float, LivingAttempt | None]](_REMEMBERED_MAX)

    def __call__(self, key: AttemptKey) -> LivingAttempt | None:
        """Return the attempt; None if it has ended.  Raises StoreFault."""
        now = self._clock()
        until, attempt = self._cache.get(key, (0.0, None))
        if now < until:
            return attempt
        try:
            attempt = self._look_up(key)
        except StoreFault:  # a remembered job keeps its access while the database is away
            if attempt is None:
                raise
        with self._lock:
            self._cache[key] = (now + REMEMBERED_S, attempt)
        return attempt

    def is_remembered(self, key: AttemptKey) -> bool:
        """Whether the cache has the attempt, so that no query is needed."""
        return self._clock() < self._cache.get(key, (0.0, None))[0]

    def _look_up(self, key: AttemptKey) -> LivingAttempt | None:
        record = self._store.job_by_uid(key.uid)
        if record is None or record.attempt != key.attempt:
            return None
        job = record.job
        if job.status.state.waits or job.status.state.is_final:
            return None
        project, number = self._store.project(job.project)
        return LivingAttempt(
            key=key,
            job_id=job.job_id,
            project=project,
            project_number=number,
            location=job.location,
        )


class AttemptOfPeer:
    """Finds the attempt of a connection, also if the engine does not know the attempt yet.

    After a restart the server asks the engine about running attempts only once it has their leases;
    without this class their programs would be refused until then.
    """

    def __init__(
        self,
        store: JobQueries,
        engines: Engines,
        attempt_at: AttemptAt,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``attempt_at`` is the engine's look-up of a connection."""
        self._store = store
        self._engines = engines
        self._attempt_at = attempt_at
        self._clock = clock
        self._looked_at = -REMEMBERED_S

    def __call__(self, peer: Endpoint, local: Endpoint) -> AttemptKey | None:
        """Return the attempt; None if the connection is of no attempt.  Raises StoreFault."""
        key = self._attempt_at(peer, local)
        if key is not None or not self._may_query():
            return key
        running = [AttemptKey(holding.uid, holding.attempt) for holding in self._store.holding()]
        self._engines.observe(running)
        return self._attempt_at(peer, local)

    def _may_query(self) -> bool:
        """Whether enough time has passed: programs that are not attempts may ask at any rate."""
        now = self._clock()
        if now - self._looked_at < REMEMBERED_S:
            return False
        self._looked_at = now
        return True
