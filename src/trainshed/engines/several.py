"""The engines of a server, looked up by name or by attempt; an engine that fails stops no other.

The seats or the claim of a launch name the engine of an attempt, and ``Engines`` remembers it.
For attempts that an earlier process launched, ``Engines`` reads the name from the store.
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

#: How many attempts ``Engines`` remembers; beyond it, it reads their engines from the store again.
_REMEMBERED_MAX: Final = 100_000
#: How long ``Engines.close`` waits for all engines together (seconds).
_CLOSE_S: Final = 2.0
#: The traits of an engine that this server runs without; no caller reads its ``python``.
_ABSENT: Final = Traits(reach=NodeLocation.ANY, python="")

#: Returns the names of attempts' engines; an empty name stands for the first engine.
EnginesOf = Callable[[Collection[AttemptKey]], Mapping[AttemptKey, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedEngine:
    """An engine with its configuration."""

    engine: Engine
    regions: tuple[str, ...] = ()
    """The regions that the engine serves; all if empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Wishes of its jobs; labels of a job override them."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Interpreters on its nodes by the names of environments."""


class Engines:
    """The engines of a server by name, in the configured order."""

    def __init__(
        self, served: Mapping[str, ServedEngine], failed: Mapping[str, Explanation] | None = None
    ) -> None:
        """``served`` has at least one engine; ``failed`` has the reasons why others do not run."""
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
    def from_engine(cls, engine: Engine) -> "Engines":
        """Return the engines of a server that has only this one."""
        return cls({engine.name: ServedEngine(engine=engine)})

    def __iter__(self) -> Iterator[Engine]:
        return (entry.engine for entry in self.served.values())

    def set_lookup(self, find: EnginesOf) -> None:
        """Set the lookup for the engines of attempts that this process did not launch."""
        self._find = find

    @property
    def nearest(self) -> Engine:
        """The engine that runs jobs on the server's machine; if there is none, the first."""
        here = (engine for engine in self if engine.traits.reach is NodeLocation.THIS_MACHINE)
        return next(here, self.served[self.first].engine)

    @property
    def are_several(self) -> bool:
        """Whether a server has several engines, so that output must name the engine of a node."""
        return len(self.served) + len(self.failed) > 1

    def find_by_name(self, name: str) -> Engine | None:
        """Return the engine of this name; the first one if empty; None if the server has none."""
        served = self.served.get(self._current_name(name))
        return served.engine if served else None

    def get_by_name(self, name: str) -> Engine:
        """Return the engine of this name.  Raises OSError if this server runs without it."""
        engine = self.find_by_name(name)
        if engine is None:
            raise OSError(errno.EAGAIN, self._without(name))
        return engine

    def get_by_attempt(self, key: AttemptKey) -> Engine:
        """Return the engine of an attempt.  Raises OSError if this server runs without it."""
        return self.get_by_name(self.name_of(key))

    def name_of(self, key: AttemptKey) -> str:
        """Return the name of the engine of an attempt."""
        return self._names_of([key])[key]

    def name_at(self, place: SeatsOrClaim) -> str:
        """Return the name of the engine that has these seats or gets this claim."""
        if isinstance(place, Claim):
            return place.engine or self.first
        return next((seat.engine for seat in place if seat.engine), self.first)

    def assign(self, key: AttemptKey, place: SeatsOrClaim) -> Engine:
        """Remember the engine of a place as the attempt's, and return it for the launch.

        Raises OSError if this server runs without it.
        """
        name = self.name_at(place)
        engine = self.get_by_name(name)
        self._remember(key, name)
        if isinstance(place, Claim):
            self.waits.handed_over(key)
        return engine

    def traits_of(self, name: str) -> Traits:
        """Return the traits of an engine; the defaults if this server runs without it."""
        engine = self.find_by_name(name)
        return engine.traits if engine else _ABSENT

    def are_seats_on(self, node: Node) -> bool:
        """Whether the server places jobs on a node: its engine runs here and has no queue."""
        return node.engine in self.served and self.traits_of(node.engine).places is PlacedBy.SERVER

    def check_health(self, name: str) -> Explanation | None:
        """Return why an engine does not work, and since when; None: it works."""
        if why := self.failed.get(name):
            return why
        silent: Explanation | None = _silent(name)
        fault = self._ask_engine(name, "health", lambda engine: engine.health(), silent)
        return self._with_since(name, fault)

    def check_healths(self) -> Mapping[str, Explanation | None]:
        """Return why each engine does not work, by name; None: it works."""
        return {name: self.check_health(name) for name in (*self.served, *self.failed)}

    @property
    def job_folders(self) -> tuple[Path, ...]:
        """The job folders of engines besides the server's own."""
        folders = (engine.traits.jobs for engine in self)
        return tuple(dict.fromkeys(filter(None, folders)))

    def list_offered(self) -> tuple[OfferedEngine, ...]:
        """Return the engines among which a job's engine is chosen."""
        return tuple(
            OfferedEngine(name=name, regions=entry.regions, away=self.check_health(name))
            for name, entry in self.served.items()
        )

    def resolve_wishes(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the wishes that an engine gets with a job: its labels, then the configuration."""
        served = self.served.get(name)
        return wishes(labels, served.labels if served else None)

    def make_judge(
        self, needs: JobNeeds, never: Callable[[JobDemand], Explanation | None]
    ) -> Callable[[str], Explanation | None]:
        """Return a function that says why the engine of a name can never run the job.

        ``never`` checks the nodes on which the server places jobs.
        """

        def judge(name: str) -> Explanation | None:
            theirs = replace(needs, wants=self.resolve_wishes(name, needs.wants))
            why = self._ask_engine(name, "judge", lambda engine: engine.judge(theirs), None)
            if why or self.traits_of(name).places is PlacedBy.ENGINE:
                return why
            return never(replace(needs.demand, engine=name))

        return judge

    def list_nodes(self, name: str) -> Sequence[Node] | None:
        """Return the nodes of an engine; None: it does not answer now."""

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
        """Close all engines at the same time, and wait up to two seconds."""
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

    def _close(self, name: str) -> None:
        try:
            self.served[name].engine.close()
        except Exception:  # noqa: BLE001 - other engines must still work
            _LOG.exception("cannot close the engine %s", name)

    def _without(self, name: str) -> str:
        why = self.failed.get(name)
        message = f"this server runs without the engine {name}"
        return f"{message}: {why.message}" if why else message

    def _names_of(self, keys: Collection[AttemptKey]) -> dict[AttemptKey, str]:
        # one lookup each: another thread may clear the dictionary meanwhile
        names = {key: name for key in keys if (name := self._of.get(key)) is not None}
        if unknown := [key for key in keys if key not in names]:
            for key, name in self._find(unknown).items():
                names[key] = name
                self._remember(key, name)
        return {key: self._current_name(names.get(key, "")) for key in keys}

    def _current_name(self, name: str) -> str:
        """Return the present name of an engine: attempts keep the name of their launch.

        An engine that the configuration did not name then had the name of its kind.
        """
        if not name:
            return self.first
        return name if name in self.served or name in self.failed else self._own.get(name, name)

    def _remember(self, key: AttemptKey, name: str) -> None:
        if len(self._of) >= _REMEMBERED_MAX:
            self._of.clear()
        self._of[key] = name

    def _observe(self, name: str, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        if self.find_by_name(name) is None:
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
        """Return the answer of an engine; log a failure once, until the engine answers again."""
        engine = self.get_by_name(name)
        try:
            answer = ask(engine)
        except Exception:  # noqa: BLE001 - other engines must still work
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
