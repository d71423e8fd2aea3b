"""An engine that runs nothing: nodes, attempts and their ends, as its script says.

It stands for the outside world, so it outlives the controllers of a test, remembers every call,
and knows what must never happen: an attempt started twice, two attempts of one job at once, a node
with more replicas than it holds.  Thousands of attempts are cheap: time is read, not waited for.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from trainshed.engines.base import (
    SIGNAL_BASE,
    AttemptKey,
    Observation,
    Outcome,
    Phase,
    ReplicaExit,
)
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resources import Node, Seat

_SIGTERM = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What becomes of an attempt.  Times are seconds from its launch; None is never."""

    ready_s: float = 0.0
    runs_s: float | None = 0.0
    """From ready to the end."""
    exit_code: int = 0
    fault: str | None = None
    """Why ``launch`` refuses it."""
    message: str = ""


@dataclass(slots=True)
class _Attempt:
    script: Script
    replicas: tuple[tuple[Seat, str], ...]
    began: float
    ended: Observation | None = None
    ready: Observation | None = None


@dataclass(slots=True)
class _World:
    """What was asked, and what is."""

    attempts: dict[AttemptKey, _Attempt] = field(default_factory=dict)
    live: dict[int, AttemptKey] = field(default_factory=dict)
    stopped: set[AttemptKey] = field(default_factory=set)
    load: Counter[str] = field(default_factory=Counter)


