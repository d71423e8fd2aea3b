"""A simulated attempt: its replicas begin, report and end according to its script."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trainshed.model.attempt import (
    AttemptKey,
    Hang,
    Loss,
    Measured,
    Observation,
    Outcome,
    Phase,
    ReplicaExit,
    Report,
)
from trainshed.model.exit_status import SIGNAL_BASE
from trainshed.model.explanation import Explanation
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.reduction_report import ReductionReport
from trainshed.model.resources import Seat
from trainshed.model.step_times import StepTimes
from trainshed.model.stopping import StopOrder

_SIGKILL: Final = 9
_SIGTERM: Final = 15
_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The course of an attempt.  Times are seconds from its launch; None: never."""

    ready_s: float = 0.0
    runs_s: float | None = 0.0
    """Seconds from ready to the end; None: no end of its own."""
    exit_code: int = 0
    signal: int | None = None
    """The signal that ends the primary, instead of an exit code."""
    oom: bool = False
    """Whether the primary ran out of memory."""
    fault: str | None = None
    """Why ``launch`` refuses the attempt permanently; None: accepted."""
    refused: Explanation | None = None
    """Why ``launch`` refuses the attempt for now; None: accepted."""
    queue_s: float = 0.0
    """Seconds that the attempt waits in the engine's queue even if there is room."""
    waits: Explanation | None = None
    """The reason that the engine reports while the attempt waits."""
    message: str = ""
    notice_s: float | None = 0.0
    """Seconds from a notice to the end of all replicas; None: they must be killed."""
    reports: tuple[tuple[float, Report], ...] = ()
    """(seconds after ready, report), in order of time; reports after the end are dropped."""
    reduction: ReductionReport | None = None
    """The report of the workers' exchanges, after the end."""
    steps: StepTimes | None = None
    """The report of the primary's steps, after the end."""
    ended_s: float | None = None
    """When the attempt ended, by its own clock (``model.attempt.Observation``)."""
    search_note: str = ""
    """The note on the search for reports (``model.attempt.Measured``)."""


