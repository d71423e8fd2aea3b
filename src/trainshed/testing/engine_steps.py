"""Steps of engine tests: launch an attempt, and wait until it is ready or has ended."""
# ruff: noqa: S101 - of tests

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from trainshed.engines.base import Engine, LivingProcess, PlacedBy
from trainshed.model.attempt import AttemptKey, Observation, Outcome, Phase
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resources import Claim, Demand, GroupDemand, JobDemand, Seat, SeatsOrClaim
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.testing.engine_world import FakeProgram, HasThreads, World

_T = TypeVar("_T")

DEADLINE_S: Final = 60.0
_RUNNING_S_MAX: Final = 600.0
FINAL: Final = frozenset({Phase.ENDED, Phase.LOST})


def new_key() -> AttemptKey:
    """Return the key of the first attempt of a new job, with a random uid."""
    return AttemptKey(secrets.randbits(60), 1)


def order(grace_s: float = 60.0) -> StopOrder:
    """Return the stop order of a cancelled job."""
    return StopOrder(grace_s=grace_s, reason=StopReason.CANCEL, message="It was cancelled.")


def eventually(look: Callable[[], _T], condition: str) -> _T:
    """Call ``look`` until its result is true; return the result.  ``condition`` is its name."""
    deadline = time.monotonic() + DEADLINE_S
    while not (answer := look()):
        assert time.monotonic() < deadline, f"waited too long until {condition}"
        time.sleep(0.005)
    return answer


def until(engine: Engine, key: AttemptKey, *phases: Phase) -> Observation:
    """Wait for the first observation with one of these phases."""
    return eventually(
        lambda: [
            observation for observation in engine.observe([key]) if observation.phase in phases
        ],
        f"{key} is {phases}",
    )[0]


def wait_for_seats(engine: Engine, key: AttemptKey) -> Sequence[Seat]:
    """Wait until an engine with its own queue reports the nodes of an attempt; return the seats.

    Programs may run before the queue says on which nodes.
    """
    return eventually(lambda: engine.observe([key])[0].placed, f"{key} has nodes")


def launch(world: World, engine: Engine, key: AttemptKey, *programs: FakeProgram) -> None:
    """Launch an attempt, on the first node or into the engine's own queue."""
    plan = world.plan(key, *programs)
    engine.launch(key, replace(plan, attempt=key.attempt), place_of(engine, plan))


def place_of(engine: Engine, plan: LaunchPlan) -> SeatsOrClaim:
    """Return seats on the engine's first node, or a claim if the engine places by itself."""
    if engine.traits.places is PlacedBy.ENGINE:
        return claim_of(engine.name, plan)
    node = engine.fleet()[0].name
    return [Seat(role=replica.role, index=replica.index, node=node) for replica in plan.replicas]


def claim_of(engine: str, plan: LaunchPlan) -> Claim:
    """Return a claim of one vCPU for every replica."""
    counts = Counter(replica.role for replica in plan.replicas)
    groups = tuple(
        GroupDemand(role=role, count=count, each=Demand(vcpus=1)) for role, count in counts.items()
    )
    demand = JobDemand(region=None, groups=groups)
    return Claim(engine=engine, demand=demand, running_s_max=_RUNNING_S_MAX)


def ended(engine: Engine, key: AttemptKey) -> Outcome:
    """Wait for the end of an attempt; return its outcome."""
    observation = until(engine, key, *FINAL)
    assert (observation.phase, observation.fault) == (Phase.ENDED, None)
    assert observation.outcome is not None
    return observation.outcome


def living(engine: Engine, key: AttemptKey) -> Sequence[LivingProcess]:
    """Return the engine's living entries of an attempt."""
    return [
        part for attempt in engine.list_attempts() if attempt.key == key for part in attempt.living
    ]


def list_threads(world: World) -> set[threading.Thread]:
    """List the threads of this process, without those that are known to be the world's."""
    own = world.list_own_threads() if isinstance(world, HasThreads) else ()
    return set(threading.enumerate()) - set(own)


def launched(world: World, *programs: FakeProgram) -> tuple[Engine, AttemptKey]:
    """Launch a new attempt; return its engine and its key."""
    engine, key = world.engine(), new_key()
    launch(world, engine, key, *programs)
    return engine, key


def run(world: World, *programs: FakeProgram) -> Outcome:
    """Launch a new attempt; return its outcome."""
    return ended(*launched(world, *programs))


def ready(world: World, *programs: FakeProgram) -> tuple[Engine, AttemptKey]:
    """Launch a new attempt, and wait until all its programs run."""
    engine, key = launched(world, *programs)
    until(engine, key, Phase.READY)
    eventually(lambda: world.started(key) == len(programs), "all programs run")
    return engine, key
