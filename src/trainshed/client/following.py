"""Follows a job to its end: the reasons why it waits, its log lines, and its exit code.

The server may restart meanwhile.  Time stamps of lines ascend, so the client resumes a broken
stream after the last line.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trainshed.client.collections import FINAL_STATES, WAITING_STATES, native_path
from trainshed.client.faults import Json, ServerRefusal, Unreachable

if TYPE_CHECKING:
    from trainshed.client.http import Server

#: Seconds to wait until a server that does not answer answers again.
RETURN_S_MAX: Final = 60.0
PAUSE_S_MIN: Final = 0.05
PAUSE_S_MAX: Final = 1.0
PAUSE_GROWTH: Final = 1.5

#: A shell's exit code for a program that a signal ended is this number plus the signal's.
SIGNAL_BASE: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSelection:
    """The lines of a log to read; None: no such limit."""

    task: str | None = None
    trial: str | None = None
    """The number of a trial of a tuning job."""
    tail: int | None = None
    """The number of lines written so far with which to begin."""
    from_line: int | None = None
    """The number of the first line, from 1."""
    text: str | None = None
    """What lines must have; capital and small letters are equal."""
    is_expression: bool = False
    """Whether the text is a regular expression of RE2."""

    @property
    def query(self) -> dict[str, object]:
        """Return the parameters of a request."""
        return {
            "task": self.task,
            "trial": self.trial,
            "tail": self.tail,
            "fromLine": self.from_line,
            "q": self.text,
            "regex": "true" if self.is_expression else None,
        }


ALL_LINES: Final = LineSelection()


@dataclass(slots=True)
class FollowedJob:
    """Follows the job at a native path.  ``note`` prints messages about the connection."""

    server: "Server"
    path: str
    note: Callable[[str], None]
    pause: Callable[[float], Any] = time.sleep
    _was_reached: bool = field(default=False, init=False)

    def lines(self, selection: LineSelection = ALL_LINES) -> Iterator[Json]:
        """Yield the log lines of the job until it has ended.

        Raises ServerRefusal, and Unreachable for a server that does not answer again.
        """
        resume_time = last_time = ""
        while True:
            query = {"follow": "true", **selection.query}
            if resume_time:  # the numbers of lines shift when old ones are removed
                query |= {"tail": None, "fromLine": None}
            try:
                for line in self.server.lines(f"{self.path}/logs", query):
                    self._was_reached = True
                    if line["time"] > resume_time:  # in a stream an event may be late
                        last_time = max(last_time, line["time"])
                        yield line
            except Unreachable:
                self._wait_for_return()
                resume_time = last_time
            else:
                return

    def until_placed(self) -> Iterator[Json]:
        """Yield why the job waits in the queue, whenever the reason changes."""
        last = None
        for job in self.states():
            if job["state"] not in WAITING_STATES:
                return
            waiting = job.get("waiting", {})
            if waiting.get("reason") != "NOT_LOOKED_AT" and waiting.get("message") != last:
                last = waiting.get("message")
                yield waiting

    def states(self) -> Iterator[Json]:
        """Yield the job repeatedly, until it has ended."""
        pause_s = PAUSE_S_MIN
        while True:
            job = self.job()
            yield job
            if job["state"] in FINAL_STATES:
                return
            self.pause(pause_s)
            pause_s = min(pause_s * PAUSE_GROWTH, PAUSE_S_MAX)

    def end(self) -> Json:
        """Wait for the end of the job and return the job."""
        *_, job = self.states()
        return job

    def job(self) -> Json:
        """Read the job.  Raises ServerRefusal, and Unreachable as ``lines`` does."""
        while True:
            try:
                job = self.server.call("GET", self.path)
            except Unreachable:
                self._wait_for_return()
            else:
                self._was_reached = True
                return job

    def _wait_for_return(self) -> None:
        """Wait until a server answers again, or raise the Unreachable that is being handled."""
        if not self._was_reached:
            raise  # noqa: PLE0704  # it is being handled
        self.note(
            "the server does not answer; retrying for a minute: the job continues, and no log line "
            "is lost"
        )
        until = time.monotonic() + RETURN_S_MAX
        while True:
            self.pause(PAUSE_S_MAX)
            try:
                self.server.call("GET", self.path)
            except Unreachable:
                if time.monotonic() > until:
                    raise
            else:
                return


def exit_code_of(job: Json) -> int:
    """Return 0 for a job that succeeded, else the exit code of the replica that decided its end.

    The deciding replica is the primary if it failed, else the first other replica that failed.  A
    replica that a signal ended has the exit code 128 plus the signal.
    """
    if job["state"] == "SUCCEEDED":
        return 0
    failed = [r for r in job.get("replicas", ()) if r.get("state") == "FAILED"]
    decided: Json = min(failed, key=lambda r: r.get("role") != "primary", default={})
    if decided.get("signal"):
        return SIGNAL_BASE + int(decided["signal"])
    return int(decided.get("exitCode") or 1)


#: Status codes of servers without this path: Google's, and old versions of Trainshed.
_MISSING_PATH: Final = frozenset({404, 501})


#: The number of trials of a full page of the native API.
TRIALS_PER_PAGE: Final = 5000


@dataclass(slots=True)
class NativeTrials:
    """Reads the trials of a tuning job from the native API, if the server has this API."""

    server: "Server"
    path: str
    _response: Json = field(default_factory=dict, init=False)
    _is_available: bool = field(default=True, init=False)

    def read(self) -> Json:
        """Return the newest response, empty if the server has no such path.  Raises ServerRefusal.

        If the server is unreachable, return the last response at once: the caller waits for the
        server when it reads the study.
        """
        try:
            if self._is_available:
                self._response = self._read_all()
        except Unreachable:
            pass
        except ServerRefusal as refusal:
            if refusal.http_status not in _MISSING_PATH:
                raise
            self._is_available = False
        return self._response

    def _read_all(self) -> Json:
        """Return all trials: one response has at most ``TRIALS_PER_PAGE`` of them."""
        response = self.server.call("GET", self.path)
        trials = page = response.get("trials", [])
        while len(page) >= TRIALS_PER_PAGE:
            last = page[-1]["number"]
            page = self.server.call("GET", f"{self.path}?after={last}").get("trials", [])
            trials = [*trials, *page]
        return {**response, "trials": trials}


def native_study(server: "Server", name: str, project: str) -> Json:
    """Return the native API's description of a tuning job; empty if the server has no such path.

    Raises ServerRefusal and Unreachable.
    """
    try:
        return server.call("GET", f"{native_path(name, project)}/study")
    except ServerRefusal as refusal:
        if refusal.http_status not in _MISSING_PATH:
            raise
        return {}


def native_trials(server: "Server", name: str, project: str) -> NativeTrials:
    """Return the trials of a tuning job by its id or its full name."""
    return NativeTrials(server, f"{native_path(name, project)}/trials")