class FakeEngine:
    """Simulated nodes; safe for threads, and for several controllers at once."""

    name = "fake"

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        script: Callable[[AttemptKey, LaunchPlan], Script] = lambda _key, _plan: Script(),
        monotonic: Callable[[], float] = time.monotonic,
        stranger: Phase = Phase.UNKNOWN,
    ) -> None:
        """Nothing runs yet; ``script`` is asked once an attempt.

        ``stranger`` is what it says of attempts that nobody launched or stopped: an engine whose
        attempts are files or objects may take an absent one for LOST.
        """
        self._nodes = tuple(nodes)
        self._slots = {node.name: node.slots for node in nodes}
        self._script = script
        self._monotonic = monotonic
        self._stranger = stranger
        self._lock = threading.RLock()
        self._world = _World()
        self.launches: Counter[AttemptKey] = Counter()
        """Calls of ``launch``, also repeated ones."""
        self.stops: Counter[AttemptKey] = Counter()
        self.violations: list[str] = []
        """What must never happen, and did."""
        self.unreachable = False
        """While True it answers UNKNOWN, and takes no launch or stop."""
        self.launch_s = 0.0
        """How slow a launch is."""

    # what the controller asks

    def nodes(self) -> Sequence[Node]:
        """The fleet as it was given."""
        return self._nodes

    def launch(self, key: AttemptKey, plan: LaunchPlan, seats: Sequence[Seat]) -> None:
        """Start an attempt unless it was started or stopped before.  Raises EngineFault."""
        self._reach()
        if self.launch_s:
            time.sleep(self.launch_s)
        with self._lock:
            self.launches[key] += 1
            if key in self._world.attempts or key in self._world.stopped:
                return
            script = self._script(key, plan)
            if script.fault is not None:
                raise EngineFault(script.fault)
            self._start(key, script, _named(plan, seats))

    def stop(self, key: AttemptKey, grace_s: float) -> None:  # noqa: ARG002 - nothing takes time
        """End an attempt; one that never started will not."""
        self._reach()
        with self._lock:
            self.stops[key] += 1
            self._world.stopped.add(key)
            attempt = self._world.attempts.get(key)
            if attempt is not None:
                self._observe_one(key)
                if attempt.ended is None:
                    self._end(key, attempt, SIGNAL_BASE + _SIGTERM, stopped=True)

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """What has become of these attempts."""
        if self.unreachable:
            return [Observation(key=key, phase=Phase.UNKNOWN) for key in keys]
        with self._lock:
            return [self._observe_one(key) for key in keys]

    # what a test does to the world

    def end(self, key: AttemptKey, exit_code: int = 0) -> None:
        """Let all replicas of a running attempt end now."""
        with self._lock:
            self._end(key, self._world.attempts[key], exit_code, stopped=False)

    def lose(self, key: AttemptKey) -> None:
        """Let an attempt vanish without a record, as a machine does that loses its power."""
        with self._lock:
            attempt = self._world.attempts[key]
            attempt.ended = Observation(key=key, phase=Phase.LOST, fault="the machine was lost")
            self._free(key, attempt)

    @property
    def running(self) -> Collection[AttemptKey]:
        """The attempts that live now."""
        with self._lock:
            for key in tuple(self._world.live.values()):
                self._observe_one(key)
            return tuple(self._world.live.values())

    def _reach(self) -> None:
        if self.unreachable:
            raise ConnectionError("the engine does not answer")

    def _start(
        self, key: AttemptKey, script: Script, replicas: tuple[tuple[Seat, str], ...]
    ) -> None:
        before = self._world.live.get(key.uid)
        if before is not None and self._observe_one(before).phase in _ALIVE:
            self.violations.append(f"{key} was started while {before} ran")
        self._world.attempts[key] = _Attempt(script, replicas, self._monotonic())
        self._world.live[key.uid] = key
        for seat, _ in replicas:
            self._world.load[seat.node] += 1
            if self._world.load[seat.node] > self._slots.get(seat.node, 0):
                self._settle()
                if self._world.load[seat.node] > self._slots.get(seat.node, 0):
                    self.violations.append(f"{seat.node} holds too much with {key}")

    def _settle(self) -> None:
        """Let what is over by now be over, before anything is called a violation."""
        for key in tuple(self._world.live.values()):
            self._observe_one(key)

    def _observe_one(self, key: AttemptKey) -> Observation:
        attempt = self._world.attempts.get(key)
        if attempt is None:
            return self._never_started(key)
        if attempt.ended is not None:
            return attempt.ended
        if attempt.ready is not None and attempt.script.runs_s is None:
            return attempt.ready
        script, age = attempt.script, self._monotonic() - attempt.began
        if age < script.ready_s:
            return Observation(key=key, phase=Phase.STARTING)
        if script.runs_s is not None and age >= script.ready_s + script.runs_s:
            return self._end(key, attempt, script.exit_code, stopped=False)
        if attempt.ready is None:
            names = tuple(name for _, name in attempt.replicas)
            attempt.ready = Observation(key=key, phase=Phase.READY, task_names=names)
        return attempt.ready

    def _never_started(self, key: AttemptKey) -> Observation:
        if key not in self._world.stopped:
            return Observation(key=key, phase=self._stranger)
        outcome = Outcome(exit_code=SIGNAL_BASE + _SIGTERM, replicas=(), message="stopped early")
        return Observation(key=key, phase=Phase.ENDED, outcome=outcome)

    def _end(
        self, key: AttemptKey, attempt: _Attempt, exit_code: int, *, stopped: bool
    ) -> Observation:
        seconds = self._monotonic() - attempt.began
        exits = tuple(
            ReplicaExit(
                role=seat.role,
                index=seat.index,
                task_name=name,
                exit_code=None if stopped else exit_code if at == 0 else 0,
                signal=_SIGTERM if stopped else None,
                seconds=seconds,
                stopped_by_us=stopped,
            )
            for at, (seat, name) in enumerate(attempt.replicas)
        )
        text = attempt.script.message or f"the job ended with {exit_code}"
        outcome = Outcome(exit_code=exit_code, replicas=exits, message=text, last_words=text)
        attempt.ended = Observation(key=key, phase=Phase.ENDED, outcome=outcome)
        self._free(key, attempt)
        return attempt.ended

    def _free(self, key: AttemptKey, attempt: _Attempt) -> None:
        if self._world.live.get(key.uid) == key:
            del self._world.live[key.uid]
        for seat, _ in attempt.replicas:
            self._world.load[seat.node] -= 1


_ALIVE = frozenset({Phase.STARTING, Phase.READY})


def _named(plan: LaunchPlan, seats: Sequence[Seat]) -> tuple[tuple[Seat, str], ...]:
    """The seats in the order of the plan, each with the name of its replica."""
    by_replica = {(seat.role, seat.index): seat for seat in seats}
    return tuple(
        (by_replica[replica.role, replica.index], replica.task_name) for replica in plan.replicas
    )
