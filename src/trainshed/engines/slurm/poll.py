"""Polls Slurm for all jobs in one thread, more often while jobs change; other threads read."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from trainshed.engines.slurm.commands import SlurmRefuses
from trainshed.engines.slurm.nodes import ClusterState
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.queue import VERSION_MIN, Queue
from trainshed.model.explanation import Explanation, Reason

_LOG = logging.getLogger(__name__)

#: The shortest time between two polls, and how long it applies after a change.
FAST_S: Final = 1.0
FOLLOW_S: Final = 15.0
#: Seconds between two rounds of reading records and orders, which need no command.
TICK_S: Final = 0.2
#: Seconds between two queries of the nodes.
NODES_S: Final = 30.0
_CLOSE_S: Final = 1.5


class LastAnswer(NamedTuple):
    """The last answer of Slurm."""

    rows: Mapping[str, Sequence[SlurmJob]] = {}
    """The rows of each job, by its number, in the order of its components."""
    number: int = 0
    """Number of answers so far; 0: Slurm has not answered yet."""
    is_away: bool = False
    is_up: bool = True
    """Whether the controller answered a ping, if expected jobs were missing."""


class Poller:
    """Keeps Slurm's answers.  ``work`` is called between polls; True: a job is changing."""

    def __init__(
        self,
        queue: Queue,
        *,
        gres: Mapping[str, str],
        rest_s: float,
        work: Callable[[], bool],
        news: Callable[[], None],
    ) -> None:
        """``rest_s``: seconds between polls while no job changes; ``news`` is called on changes."""
        self._queue = queue
        self._gres = gres
        self._rest_s = rest_s
        self._work = work
        self._news = news
        self._wake = threading.Event()
        self._ends = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._work_fails = False
        self._follow_until_s = 0.0
        self._asked_s = float("-inf")
        self._nodes_s = float("-inf")
        self._away_since_s: float | None = None
        self._why = ""
        self._missing = frozenset[str]()
        self._is_old = ""
        self.last_answer = LastAnswer()
        self.cluster = ClusterState(gres=gres)
        self.answered_s: float | None = None
        """Time of Slurm's last answer, by the system clock."""

    def start(self) -> None:
        """Start polling, if it is not started."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="slurm-poll", daemon=True)
                self._thread.start()

    @property
    def is_started(self) -> bool:
        """Whether the polling thread runs."""
        return self._thread is not None

    def follow(self) -> None:
        """Poll more often for a while, after an order or a submission."""
        self._follow_until_s = time.monotonic() + FOLLOW_S
        self._wake.set()

    def miss(self, jobs: frozenset[str]) -> None:
        """Set the expected jobs; if an answer lacks one, the poller pings the controller."""
        self._missing = jobs

    def health(self) -> Explanation | None:
        """Explain why Slurm does not answer, and since when."""
        if self._is_old:
            return Explanation(reason=Reason.ENGINE_AWAY, message=self._is_old)
        since = self._away_since_s
        if since is None:
            return None
        clock = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(since))
        return Explanation(
            reason=Reason.ENGINE_AWAY, message=f"Slurm has not answered since {clock}: {self._why}"
        )

    def close(self) -> None:
        """End the thread, without waiting long for a command that runs."""
        self._ends = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _loop(self) -> None:
        while not self._ends:
            try:
                self._round()
            except Exception:  # noqa: BLE001 - the next poll may succeed
                _LOG.exception("polling Slurm failed")
            self._wake.wait(TICK_S)
            self._wake.clear()

    def _round(self) -> None:
        if self._run_work():
            self._follow_until_s = max(self._follow_until_s, time.monotonic() + 2 * FAST_S)
        now_s = time.monotonic()
        pause_s = FAST_S if now_s < self._follow_until_s else self._rest_s
        if now_s - self._asked_s >= pause_s:
            self._asked_s = now_s
            self._ask()

    def _run_work(self) -> bool:
        """Return whether a job is changing.  An error is logged, so that polling continues."""
        try:
            moves = self._work()
        except Exception:  # noqa: BLE001 - the next try may succeed
            if not self._work_fails:
                _LOG.exception("cannot act on Slurm's last answer")
            self._work_fails = True
            return False
        self._work_fails = False
        return moves

    def _ask(self) -> None:
        try:
            self._look()
        except (OSError, SlurmRefuses) as error:
            self._fail(str(error))
            return
        if self._away_since_s is not None:
            _LOG.warning("Slurm answers again")
            self._away_since_s = None
            self._news()
        self.answered_s = time.time()

    def _look(self) -> None:
        if time.monotonic() - self._nodes_s >= NODES_S or self._away_since_s is not None:
            self._look_at_nodes()
        rows_by_job: defaultdict[str, list[SlurmJob]] = defaultdict(list)
        for row in self._queue.jobs():
            rows_by_job[row.id].append(row)
        rows = {
            job: sorted(parts, key=lambda row: row.component) for job, parts in rows_by_job.items()
        }
        is_up = not (self._missing - rows.keys()) or self._queue.is_up()
        has_news = rows != self.last_answer.rows
        self.last_answer = LastAnswer(rows, self.last_answer.number + 1, is_up=is_up)
        if has_news:
            self._follow_until_s = max(self._follow_until_s, time.monotonic() + FOLLOW_S)
            self._news()

    def _look_at_nodes(self) -> None:
        version = self._queue.version()
        is_old = version is not None and version < VERSION_MIN
        self._is_old = f"Slurm must be {_text(VERSION_MIN)} or newer, got {_text(version)}" \
            if is_old and version else ""  # fmt: skip
        self.cluster = self._queue.cluster(self._gres)
        self._nodes_s = time.monotonic()

    def _fail(self, why: str) -> None:
        is_new = self._away_since_s is None
        self._why = why if is_new else self._why  # the caller stores each new message
        self._away_since_s = self._away_since_s or time.time()
        self.last_answer = self.last_answer._replace(is_away=True)
        if is_new:
            _LOG.warning("Slurm does not answer: %s", why)
            with suppress(Exception):
                self._news()


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]:02}"