@dataclass(slots=True)
class FakeAttempt:
    """A started attempt.  ``now`` is the engine's clock; the simulation never sleeps."""

    key: AttemptKey
    script: Script
    replicas: Sequence[tuple[Seat, str]]
    """The seats with the replicas' names; the first replica decides the outcome."""
    began: float
    placed: tuple[Seat, ...] = ()
    """The seats that the engine's own queue gave to the attempt."""
    ended: Observation | None = None
    _ready: Observation | None = None
    _hung: tuple[Hang, ...] = ()
    _noticed_at: float | None = None
    _kill_at: float = field(default=_NEVER)
    _over_at: float = field(default=_NEVER)

    def look(self, now: float) -> Observation:
        """Return the observation at a time; the attempt has not ended before."""
        if self._ready is not None and self.script.runs_s is None and self._noticed_at is None:
            return self._ready
        if now >= min(self._own_end, self._ordered_end):
            if self._own_end < self._ordered_end:
                number = self.script.signal
                code = SIGNAL_BASE + number if number else self.script.exit_code
                return self.end(self._own_end, code, signal=number, oom=self.script.oom)
            return self._end_by_order(now)
        if now - self.began < self.script.ready_s:
            return Observation(key=self.key, phase=Phase.STARTING)
        if self._ready is None:
            names = tuple(name for _, name in self.replicas)
            self._ready = Observation(
                key=self.key, phase=Phase.READY, task_names=names, hung=self._hung
            )
        return self._ready

    def measured(self, now: float, after: int) -> Measured:
        """Return the reports until now or the end; a mark is the number of reports read so far."""
        end_time = min(now, self._over_at, self._own_end, self._ordered_end)
        all_reports, ready = self.script.reports, self.began + self.script.ready_s
        mark = after
        while mark < len(all_reports) and ready + all_reports[mark][0] <= end_time:
            mark += 1
        reports = tuple(report for _, report in all_reports[after:mark])
        return Measured(mark=mark, reports=reports, found=self.script.search_note)

    def stop(self, now: float, order: StopOrder) -> None:
        """Give notice; a second order never gives more time."""
        if self._noticed_at is None:
            self._noticed_at = now
        self._kill_at = min(self._kill_at, now + order.grace_s)

    def hang(self, hung: tuple[Hang, ...]) -> None:
        """Make exactly these replicas hang."""
        self._hung, self._ready = hung, None

    def end(self, now: float, exit_code: int, **fields: Any) -> Observation:
        """End the attempt without an order; ``fields`` are fields of the primary's exit."""
        first, *rest = self._exits(now)
        code = None if fields.get("signal") else exit_code
        exits = (first._replace(exit_code=code, **fields), *rest)
        self._over_at = now
        return self._over(exit_code, exits)

    def lose(self, now: float, ran_s: float | None, loss: Loss | None = None) -> Observation:
        """Lose the attempt without a record, as after a power failure."""
        self._over_at = now
        self.ended = Observation(
            key=self.key,
            phase=Phase.LOST,
            fault=lost_by(loss, self.replicas[0][0].node),
            ran_s=ran_s,
            loss=loss,
            reduction=self.script.reduction,
            steps=self.script.steps,
            ended_s=self.script.ended_s,
        )
        return self.ended

    @property
    def _own_end(self) -> float:
        runs_s = self.script.runs_s
        return _NEVER if runs_s is None else self.began + self.script.ready_s + runs_s

    @property
    def _ordered_end(self) -> float:
        if self._noticed_at is None:
            return _NEVER
        notice_s = self.script.notice_s
        return (
            self._kill_at if notice_s is None else min(self._kill_at, self._noticed_at + notice_s)
        )

    def _end_by_order(self, now: float) -> Observation:
        """End by order; kill replicas that did not honour the notice."""
        since = now if self._noticed_at is None else self._noticed_at
        notice_s = self.script.notice_s
        killed = notice_s is None or since + notice_s > self._ordered_end
        signum = _SIGKILL if killed else _SIGTERM
        exit_fields: dict[str, Any] = {
            "exit_code": None,
            "signal": signum,
            "stopped_by_us": True,
            "killed": killed,
            "notice_s": self._ordered_end - since,
        }
        exits = tuple(replica._replace(**exit_fields) for replica in self._exits(now))
        self._over_at = self._ordered_end
        return self._over(SIGNAL_BASE + _SIGTERM, exits, interrupted=True)

    def _exits(self, now: float) -> tuple[ReplicaExit, ...]:
        return tuple(
            ReplicaExit(
                role=seat.role,
                index=seat.index,
                task_name=name,
                exit_code=0,
                signal=None,
                seconds=now - self.began,
                stopped_by_us=False,
            )
            for seat, name in self.replicas
        )

    def _over(
        self, exit_code: int, exits: tuple[ReplicaExit, ...], *, interrupted: bool = False
    ) -> Observation:
        text = self.script.message or f"the job ended with {exit_code}"
        outcome = Outcome(
            exit_code=exit_code,
            replicas=exits,
            message=text,
            last_words=text,
            interrupted=interrupted,
        )
        self.ended = Observation(
            key=self.key,
            phase=Phase.ENDED,
            outcome=outcome,
            reduction=self.script.reduction,
            steps=self.script.steps,
            ended_s=self.script.ended_s,
        )
        return self.ended


def lost_by(loss: Loss | None, node: str) -> str:
    """Return why an attempt was lost, as a sentence."""
    why = {Loss.MAINTENANCE: f"{node} is drained", Loss.LIMIT: "its time on the cluster was over"}
    return why.get(loss, "the machine was lost") if loss else "the machine was lost"


def never_started(key: AttemptKey) -> Observation:
    """Return the observation of an attempt that was stopped before its launch."""
    outcome = Outcome(
        exit_code=SIGNAL_BASE + _SIGTERM, replicas=(), message="stopped early", interrupted=True
    )
    return Observation(key=key, phase=Phase.ENDED, outcome=outcome)


def name_seats(plan: LaunchPlan, seats: Sequence[Seat]) -> tuple[tuple[Seat, str], ...]:
    """Return the seats in the order of the plan, each with the name of its replica."""
    by_replica = {(seat.role, seat.index): seat for seat in seats}
    return tuple(
        (by_replica[replica.role, replica.index], replica.task_name) for replica in plan.replicas
    )
