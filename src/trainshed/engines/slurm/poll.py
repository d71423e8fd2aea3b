"""Polls Slurm for all jobs in one thread, more often while jobs begin, move or end."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.reachability import Reachability
from trainshed.engines.slurm import states
from trainshed.engines.slurm.commands import SlurmRefuses
from trainshed.engines.slurm.nodes import ClusterState
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.queue import VERSION_MIN, Queue
from trainshed.model.explanation import Explanation, Reason

_LOG = logging.getLogger(__name__)

#: Seconds between two polls while jobs move, and seconds after a move with such polls.
FAST_S: Final = 1.0
FOLLOW_S: Final = 15.0
#: Seconds between two calls of ``work``, which reads records and orders without a command.
TICK_S: Final = 0.2
#: Seconds between two queries of the nodes.
NODES_S: Final = 30.0
#: Seconds between two queries of the cluster's configuration and of Slurm's release.
CONFIG_S: Final = 600.0
_CLOSE_S: Final = 1.5


class LastAnswer(NamedTuple):
    """The last answer of Slurm."""

    rows: Mapping[str, Sequence[SlurmJob]] = {}
    """The rows of each job, by its number, in the order of its components."""
    number: int = 0
    """Number of answers so far; 0: Slurm has not answered yet."""
    is_away: bool = False
    """Whether Slurm did not answer a later query."""
    is_up: bool = True
    """Whether the controller answered a ping; pinged only if expected jobs were missing."""


class Poller:
    """Keeps Slurm's last answer, for all threads."""

    def __init__(  # noqa: PLR0913 - keyword arguments of one caller
        self,
        queue: Queue,
        *,
        gres: Mapping[str, Sequence[str]],
        rest_s: float,
        work: Callable[[], bool],
        news: Callable[[], None],
        list_expected: Callable[[], frozenset[str]],
    ) -> None:
        """``rest_s``: seconds between polls while no job changes.

        ``work`` is called between polls and returns whether a job is changing; ``news`` is called
        when Slurm's answer has changed.  ``list_expected`` lists the jobs that an answer should
        have; if it lacks one, the controller is pinged.
        """
        self._queue = queue
        self._gres = gres
        self._rest_s = rest_s
        self._work = work
        self._news = news
        self._list_expected = list_expected
        self._wake = threading.Event()
        self._has_polled = threading.Event()
        self._ends = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._work_fails = False
        self._follow_until_s = 0.0
        self._polled_s = float("-inf")
        self._nodes_s = float("-inf")
        self._config_s = float("-inf")
        self._config = ""
        self._reachability = Reachability("Slurm")
        self._without_starts: Mapping[str, Sequence[SlurmJob]] = {}
        self._version_fault = ""
        self.last_answer = LastAnswer()
        self.cluster = ClusterState(gres=gres)

    def start(self) -> None:
        """Start the polling thread, unless it runs."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="slurm-poll", daemon=True)
                self._thread.start()

    @property
    def answered_s(self) -> float | None:
        """Time of Slurm's last answer, by the system clock; None: no answer yet."""
        return self._reachability.answered_s

    @property
    def is_started(self) -> bool:
        """Whether the polling thread runs."""
        return self._thread is not None

    def await_first(self, seconds: float) -> bool:
        """Wait until the first poll has ended, with an answer or without; False: it has not."""
        return self._has_polled.wait(seconds)

    def follow(self) -> None:
        """Poll more often for a while, after an order or a submission."""
        self._follow_until_s = time.monotonic() + FOLLOW_S
        self._wake.set()

    def health(self) -> Explanation | None:
        """Explain why Slurm does not answer, and since when; None: Slurm answers."""
        if self._version_fault:
            return Explanation(reason=Reason.ENGINE_AWAY, message=self._version_fault)
        return self._reachability.explain()

    def close(self) -> None:
        """End the thread, without waiting long for a command that runs."""
        self._ends = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _loop(self) -> None:
        while not self._ends:
            try:
                self._poll_if_due()
            except Exception:  # noqa: BLE001 - the next poll may succeed
                _LOG.exception("polling Slurm failed; retrying")
            self._wake.wait(TICK_S)
            self._wake.clear()

    def _poll_if_due(self) -> None:
        if self._run_work():
            self._follow_until_s = max(self._follow_until_s, time.monotonic() + 2 * FAST_S)
        now_s = time.monotonic()
        pause_s = FAST_S if now_s < self._follow_until_s else self._rest_s
        if now_s - self._polled_s >= pause_s:
            self._polled_s = now_s
            try:
                self._poll()
            finally:
                self._has_polled.set()

    def _run_work(self) -> bool:
        """Call ``work``; return whether a job is changing.  An error is logged: polling goes on."""
        try:
            is_changing = self._work()
        except Exception:  # noqa: BLE001 - the next try may succeed
            if not self._work_fails:
                _LOG.exception("cannot act on Slurm's last answer; retrying")
            self._work_fails = True
            return False
        self._work_fails = False
        return is_changing

    def _poll(self) -> None:
        try:
            self._read_jobs()
        except (OSError, SlurmRefuses) as error:
            self.last_answer = self.last_answer._replace(is_away=True)
            if self._reachability.note_failure(str(error)):
                with suppress(Exception):
                    self._news()
            return
        if self._reachability.note_answer():
            self._news()

    def _read_jobs(self) -> None:
        if time.monotonic() - self._nodes_s >= NODES_S or self._reachability.away_since_s:
            self._read_nodes()
        expected = self._list_expected()
        rows_by_job: defaultdict[str, list[SlurmJob]] = defaultdict(list)
        for row in self._queue.jobs():
            rows_by_job[row.id].append(row)
        rows = {
            job: sorted(parts, key=lambda row: row.component) for job, parts in rows_by_job.items()
        }
        is_up = not (expected - rows.keys()) or self._queue.is_up()
        without_starts = {
            job: [row.without_start() for row in parts] for job, parts in rows.items()
        }
        change = states.compare_answers(self._without_starts, without_starts)
        self._without_starts = without_starts
        self.last_answer = LastAnswer(rows, self.last_answer.number + 1, is_up=is_up)
        if change.is_moving:
            self._follow_until_s = max(self._follow_until_s, time.monotonic() + FOLLOW_S)
        if change.has_news:
            self._news()

    def _read_nodes(self) -> None:
        is_old = time.monotonic() - self._config_s >= CONFIG_S
        if is_old or self._reachability.away_since_s:  # a new controller may have another one
            self._version_fault = _explain_version(self._queue.version())
            self._config = self._queue.config()
            self._config_s = time.monotonic()
        self.cluster = self._queue.cluster(self._gres, self._config)
        self._nodes_s = time.monotonic()


def _explain_version(version: tuple[int, int] | None) -> str:
    """Return why a release of Slurm is refused; empty: it is accepted, or unknown."""
    if version is None or version >= VERSION_MIN:
        return ""
    accepted, actual = _format_version(VERSION_MIN), _format_version(version)
    return f"Slurm must be {accepted} or newer, got {actual}"


def _format_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]:02}"
