"""A simulated engine: nodes, attempts and their ends follow a script.

The engine stands for the outside world, so it outlives the controllers of a test, records every
call, and detects violations: an attempt started twice, two attempts of one job at once, a node with
more replicas than it can hold.  Thousands of attempts are cheap: the engine reads the clock, and
never sleeps, not even between a notice and the end.

With ``places=PlacedBy.ENGINE`` the engine has its own queue, in which an attempt waits for the time
in its script and until the nodes have room for all its replicas.
"""

import math
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trainshed.engines.base import (
    FilesystemView,
    JobNeeds,
    LaunchRefused,
    ListedAttempt,
    LivingProcess,
    NodeLocation,
    PlacedBy,
    ReplicaShape,
    Traits,
)
from trainshed.model.attempt import ALIVE, AttemptKey, Hang, Loss, Measured, Observation, Phase
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Address, LaunchPlan
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import Claim, Node, Seat, SeatsOrClaim
from trainshed.model.step_times import StepTimes
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.model.usage import UsageLine
from trainshed.testing.fake_attempt import (
    FakeAttempt,
    Script,
    lost_by,
    name_seats,
    never_started,
)

__all__ = ["FakeEngine", "Script"]

_PORT: Final = 2222
_NEXT: Final = Explanation(
    reason=Reason.ENGINE_QUEUE, message="The nodes that could hold the attempt are in use."
)


@dataclass(frozen=True, slots=True)
class _Queued:
    """An attempt in the engine's own queue."""

    script: Script
    plan: LaunchPlan
    since: float


@dataclass(slots=True)
class _World:
    """The recorded calls, and the simulated state."""

    attempts: dict[AttemptKey, FakeAttempt] = field(default_factory=dict)
    live: dict[int, AttemptKey] = field(default_factory=dict)
    queue: dict[AttemptKey, _Queued] = field(default_factory=dict)
    gone: dict[AttemptKey, Observation] = field(default_factory=dict)
    """Attempts that were lost from the queue."""
    stopped: set[AttemptKey] = field(default_factory=set)
    load: Counter[str] = field(default_factory=Counter)


