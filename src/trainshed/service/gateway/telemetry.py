"""Answers what programs send to Cloud Logging and Cloud Monitoring.

Programs that log with Google's client do not look at answers, so every write succeeds.  The job's
log has the lines, or says once that the server drops them.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from trainshed.model.attempt import AttemptKey
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.service.gateway.places import LOGGING_HOST, MONITORING_HOST
from trainshed.store.records.steps import NewEvent, StoredEvent
from trainshed.wire.logging_v2.written import WrittenLine

#: The kind of the event about dropped telemetry.
KIND: Final = "TELEMETRY_DROPPED"
_SENTENCES: Final[Mapping[str, str]] = {
    LOGGING_HOST: (
        "The program writes to Cloud Logging; this server does not keep the lines. To have them in "
        'the logs of jobs, an administrator sets telemetry = "log" under [gateway].'
    ),
    MONITORING_HOST: "The program writes to Cloud Monitoring; this server does not keep the data.",
}
#: For how many attempts the server remembers that it notified them.
_REMEMBERED_MAX: Final = 4096

#: Writes a sentence to the story of an attempt's job.
Tell = Callable[[LivingAttempt, str], None]
#: Writes lines into the log of an attempt; returns whether it could.
Keep = Callable[[AttemptKey, Sequence[WrittenLine]], bool]


#: The task name of these lines in the job's log.
TASK: Final = "cloud-logging"


class Telemetry:
    def __init__(self, tell: Tell, keep: Keep | None = None) -> None:
        """``keep`` None: no line is kept."""
        self._tell = tell
        self._keep = keep
        self._lock = threading.Lock()
        self._notified: set[tuple[AttemptKey, str]] = set()

    @property
    def keeps(self) -> bool:
        """Whether the server stores log lines."""
        return self._keep is not None

    def take(self, peer: LivingAttempt, host: str, lines: Sequence[WrittenLine] = ()) -> bool:
        """Take a write to one of the two hosts; False: the program should send it again."""
        if host == LOGGING_HOST and self._keep is not None:
            return self._keep(peer.key, lines)
        with self._lock:
            if (peer.key, host) in self._notified:
                return True
            if len(self._notified) >= _REMEMBERED_MAX:
                self._notified.clear()
            self._notified.add((peer.key, host))
        self._tell(peer, _SENTENCES[host])
        return True


class JobStories(Protocol):
    """The part of the store that this module uses."""

    def add_event(self, uid: int, event: NewEvent) -> None:
        """Add a sentence to a job's story."""

    def events(self, uid: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """Return the events of a job's story in order."""


def tell_in_story(store: JobStories) -> Tell:
    """Return a function that writes a sentence once, over all restarts of job and server."""

    def tell(peer: LivingAttempt, sentence: str) -> None:
        if all(event.message != sentence for event in _events(store, peer.key.uid)):
            data = {"severity": "WARNING"}
            store.add_event(peer.key.uid, NewEvent(kind=KIND, message=sentence, data=data))

    return tell


def _events(store: JobStories, uid: int) -> Iterator[StoredEvent]:
    seq = 0
    while events := store.events(uid, after=seq):
        yield from events
        seq = events[-1].seq
