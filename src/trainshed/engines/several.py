"""The engines of a server, by name or by attempt; a failed engine does not stop the others.

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

#: Maximum of attempts in memory; above this, ``Engines`` reads the names from the store again.
_REMEMBERED_MAX: Final = 100_000
#: The maximum time that ``Engines.close`` waits for all engines together, in seconds.
_CLOSE_S: Final = 2.0
#: The traits of an engine that this server runs without; no caller reads its ``python``.
_ABSENT: Final = Traits(reach=NodeLocation.ANY, python="")

#: Returns the name of each attempt's engine; an empty name stands for the first engine.
EnginesOf = Callable[[Collection[AttemptKey]], Mapping[AttemptKey, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedEngine:
    """An engine with its configuration."""

    engine: Engine
    regions: tuple[str, ...] = ()
    """The regions that the engine serves; empty: all regions."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that jobs of this engine get; a label of a job overrides the same label here."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """Paths of interpreters on the nodes of the engine, by the names of environments."""


class Engines:
    """The engines of a server by name, in the configured order."""

    def __init__(
        self, served: Mapping[str, ServedEngine], failed: Mapping[str, Explanation] | None = None
    ) -> None:
        """``served`` has at least one engine; ``failed`` has the reasons why others do not run."""
        self.served = dict(served)
        self.failed = dict(failed or {})
        self.first = next(iter(self.served))
        """The name of the first engine, which runs the attempts that name no engine."""
        self.waits = QueueWaits()
        self._names_by_kind = {entry.engine.name: name for name, entry in self.served.items()}
        self._find_names: EnginesOf = lambda _: {}
        self._names: dict[AttemptKey, str] = {}
        self._fault_times: dict[str, tuple[Reason, float]] = {}
        self._failed_calls: set[tuple[str, str]] = set()

    @classmethod
    def from_engine(cls, engine: Engine) -> "Engines":
        """Return the engines of a server with only one engine."""
        return cls({engine.name: ServedEngine(engine=engine)})

    def __iter__(self) -> Iterator[Engine]:
        return (entry.engine for entry in self.served.values())

    def set_lookup(self, find_names: EnginesOf) -> None:
        """Set the function that returns the engines of attempts that another process launched."""
        self._find_names = find_names

    @property
    def nearest(self) -> Engine:
        """The engine that runs jobs on the server's machine; without such an engine, the first."""
        local = (engine for engine in self if engine.traits.reach is NodeLocation.THIS_MACHINE)
        return next(local, self.served[self.first].engine)

    @property
    def are_several(self) -> bool:
        """Whether a server has several engines, so that output must name the engine of a node."""
        return len(self.served) + len(self.failed) > 1

    def find_by_name(self, name: str) -> Engine | None:
        """Return the engine of this name, or the first engine if the name is empty.

        None: the server has no engine of this name, or could not open it.
        """
        served = self.served.get(self._current_name(name))
        return served.engine if served else None

    def get_by_name(self, name: str) -> Engine:
        """Return the engine of this name.  Raises OSError if this server does not run it."""
        engine = self.find_by_name(name)
        if engine is None:
            raise OSError(errno.EAGAIN, self._describe_missing(name))
        return engine

    def get_by_attempt(self, key: AttemptKey) -> Engine:
        """Return the engine of an attempt.  Raises OSError if this server does not run it."""
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
        """Store which engine gets an attempt, and return that engine for the launch.

        Raises OSError if this server does not run the engine.
        """
        name = self.name_at(place)
        engine = self.get_by_name(name)
        self._remember(key, name)
        if isinstance(place, Claim):
            self.waits.start_wait(key)
        return engine

    def traits_of(self, name: str) -> Traits:
        """Return the traits of an engine; default traits if this server does not run the engine."""
        engine = self.find_by_name(name)
        return engine.traits if engine else _ABSENT

    def are_seats_on(self, node: Node) -> bool:
        """Whether the server assigns jobs to a node: it runs the node's engine without a queue."""
        return node.engine in self.served and self.traits_of(node.engine).places is PlacedBy.SERVER

    def check_health(self, name: str) -> Explanation | None:
        """Return why an engine does not work, and since when; None: it works."""
        if why := self.failed.get(name):
            return why
        no_answer: Explanation | None = _no_answer(name)
        fault = self._ask_engine(name, "health", lambda engine: engine.health(), no_answer)
        return self._add_since(name, fault)

    def check_healths(self) -> Mapping[str, Explanation | None]:
        """Return why each engine does not work, by name; None: it works."""
        return {name: self.check_health(name) for name in (*self.served, *self.failed)}

    @property
    def job_folders(self) -> tuple[Path, ...]:
        """The job folders of engines besides the server's own."""
        folders = (engine.traits.jobs for engine in self)
        return tuple(dict.fromkeys(filter(None, folders)))

    def list_offered(self) -> tuple[OfferedEngine, ...]:
        """Return the engines from which the server chooses one for a job."""
        return tuple(
            OfferedEngine(name=name, regions=entry.regions, away=self.check_health(name))
            for name, entry in self.served.items()
        )

    def resolve_wishes(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the wishes for a job's engine: labels of the job override the configuration's."""
        served = self.served.get(name)
        return wishes(labels, served.labels if served else None)

    def make_judge(
        self, needs: JobNeeds, judge_nodes: Callable[[JobDemand], Explanation | None]
    ) -> Callable[[str], Explanation | None]:
        """Return a function that returns why the engine of a name can never run the job.

        For engines without a queue, ``judge_nodes`` returns why no node can ever run the demand.
        """

        def judge(name: str) -> Explanation | None:
            own_needs = replace(needs, wants=self.resolve_wishes(name, needs.wants))
            why = self._ask_engine(name, "judge", lambda engine: engine.judge(own_needs), None)
            if why or self.traits_of(name).places is PlacedBy.ENGINE:
                return why
            return judge_nodes(replace(needs.demand, engine=name))

        return judge

    def list_nodes(self, name: str) -> Sequence[Node] | None:
        """Return the nodes of an engine; None: the engine does not answer now."""

        def name_nodes(engine: Engine) -> Sequence[Node] | None:
            return [replace(node, engine=name) for node in engine.fleet()]

        return self._ask_engine(name, "fleet", name_nodes, None)

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """Observe attempts by their engines; attempts of an engine that fails are UNKNOWN."""
        by_engine: defaultdict[str, list[AttemptKey]] = defaultdict(list)
        for key, name in self._names_of(keys).items():
            by_engine[name].append(key)
        return [
            observation
            for name, engine_keys in by_engine.items()
            for observation in self._observe(name, engine_keys)
        ]

    def close(self) -> None:
        """Close all engines at the same time, and wait up to two seconds."""
        if len(self.served) == 1:
            self.served[self.first].engine.close()
            return
        threads = [
            threading.Thread(target=self._close, args=(name,), daemon=True, name=f"close-{name}")
            for name in self.served
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + _CLOSE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _close(self, name: str) -> None:
        try:
            self.served[name].engine.close()
        except Exception:  # noqa: BLE001 - other engines must still work
            _LOG.exception("cannot close the engine %s", name)

    def _describe_missing(self, name: str) -> str:
        """Return the message for an engine that this server does not run, with the reason."""
        why = self.failed.get(name)
        message = f"this server runs without the engine {name}"
        return f"{message}: {why.message}" if why else message

    def _names_of(self, keys: Collection[AttemptKey]) -> dict[AttemptKey, str]:
        """Return the present name of each attempt's engine, from memory or from the store."""
        # only one lookup for each key: another thread may clear the dictionary meanwhile
        names = {key: name for key in keys if (name := self._names.get(key)) is not None}
        if unknown := [key for key in keys if key not in names]:
            for key, name in self._find_names(unknown).items():
                names[key] = name
                self._remember(key, name)
        return {key: self._current_name(names.get(key, "")) for key in keys}

    def _current_name(self, name: str) -> str:
        """Return the present name of an engine from the name at an attempt's launch.

        If the configuration had no name for the engine at that time, the launch stored the name of
        its kind, such as ``local``.
        """
        if not name:
            return self.first
        if name in self.served or name in self.failed:
            return name
        return self._names_by_kind.get(name, name)

    def _remember(self, key: AttemptKey, name: str) -> None:
        if len(self._names) >= _REMEMBERED_MAX:
            self._names.clear()
        self._names[key] = name

    def _observe(self, name: str, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        if self.find_by_name(name) is None:
            why = Explanation(reason=Reason.ENGINE_AWAY, message=self._describe_missing(name))
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

    def _ask_engine(self, name: str, topic: str, call: Callable[[Engine], T], default: T) -> T:
        """Call an engine and return its answer; if the call fails, return ``default``.

        Log a failure once, until a call of the same topic succeeds.
        """
        engine = self.get_by_name(name)
        try:
            answer = call(engine)
        except Exception:  # noqa: BLE001 - other engines must still work
            if (name, topic) not in self._failed_calls:
                self._failed_calls.add((name, topic))
                _LOG.exception("cannot ask the engine %s for its %s", name, topic)
            return default
        self._failed_calls.discard((name, topic))
        return answer

    def _add_since(self, name: str, fault: Explanation | None) -> Explanation | None:
        """Add the time at which the server first saw this reason, unless the engine gave a time."""
        if fault is None:
            self._fault_times.pop(name, None)
            return None
        if fault.since_s is not None:
            return fault
        first = self._fault_times.get(name)
        if first is None or first[0] is not fault.reason:
            first = self._fault_times[name] = (fault.reason, time.time())
        return replace(fault, since_s=first[1])


def _no_answer(name: str) -> Explanation:
    return Explanation(reason=Reason.ENGINE_AWAY, message=f"the engine {name} does not answer")
