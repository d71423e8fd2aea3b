"""The engines of a server, looked up by name or by an attempt; one that fails stops no other.

The seats or the claim of a launch name the engine.  Later callers get the engine that the attempt
is known to have; after a restart the store knows it.
"""

import errno
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from trainshed.engines.base import Engine, JobNeeds, NodeLocation, PlacedBy, Traits
from trainshed.engines.waits import QueueWaits
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.labels import OfferedEngine, wishes
from trainshed.model.resources import Claim, JobDemand, Node, SeatsOrClaim

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Attempts whose engines are remembered; beyond it the store is asked again.
_REMEMBERED_MAX: Final = 100_000
#: How long the end waits for all of them together (seconds).
_CLOSE_S: Final = 2.0
#: The traits of an engine that this server runs without; no caller reads its ``python``.
_ABSENT: Final = Traits(reach=NodeLocation.ANY, python="")

#: The engines of attempts by name, as far as they are known; empty: of the first.
EnginesOf = Callable[[Collection[AttemptKey]], Mapping[AttemptKey, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedEngine:
    """An engine with what the configuration says of it."""

    engine: Engine
    regions: tuple[str, ...] = ()
    """The regions that it serves; all if empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Wishes that its jobs have unless their own labels say otherwise."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Interpreters on its nodes by the names of environments."""


class Engines:
    """The engines of a server by name, in the configured order."""

    def __init__(
        self, served: Mapping[str, ServedEngine], failed: Mapping[str, Explanation] | None = None
    ) -> None:
        """``served`` has one at least; ``failed`` could not be made, and say why."""
        self.served = dict(served)
        self.failed = dict(failed or {})
        self.first = next(iter(self.served))
        """The name of the engine of attempts that name none."""
        self.waits = QueueWaits()
        self._own = {entry.engine.name: name for name, entry in self.served.items()}
        self._find: EnginesOf = lambda _: {}
        self._of: dict[AttemptKey, str] = {}
        self._since: dict[str, tuple[Reason, float]] = {}
        self._silent: set[tuple[str, str]] = set()

    @classmethod
    def only(cls, engine: Engine) -> "Engines":
        """The lookup of a server with one engine."""
        return cls({engine.name: ServedEngine(engine=engine)})

    def __iter__(self) -> Iterator[Engine]:
        return (entry.engine for entry in self.served.values())

    def ask(self, find: EnginesOf) -> None:
        """Set the lookup for the engines of attempts that this process did not launch."""
        self._find = find

    @property
    def nearest(self) -> Engine:
        """The engine on the server's machine; where there is none, the first."""
        here = (engine for engine in self if engine.traits.reach is NodeLocation.THIS_MACHINE)
        return next(here, self.served[self.first].engine)

    @property
    def are_several(self) -> bool:
        """Whether people must know of which engine a node is."""
        return len(self.served) + len(self.failed) > 1

    def named(self, name: str) -> Engine | None:
        """The engine of a name; empty: the first.  None: this server runs without it."""
        served = self.served.get(self._current_name(name))
        return served.engine if served else None

    def serving(self, name: str) -> Engine:
        """The engine of a name.  Raises OSError where this server runs without it."""
        engine = self.named(name)
        if engine is None:
            raise OSError(errno.EAGAIN, self._without(name))
        return engine

    def of(self, key: AttemptKey) -> Engine:
        """The engine of an attempt.  Raises OSError where this server runs without it."""
        return self.serving(self.name_of(key))

    def name_of(self, key: AttemptKey) -> str:
        """The name of the engine of an attempt."""
        return self._names_of([key])[key]

    def name_at(self, place: SeatsOrClaim) -> str:
        """The name of the engine of a gang: it is on one."""
        if isinstance(place, Claim):
            return place.engine or self.first
        return next((seat.engine for seat in place if seat.engine), self.first)

    def assign(self, key: AttemptKey, place: SeatsOrClaim) -> Engine:
        """Remember the engine of a place as the attempt's, and return it for the launch.

        Raises OSError where this server runs without it.
        """
        name = self.name_at(place)
        engine = self.serving(name)
        self._remember(key, name)
        if isinstance(place, Claim):
            self.waits.handed_over(key)
        return engine

    def traits_of(self, name: str) -> Traits:
        """The traits of an engine; the defaults for one that this server runs without."""
        engine = self.named(name)
        return engine.traits if engine else _ABSENT

    def are_seats_on(self, node: Node) -> bool:
        """Whether the server places jobs on a node: its engine is served and has no queue."""
        return node.engine in self.served and self.traits_of(node.engine).places is PlacedBy.SERVER

    def health_of(self, name: str) -> Explanation | None:
        """What keeps one engine from working, with since when."""
        if why := self.failed.get(name):
            return why
        silent: Explanation | None = _silent(name)
        fault = self._ask_engine(name, "health", lambda engine: engine.health(), silent)
        return self._with_since(name, fault)

    def healths(self) -> Mapping[str, Explanation | None]:
        """What keeps each engine from working; None: it is well."""
        return {name: self.health_of(name) for name in (*self.served, *self.failed)}

    @property
    def jobs(self) -> tuple[Path, ...]:
        """The folders of jobs that engines have beside the server's own."""
        folders = (engine.traits.jobs for engine in self)
        return tuple(dict.fromkeys(filter(None, folders)))

    def offered(self) -> tuple[OfferedEngine, ...]:
        """All that this server runs with, to the choice of one for a job."""
        return tuple(
            OfferedEngine(name=name, regions=entry.regions, away=self.health_of(name))
            for name, entry in self.served.items()
        )

    def wishes(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """The wishes with which a job goes to an engine."""
        served = self.served.get(name)
        return wishes(labels, served.labels if served else None)

    def judging(
        self, needs: JobNeeds, never: Callable[[JobDemand], Explanation | None]
    ) -> Callable[[str], Explanation | None]:
        """Why each engine can never hold a job.

        ``never`` judges by the nodes whose places the server gives out.
        """

        def judge(name: str) -> Explanation | None:
            theirs = replace(needs, wants=self.wishes(name, needs.wants))
            why = self._ask_engine(name, "judge", lambda engine: engine.judge(theirs), None)
            if why or self.traits_of(name).places is PlacedBy.ENGINE:
                return why
            return never(replace(needs.demand, engine=name))

        return judge

    def fleet_of(self, name: str) -> Sequence[Node] | None:
        """The nodes of one engine; None: it cannot say now."""

        def look(engine: Engine) -> Sequence[Node] | None:
            return [replace(node, engine=name) for node in engine.fleet()]

        return self._ask_engine(name, "fleet", look, None)

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """Ask each engine for its own attempts; those of an engine that fails are UNKNOWN."""
        by_engine: defaultdict[str, list[AttemptKey]] = defaultdict(list)
        for key, name in self._names_of(keys).items():
            by_engine[name].append(key)
        return [
            observation
            for name, theirs in by_engine.items()
            for observation in self._observe(name, theirs)
        ]

    def close(self) -> None:
        """Close all at once: each has its own two seconds, and so have all."""
        if len(self.served) == 1:
            self.served[self.first].engine.close()
            return
        closing = [
            threading.Thread(target=self._close, args=(name,), daemon=True, name=f"close-{name}")
            for name in self.served
        ]
        for thread in closing:
            thread.start()
        until = time.monotonic() + _CLOSE_S
        for thread in closing:
            thread.join(max(0.0, until - time.monotonic()))

    # within

    def _close(self, name: str) -> None:
        try:
            self.served[name].engine.close()
        except Exception:  # noqa: BLE001 - one engine's fault is not the others'
            _LOG.exception("cannot close the engine %s", name)

    def _without(self, name: str) -> str:
        why = self.failed.get(name)
        message = f"this server runs without the engine {name}"
        return f"{message}: {why.message}" if why else message

    def _names_of(self, keys: Collection[AttemptKey]) -> dict[AttemptKey, str]:
        # looked up once: what is remembered may be forgotten meanwhile, here or by another thread
        names = {key: name for key in keys if (name := self._of.get(key)) is not None}
        if unknown := [key for key in keys if key not in names]:
            for key, name in self._find(unknown).items():
                names[key] = name
                self._remember(key, name)
        return {key: self._current_name(names.get(key, "")) for key in keys}

    def _current_name(self, name: str) -> str:
        """What an engine is called now: attempts keep the name under which they were launched.

        One that was there before it had a table of its own was called as its kind.
        """
        if not name:
            return self.first
        return name if name in self.served or name in self.failed else self._own.get(name, name)

    def _remember(self, key: AttemptKey, name: str) -> None:
        if len(self._of) >= _REMEMBERED_MAX:
            self._of.clear()
        self._of[key] = name

    def _observe(self, name: str, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        if self.named(name) is None:
            why = Explanation(reason=Reason.ENGINE_AWAY, message=self._without(name))
            return [Observation(key=key, phase=Phase.UNKNOWN, waits=why) for key in keys]
        unknown: Sequence[Observation] = [Observation(key=key, phase=Phase.UNKNOWN) for key in keys]
        observations = self._ask_engine(
            name, "observe", lambda engine: engine.observe(keys), unknown
        )
        self.waits.record(name, observations)
        return [
            observation._replace(
                placed=tuple(replace(seat, engine=name) for seat in observation.placed)
            )
            if observation.placed and observation.placed[0].engine != name
            else observation
            for observation in observations
        ]

    def _ask_engine(self, name: str, what: str, ask: Callable[[Engine], T], otherwise: T) -> T:
        """The answer of one engine; what it cannot say is logged once, until it can again."""
        engine = self.serving(name)
        try:
            answer = ask(engine)
        except Exception:  # noqa: BLE001 - one engine's fault is not the others'
            if (name, what) not in self._silent:
                self._silent.add((name, what))
                _LOG.exception("cannot ask the engine %s for its %s", name, what)
            return otherwise
        self._silent.discard((name, what))
        return answer

    def _with_since(self, name: str, fault: Explanation | None) -> Explanation | None:
        if fault is None:
            self._since.pop(name, None)
            return None
        if fault.since_s is not None:
            return fault
        before = self._since.get(name)
        if before is None or before[0] is not fault.reason:
            before = self._since[name] = (fault.reason, time.time())
        return replace(fault, since_s=before[1])


def _silent(name: str) -> Explanation:
    return Explanation(reason=Reason.ENGINE_AWAY, message=f"the engine {name} does not answer")