class FakeEngine:
    """Simulated nodes; safe for threads, and for several controllers at once."""

    name = "fake"

    def __init__(  # noqa: PLR0913 - the options of tests
        self,
        nodes: Sequence[Node],
        *,
        script: Callable[[AttemptKey, LaunchPlan], Script] = lambda _key, _plan: Script(),
        monotonic: Callable[[], float] = time.monotonic,
        stranger: Phase = Phase.UNKNOWN,
        places: PlacedBy = PlacedBy.SERVER,
        launches_at_once: int = 1,
        enqueued_max: int | None = None,
    ) -> None:
        """Start nothing; ``script`` is called once for each attempt.

        ``stranger`` is the phase of attempts that were never launched or stopped: a real engine may
        report UNKNOWN or LOST.  ``places``, ``launches_at_once`` and ``enqueued_max`` are traits.
        """
        self._nodes = tuple(nodes)
        self._slots = {node.name: node.slots for node in nodes}
        self._script = script
        self._monotonic = monotonic
        self._stranger = stranger
        self._lock = threading.RLock()
        self._world = _World()
        self.launches: Counter[AttemptKey] = Counter()
        """Calls of ``launch``, including repeated ones."""
        self.started: Counter[AttemptKey] = Counter()
        """Replicas that have begun to run."""
        self.stops: Counter[AttemptKey] = Counter()
        self.orders: defaultdict[AttemptKey, list[StopOrder]] = defaultdict(list)
        """Calls of ``stop``, in order."""
        self.violations: list[str] = []
        """Sentences on the violations that the engine detected."""
        self.unreachable = False
        """While True the engine reports UNKNOWN, and refuses launches and stops."""
        self.launch_s = 0.0
        """Seconds that a launch takes."""
        self.usage: defaultdict[AttemptKey, list[UsageLine]] = defaultdict(list)
        """The lines that ``read_usage`` returns, by attempt."""
        self.leftovers: set[AttemptKey] = set()
        """Attempts with a living process without a supervisor."""
        self.queue_max: int | None = None
        """The largest number of attempts in the engine's own queue; None: no limit."""
        self.is_busy = False
        """While True the engine's own queue starts no attempt."""
        self.is_empty = False
        """While True the engine's own queue reports that it is empty."""
        self.traits = Traits(
            reach=NodeLocation.ANY,
            python=sys.executable,
            places=places,
            launches_at_once=launches_at_once,
            enqueued_max=enqueued_max,
            orders_nodes="fakectl drain NODE" if places is PlacedBy.ENGINE else None,
        )
        self._callback: Callable[[Collection[AttemptKey]], None] = lambda _keys: None

    # called by the controller

    def fleet(self) -> Sequence[Node]:
        """Return the nodes that the constructor got."""
        return self._nodes

    def sight(
        self, key: AttemptKey, shape: Sequence[ReplicaShape], layout: NetworkLayout | None = None
    ) -> FilesystemView:
        """Return a view in which every replica has its own host; its folders do not exist."""
        del layout
        attempts = [f"/jobs/{key.uid}/{number}" for number in range(1, key.attempt + 1)]
        return FilesystemView(
            addresses={
                (role, index): Address(
                    host=f"{role.value}-{index}", port=_PORT, rendezvous_port=_PORT + ports
                )
                for role, index, ports in shape
            },
            work=f"{attempts[-1]}/work",
            exchange=f"{attempts[-1]}/exchange",
            metrics=f"{attempts[-1]}/metrics",
            earlier=tuple(f"{earlier}/work" for earlier in attempts[:-1]),
            buckets="/buckets",
        )

    def health(self) -> Explanation | None:
        """Return ENGINE_AWAY while the engine is unreachable, else None."""
        if not self.unreachable:
            return None
        return Explanation(reason=Reason.ENGINE_AWAY, message=f"The engine {self.name} is away.")

    def judge(self, needs: JobNeeds) -> None:
        """Refuse nothing: a job may wait for nodes to be added."""
        del needs

    def manifest(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> Mapping[str, str]:
        """Return the command of each replica, by task name."""
        del key, place
        return {replica.task_name: " ".join(replica.argv) for replica in plan.replicas}

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Start an attempt unless it was started or stopped before.

        Raises EngineFault, and LaunchRefused if its own queue does not accept it.
        """
        self._reach()
        if isinstance(place, Claim) is not (self.traits.places is PlacedBy.ENGINE):
            raise EngineFault(
                f"{self.name} must get a place by {self.traits.places.value}, got {place}"
            )
        if self.launch_s:
            time.sleep(self.launch_s)
        with self._lock:
            self.launches[key] += 1
            if self._knows(key):
                return
            script = self._script(key, plan)
            if script.fault is not None:
                raise EngineFault(script.fault)
            if isinstance(place, Claim):
                self._enqueue(key, script, plan)
            else:
                self._start(FakeAttempt(key, script, name_seats(plan, place), self._monotonic()))

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """Give an attempt notice; an attempt that has not started never starts."""
        self._reach()
        with self._lock:
            self.stops[key] += 1
            self.orders[key].append(order)
            self._world.stopped.add(key)
            self._world.queue.pop(key, None)
            if self._observe_one(key).phase in ALIVE:
                self._world.attempts[key].stop(self._monotonic(), order)
                self._observe_one(key)

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """Return the observations of these attempts."""
        if self.unreachable or self.is_empty:  # an empty queue proves nothing
            return [Observation(key=key, phase=Phase.UNKNOWN) for key in keys]
        with self._lock:
            return [self._observe_one(key) for key in keys]

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """Return the reports of an attempt until now.  Raises ConnectionError."""
        self._reach()
        with self._lock:
            self._observe_one(key)
            attempt = self._world.attempts.get(key)
            if attempt is None:
                return Measured(mark=after)
            return attempt.measured(self._monotonic(), after)

    def read_usage(
        self, key: AttemptKey, since_s: float = -math.inf, until_s: float = math.inf
    ) -> Sequence[UsageLine]:
        """Return the lines in ``usage``.  Raises ConnectionError."""
        self._reach()
        with self._lock:
            return [line for line in self.usage.get(key, ()) if since_s <= line.at <= until_s]

    def read_newest_usage(self, key: AttemptKey, after_s: float = -math.inf) -> Sequence[UsageLine]:
        """Return the last lines in ``usage``.  Raises ConnectionError."""
        return [line for line in self.read_usage(key) if line.at > after_s][-16:]

    def read_newest_steps(self, key: AttemptKey) -> Sequence[UsageLine]:
        """Return the last lines in ``usage`` with steps.  Raises ConnectionError."""
        lines = self.read_usage(key)
        return [line for line in lines if any(r.step for r in line.replicas.values())][-16:]

    def read_steps(self, key: AttemptKey, task_name: str) -> StepTimes | None:
        """Return the steps of the attempt's script, which are those of its first replica."""
        with self._lock:
            attempt = self._world.attempts.get(key)
            is_first = attempt is not None and attempt.replicas[0][1] == task_name
            return attempt.script.steps if attempt is not None and is_first else None

    def list_attempts(self) -> Sequence[ListedAttempt]:
        """Return every launched attempt, and leftovers of a test.  Raises ConnectionError."""
        self._reach()
        with self._lock:
            keys = (*self._world.queue, *self._world.attempts)
            phases = {key: self._observe_one(key).phase for key in keys}
            phases |= dict.fromkeys(self.leftovers, Phase.UNKNOWN)
            return [
                ListedAttempt(
                    key, phase, (LivingProcess(key, 1, "fake"),) if self._lives(key) else ()
                )
                for key, phase in sorted(phases.items())
            ]

    def forget(self, uid: int) -> bool:
        """Drop all attempts of a job that is over.  Raises ConnectionError."""
        self._reach()
        with self._lock:
            world = self._world
            attempts = {*world.queue, *world.gone, *world.attempts, *world.stopped, *self.leftovers}
            keys = [key for key in attempts if key.uid == uid]
            if any(self._lives(key) or not self._admit(key) for key in keys):
                return False
            for key in keys:
                self._world.attempts.pop(key, None)
                self._world.gone.pop(key, None)
                self._world.stopped.discard(key)
                self.usage.pop(key, None)
            return True

    def listen(self, callback: Callable[[Collection[AttemptKey]], None]) -> None:
        """Set the function that is called with the keys of attempts that a test ends."""
        self._callback = callback

    def close(self) -> None:
        """Do nothing: there are no threads."""

    # called by tests

    def end(self, key: AttemptKey, exit_code: int = 0, **fields: Any) -> None:
        """End all replicas of a running attempt now, as if they ended by themselves.

        ``fields`` are fields of the primary's exit, such as ``signal`` and ``oom``.
        """
        with self._lock:
            self._world.attempts[key].end(self._monotonic(), exit_code, **fields)
            self._free(self._world.attempts[key])
        self._callback((key,))

    def lose(self, key: AttemptKey, ran_s: float | None = None, loss: Loss | None = None) -> None:
        """Make an attempt vanish without a record, as after a power failure.

        ``ran_s``: the longest time that it can have run, if known.  ``loss``: the reason, if
        known.  An attempt that waits in the engine's own queue is removed from the queue.
        """
        with self._lock:
            if self._world.queue.pop(key, None):
                removed = "another user has removed it from the queue"
                why = lost_by(loss, "its partition") if loss else removed
                observation = Observation(key=key, phase=Phase.LOST, fault=why, loss=loss)
                self._world.gone[key] = observation
            else:
                self._world.attempts[key].lose(self._monotonic(), ran_s, loss)
                self._free(self._world.attempts[key])
        self._callback((key,))

    def interrupt(self, key: AttemptKey) -> None:
        """Stop a running attempt without an order of a controller."""
        with self._lock:
            order = StopOrder(grace_s=0.0, reason=StopReason.END)
            self._world.attempts[key].stop(self._monotonic(), order)
            self._observe_one(key)

    def hang(self, key: AttemptKey, *hung: Hang) -> None:
        """Make exactly these replicas of a running attempt hang; without any, all continue."""
        with self._lock:
            self._world.attempts[key].hang(hung)

    def explain(self, key: AttemptKey, waits: Explanation | None) -> None:
        """Change the reason of an attempt that waits in its own queue."""
        with self._lock:
            queued = self._world.queue[key]
            self._world.queue[key] = replace(queued, script=replace(queued.script, waits=waits))
        self._callback((key,))

    @property
    def enqueued(self) -> Collection[AttemptKey]:
        """Return the attempts that wait in the engine's own queue now."""
        with self._lock:
            return tuple(key for key in tuple(self._world.queue) if not self._admit(key))

    @property
    def running(self) -> Collection[AttemptKey]:
        """Return the attempts that live now."""
        with self._lock:
            self._settle()
            return tuple(self._world.live.values())

    def _reach(self) -> None:
        if self.unreachable:
            raise ConnectionError("the engine does not answer")

    def _knows(self, key: AttemptKey) -> bool:
        world = self._world
        return any(
            key in collection
            for collection in (world.attempts, world.stopped, world.queue, world.gone)
        )

    def _enqueue(self, key: AttemptKey, script: Script, plan: LaunchPlan) -> None:
        if script.refused is not None:
            raise LaunchRefused(script.refused)
        if self.queue_max is not None and len(self.enqueued) >= self.queue_max:
            message = f"{self.name} accepts {self.queue_max} jobs at once."
            raise LaunchRefused(Explanation(reason=Reason.ENGINE_FULL, message=message))
        before = self._world.live.get(key.uid)
        if before is not None and self._observe_one(before).phase in ALIVE:
            self.violations.append(f"{key} was enqueued while {before} ran")
        self._world.queue[key] = _Queued(script, plan, self._monotonic())

    def _admit(self, key: AttemptKey) -> bool:
        """Whether an attempt is not queued; first start it if all its replicas have room."""
        queued = self._world.queue.get(key)
        if queued is None:
            return True
        if self.is_busy or self._monotonic() < queued.since + queued.script.queue_s:
            return False
        seats = self._seats(queued.plan)
        if seats is None:
            return False
        del self._world.queue[key]
        replicas = name_seats(queued.plan, seats)
        self._start(FakeAttempt(key, queued.script, replicas, self._monotonic(), placed=seats))
        return True

    def _seats(self, plan: LaunchPlan) -> tuple[Seat, ...] | None:
        room = [name for name in self._slots for _ in range(self._free_slots(name))]
        if len(room) < len(plan.replicas):
            return None
        return tuple(
            Seat(role=replica.role, index=replica.index, node=node, engine=self.name)
            for replica, node in zip(plan.replicas, room, strict=False)
        )

    def _free_slots(self, name: str) -> int:
        return max(0, self._slots[name] - self._world.load[name])

    def _start(self, attempt: FakeAttempt) -> None:
        key = attempt.key
        before = self._world.live.get(key.uid)
        if before is not None and self._observe_one(before).phase in ALIVE:
            self.violations.append(f"{key} was started while {before} ran")
        self._world.attempts[key] = attempt
        self._world.live[key.uid] = key
        self.started[key] += len(attempt.replicas)
        for seat, _ in attempt.replicas:
            self._world.load[seat.node] += 1
            if self._world.load[seat.node] > self._slots.get(seat.node, 0):
                self._settle()
                if self._world.load[seat.node] > self._slots.get(seat.node, 0):
                    self.violations.append(f"{seat.node} has more replicas than slots with {key}")

    def _lives(self, key: AttemptKey) -> bool:
        return key in self.leftovers or self._observe_one(key).phase in ALIVE

    def _settle(self) -> None:
        """Apply ends that are due, before violations are checked."""
        for key in tuple(self._world.live.values()):
            self._observe_one(key)

    def _observe_one(self, key: AttemptKey) -> Observation:
        if key in self._world.queue and not self._admit(key):
            waits = self._world.queue[key].script.waits or _NEXT
            return Observation(key=key, phase=Phase.WAITING, waits=waits)
        attempt = self._world.attempts.get(key)
        if attempt is None:
            if key in self._world.gone:
                return self._world.gone[key]
            if key in self._world.stopped:
                return never_started(key)
            return Observation(key=key, phase=self._stranger)
        observation = attempt.ended
        if observation is None:
            observation = attempt.look(self._monotonic())
            if attempt.ended is not None:
                self._free(attempt)
        return observation._replace(placed=attempt.placed) if attempt.placed else observation

    def _free(self, attempt: FakeAttempt) -> None:
        if self._world.live.get(attempt.key.uid) == attempt.key:
            del self._world.live[attempt.key.uid]
        for seat, _ in attempt.replicas:
            self._world.load[seat.node] -= 1
