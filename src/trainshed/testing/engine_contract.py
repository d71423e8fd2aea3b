"""What every engine must do.  Inherit a class and supply one pytest fixture, ``world``.

``EngineContract`` is for every engine.  ``ProgramContract`` adds what can be seen only where real
programs run.  What is tried, and on what, says ``engine_world``.  A test that a trait of the engine
turns off is skipped with the names of both.
"""
# ruff: noqa: S101, PLR2004 - tests by name, made of asserts and expected numbers

import json
import os
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeVar

import pytest

from trainshed.engines.base import Engine, Living, PlacedBy, ReplicaShape
from trainshed.model.attempt import AttemptKey, Loss, Observation, Outcome, Phase
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resources import Claim, Demand, GroupDemand, JobDemand, Seat, SeatsOrClaim
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.testing.engine_world import (
    DEAF,
    MISSING,
    SERVES,
    WAITS,
    FakeProgram,
    QueueWorld,
    World,
)

_T = TypeVar("_T")

DEADLINE_S: Final = 60.0
#: Less than the grace of the orders here, and enough for a slow machine.
_PROMPTLY_S: Final = 20.0
_RUNNING_S_MAX: Final = 600.0
_FINAL: Final = frozenset({Phase.ENDED, Phase.LOST})
_TERMINATED: Final = 128 + signal.SIGTERM
#: What programs behind walls get, whatever the umask of the server.
_STRICTEST_UMASK: Final = "0077"


def new_key() -> AttemptKey:
    """The first attempt of a job that no other test has: leftovers are found by it."""
    return AttemptKey(secrets.randbits(60), 1)


def order(grace_s: float = 60.0) -> StopOrder:
    """An order to end because the job was cancelled."""
    return StopOrder(grace_s=grace_s, reason=StopReason.CANCEL, message="It was cancelled.")


def eventually(look: Callable[[], _T], what: str) -> _T:
    """The first answer that is not false or empty."""
    deadline = time.monotonic() + DEADLINE_S
    while not (answer := look()):
        assert time.monotonic() < deadline, f"waited too long until {what}"
        time.sleep(0.005)
    return answer


def until(engine: Engine, key: AttemptKey, *phases: Phase) -> Observation:
    """The first observation of one of these phases."""
    return eventually(
        lambda: [
            observation for observation in engine.observe([key]) if observation.phase in phases
        ],
        f"{key} is {phases}",
    )[0]


def launch(world: World, engine: Engine, key: AttemptKey, *programs: FakeProgram) -> None:
    """Launch an attempt, on the first node or into the engine's own queue."""
    plan = world.plan(key, *programs)
    engine.launch(key, replace(plan, attempt=key.attempt), place_of(engine, plan))


def place_of(engine: Engine, plan: LaunchPlan) -> SeatsOrClaim:
    """Seats on the engine's first node, or a claim where it places by itself."""
    if engine.traits.places is PlacedBy.ENGINE:
        return claim_of(engine.name, plan)
    node = engine.fleet()[0].name
    return [Seat(role=replica.role, index=replica.index, node=node) for replica in plan.replicas]


def claim_of(engine: str, plan: LaunchPlan) -> Claim:
    """A claim on a place for every replica, the smallest there is."""
    counts = Counter(replica.role for replica in plan.replicas)
    groups = tuple(
        GroupDemand(role=role, count=count, each=Demand(vcpus=1)) for role, count in counts.items()
    )
    demand = JobDemand(region=None, groups=groups)
    return Claim(engine=engine, demand=demand, running_s_max=_RUNNING_S_MAX)


def ended(engine: Engine, key: AttemptKey) -> Outcome:
    """How an attempt ended, once it has."""
    observation = until(engine, key, *_FINAL)
    assert (observation.phase, observation.fault) == (Phase.ENDED, None)
    assert observation.outcome is not None
    return observation.outcome


def living(engine: Engine, key: AttemptKey) -> Sequence[Living]:
    """What the engine finds of an attempt that lives."""
    return [
        part for attempt in engine.list_attempts() if attempt.key == key for part in attempt.living
    ]


def launched(world: World, *programs: FakeProgram) -> tuple[Engine, AttemptKey]:
    """A new attempt that was launched."""
    engine, key = world.engine(), new_key()
    launch(world, engine, key, *programs)
    return engine, key


def run(world: World, *programs: FakeProgram) -> Outcome:
    """How a new attempt ended."""
    return ended(*launched(world, *programs))


def ready(world: World, *programs: FakeProgram) -> tuple[Engine, AttemptKey]:
    """A new attempt all of whose programs run."""
    engine, key = launched(world, *programs)
    until(engine, key, Phase.READY)
    eventually(lambda: world.started(key) == len(programs), "all programs run")
    return engine, key


class EngineContract:
    """What holds for every engine."""

    @pytest.fixture
    def queue(self, world: QueueWorld, request: pytest.FixtureRequest) -> QueueWorld:
        places = world.engine().traits.places
        if places is not PlacedBy.ENGINE:
            pytest.skip(f"Traits.places = {places.value} turns off {request.node.name}")
        return world

    @pytest.mark.parametrize(
        "program",
        [
            *(FakeProgram(exit_code=code) for code in (0, 1, 42, 126, 127)),
            *(FakeProgram(signal=number) for number in (9, 11, 15)),
            FakeProgram(oom=True),
        ],
    )
    def test_the_end_of_the_primary_is_the_outcome(
        self, world: World, program: FakeProgram
    ) -> None:
        if program.oom and not world.limits_memory:
            pytest.skip("no limits of memory here")
        outcome = run(world, program)
        number = signal.SIGKILL if program.oom else program.signal
        status = 128 + number if number else program.exit_code
        assert (outcome.exit_code, outcome.interrupted) == (status, False)
        assert outcome.message.strip()
        assert "\n" not in outcome.message
        assert "limit" in outcome.message or not program.oom
        (only,) = outcome.replicas
        assert (only.role, only.index, only.task_name) == (Role.PRIMARY, 0, "primary-0")
        assert (only.exit_code, only.signal) == ((None, number) if number else (status, None))
        assert (only.stopped_by_us, only.killed, only.oom) == (False, False, program.oom)
        assert (only.notice_s, only.status) == (None, status)
        assert 0 <= only.seconds < DEADLINE_S

    def test_it_is_ready_as_long_as_it_runs_then_ended_for_ever(self, world: World) -> None:
        engine, key = ready(world, WAITS, WAITS, SERVES)
        names = ("primary-0", "worker-0", "parameter_server-0")
        for observation in (*engine.observe([key]), *world.engine().observe([key])):
            assert (observation.phase, observation.task_names, observation.outcome) == (
                Phase.READY,
                names,
                None,
            )
            assert (observation.hung, observation.fault) == ((), None)
        world.finish(key)
        outcome = ended(engine, key)
        assert (outcome.exit_code, tuple(replica.task_name for replica in outcome.replicas)) == (
            0,
            names,
        )
        assert engine.observe([key]) == world.engine().observe([key])
        assert engine.observe([key])[0].outcome == outcome

    def test_it_starts_once_from_wherever_it_is_launched(self, world: World) -> None:
        engines, key = [world.engine() for _ in range(4)], new_key()
        with ThreadPoolExecutor(20) as threads:
            for done in [
                threads.submit(launch, world, launcher, key, WAITS) for launcher in engines * 5
            ]:
                done.result()
        until(engines[0], key, Phase.READY)
        launch(world, world.engine(), key, WAITS)
        world.finish(key)
        for engine in (*engines, world.engine()):
            launch(world, engine, key, WAITS)
            assert ended(engine, key).exit_code == 0
        assert world.started(key) == 1

    def test_what_was_stopped_before_never_starts(self, world: World) -> None:
        engine, key = world.engine(), new_key()
        engine.stop(key, order())
        outcome = ended(engine, key)
        assert (outcome.exit_code, outcome.replicas) == (_TERMINATED, ())
        assert outcome.interrupted
        for server in (engine, world.engine()):
            launch(world, server, key, WAITS)
            assert ended(server, key) == outcome
        assert world.started(key) == 0

    @pytest.mark.parametrize("is_running", [False, True])
    def test_a_stop_ends_all_replicas_and_the_outcome_says_so(
        self, world: World, *, is_running: bool
    ) -> None:
        engine, key = (ready if is_running else launched)(world, WAITS, WAITS)
        began = time.monotonic()
        world.engine().stop(key, order())
        outcome = ended(engine, key)
        assert time.monotonic() - began < _PROMPTLY_S, "nobody waits for the whole grace"
        assert (outcome.exit_code, outcome.interrupted) == (_TERMINATED, True)
        assert all(replica.stopped_by_us and not replica.killed for replica in outcome.replicas)
        if is_running:
            assert [replica.signal for replica in outcome.replicas] == [signal.SIGTERM] * 2
            assert all(0 <= (replica.notice_s or 0) < _PROMPTLY_S for replica in outcome.replicas)
        engine.stop(key, order(0.0))
        assert ended(engine, key) == outcome, "an end is final"

    @pytest.mark.parametrize("graces_s", [(0.5, 60.0), (60.0, 0.5, 60.0)])
    def test_the_deaf_are_killed_after_the_shortest_grace_and_not_before(
        self, world: World, graces_s: Sequence[float]
    ) -> None:
        """An order never gets milder, and may get harder, whichever server gives it."""
        engine, key = ready(world, DEAF)
        began = time.monotonic()
        for grace_s in graces_s:
            world.engine().stop(key, order(grace_s))
        outcome = ended(engine, key)
        assert 0.5 <= time.monotonic() - began < _PROMPTLY_S
        assert (outcome.exit_code, outcome.interrupted) == (_TERMINATED, True)
        (only,) = outcome.replicas
        assert (only.exit_code, only.signal, only.killed) == (None, signal.SIGKILL, True)
        assert (only.notice_s or 0) >= 0.5

    def test_attempts_are_distinguished(self, world: World) -> None:
        engine, first = ready(world, WAITS)
        other, stranger = new_key(), new_key()
        launch(world, engine, other, FakeProgram(exit_code=3))
        assert ended(engine, other).exit_code == 3
        observations = engine.observe([other, stranger, first])
        assert [observation.key for observation in observations] == [other, stranger, first]
        assert [observation.phase for observation in observations] == [
            Phase.ENDED,
            Phase.UNKNOWN,
            Phase.READY,
        ]
        assert list(engine.observe([first, stranger, other])) == list(reversed(observations))
        assert engine.observe([]) == []
        engine.stop(first, order())
        before = ended(engine, first)
        second = AttemptKey(first.uid, 2)
        launch(world, engine, second, FakeProgram(exit_code=4))
        assert ended(engine, second).exit_code == 4
        assert ended(world.engine(), first) == before

    @pytest.mark.parametrize("programs", [(MISSING,), (WAITS, WAITS, MISSING)])
    def test_a_gang_that_cannot_be_whole_is_a_fault_and_nothing_of_it_lives(
        self, world: World, programs: Sequence[FakeProgram]
    ) -> None:
        engine, key = world.engine(), new_key()
        try:
            launch(world, engine, key, *programs)
        except EngineFault as fault:  # it may be known at once
            why = str(fault)
        else:
            observation = until(engine, key, *_FINAL)
            assert (observation.phase, observation.task_names) == (Phase.ENDED, ())
            assert observation.outcome is not None
            assert observation.outcome.exit_code == 1
            why = observation.fault or ""
        assert "/no/such/program" in why
        assert ("primary-0", "worker-0", "worker-1")[len(programs) - 1] in why
        assert living(engine, key) == []
        assert world.started(key) < len(programs)

    def test_what_is_lost_is_gone_and_stays_so(self, world: World) -> None:
        engine, key = ready(world, WAITS, WAITS)
        world.lose(key)
        observation = until(engine, key, *_FINAL)
        assert (observation.phase, observation.outcome) == (Phase.LOST, None)
        assert observation.fault
        assert observation.loss in {None, Loss.INFRA}
        assert living(engine, key) == []
        engine.stop(key, order(0.0))
        launch(world, world.engine(), key, WAITS, WAITS)
        assert until(engine, key, *_FINAL).phase is Phase.LOST
        assert world.started(key) == 2

    def test_what_waits_in_a_queue_says_why_and_then_where_it_is(self, queue: QueueWorld) -> None:
        with queue.busy():
            engine, key = launched(queue, WAITS, WAITS)
            for server in (engine, queue.engine()):
                observation = until(server, key, Phase.WAITING)
                assert observation.waits is not None
                assert observation.waits.message.strip()
                assert (observation.outcome, observation.task_names, observation.placed) == (
                    None,
                    (),
                    (),
                )
            assert {attempt.key: attempt.phase for attempt in engine.list_attempts()} == {
                key: Phase.WAITING
            }
            assert not engine.forget(key.uid)
            assert queue.started(key) == 0
        until(engine, key, Phase.READY)
        nodes = {node.name for node in engine.fleet()}
        for server in (engine, queue.engine()):
            (observation,) = server.observe([key])
            where = {(seat.role, seat.index) for seat in observation.placed}
            assert where == {(Role.PRIMARY, 0), (Role.WORKER, 0)}
            assert {seat.node for seat in observation.placed} <= nodes
        eventually(lambda: queue.started(key) == 2, "all programs run")
        queue.finish(key)
        assert ended(engine, key).exit_code == 0

    def test_what_is_stopped_while_it_waits_in_a_queue_never_starts(
        self, queue: QueueWorld
    ) -> None:
        with queue.busy():
            engine, key = launched(queue, WAITS)
            until(engine, key, Phase.WAITING)
            queue.engine().stop(key, order())
            outcome = ended(engine, key)
            assert (outcome.exit_code, outcome.replicas, outcome.interrupted) == (
                _TERMINATED,
                (),
                True,
            )
        launch(queue, queue.engine(), key, WAITS)
        assert ended(queue.engine(), key) == outcome
        other = new_key()
        launch(queue, engine, other, FakeProgram())
        assert ended(engine, other).exit_code == 0, "the queue places again"
        assert queue.started(key) == 0

    def test_what_loses_its_places_by_order_is_lost_for_maintenance(
        self, queue: QueueWorld
    ) -> None:
        engine, key = ready(queue, WAITS, WAITS)
        queue.evict(key)
        for server in (engine, queue.engine()):
            observation = until(server, key, *_FINAL)
            assert (observation.phase, observation.loss, observation.outcome) == (
                Phase.LOST,
                Loss.MAINTENANCE,
                None,
            )
            assert observation.fault
        assert living(engine, key) == []

    def test_a_queue_that_answers_nothing_loses_nothing(self, queue: QueueWorld) -> None:
        engine, key = ready(queue, WAITS)
        with queue.empty():
            for server in (engine, queue.engine()):
                for _ in range(3):
                    (observation,) = server.observe([key])
                    assert observation.phase in {Phase.READY, Phase.UNKNOWN}
        until(engine, key, Phase.READY)
        queue.finish(key)
        assert ended(engine, key).exit_code == 0
        assert queue.started(key) == 1

    def test_two_installations_on_one_queue_leave_each_other_alone(self, queue: QueueWorld) -> None:
        engine, key = ready(queue, WAITS)
        other = queue.elsewhere()
        assert other.observe([key])[0].phase is Phase.UNKNOWN
        assert list(other.list_attempts()) == []
        other.stop(key, order(0.0))
        assert ended(other, key).replicas == ()
        assert other.forget(key.uid)
        assert engine.observe([key])[0].phase is Phase.READY
        queue.finish(key)
        assert ended(engine, key).exit_code == 0

    def test_what_cannot_be_seen_is_unknown_until_it_can(self, world: World) -> None:
        engine, key = ready(world, WAITS)
        with world.away():
            for server in (engine, world.engine()):
                assert [observation.phase for observation in server.observe([key])] == [
                    Phase.UNKNOWN
                ]
        until(engine, key, Phase.READY)
        world.finish(key)
        assert ended(world.engine(), key).exit_code == 0

    def test_reports_are_read_behind_a_mark_to_the_last_one(self, world: World) -> None:
        engine, key = launched(world, FakeProgram(reports=4))
        assert ended(engine, key).exit_code == 0
        assert engine.measured(new_key(), 7)[:2] == (7, ())
        measured = world.engine().measured(key, 0)
        values = [("loss", float(step), step) for step in range(4)]
        assert [(report.tag, report.value, report.step) for report in measured.reports] == values
        assert engine.measured(key, measured.mark)[:2] == (measured.mark, ())
        assert engine.measured(key, 0) == measured

    def test_replicas_have_addresses_and_attempts_have_folders(self, world: World) -> None:
        engine, key = world.engine(), new_key()
        roles = ((Role.PRIMARY, 1), (Role.WORKER, 1), (Role.REDUCER, 3))
        shape = [ReplicaShape(role, 0, ports) for role, ports in roles]
        first, second = (engine.sight(AttemptKey(key.uid, number), shape) for number in (1, 2))
        third = world.engine().sight(AttemptKey(key.uid, 3), shape)
        assert list(first.addresses) == [replica[:2] for replica in shape]
        at = [(first.addresses[role, index], ports) for role, index, ports in shape]
        endpoints = {(here.host, here.port + place) for here, ports in at for place in range(ports)}
        primary = first.addresses[Role.PRIMARY, 0]
        assert len(endpoints | {(primary.host, primary.rendezvous_port)}) == 6
        assert (first.earlier, third.earlier) == ((), (first.work, second.work))
        folders = [{view.work, view.exchange, view.metrics} for view in (first, second, third)]
        assert len(set[str]().union(*folders)) == 9
        assert first.buckets == third.buckets
        assert engine.observe([key])[0].phase is Phase.UNKNOWN, "looking starts nothing"

    def test_nodes_and_traits_are_the_same_for_every_server(self, world: World) -> None:
        engine = world.engine()
        assert engine.name
        assert engine.traits == world.engine().traits
        names = [node.name for node in engine.fleet()]
        assert len(set(names)) == len(names) > 0
        assert all(node.slots > 0 for node in engine.fleet())
        assert [node.name for node in world.engine().fleet()] == names

    def test_what_lives_is_known_and_what_is_left_is_found(self, world: World) -> None:
        engine, key = ready(world, WAITS)
        left = new_key()
        with world.leftover(left):
            attempts = {attempt.key: attempt for attempt in world.engine().list_attempts()}
            assert attempts.keys() == {key, left}
            assert (attempts[key].phase, attempts[left].phase) == (Phase.READY, Phase.UNKNOWN)
            for attempt in attempts.values():
                assert {part.key for part in attempt.living} == {attempt.key}
            assert list(world.elsewhere().list_attempts()) == []
        world.finish(key)
        assert ended(engine, key).exit_code == 0
        assert [attempt[1:3] for attempt in engine.list_attempts() if attempt.key == key] == [
            (Phase.ENDED, ())
        ]

    def test_a_job_is_forgotten_whole_and_not_while_it_lives(self, world: World) -> None:
        engine, key = ready(world, WAITS)
        other, second = new_key(), AttemptKey(key.uid, 2)
        launch(world, engine, other, FakeProgram())
        assert not engine.forget(key.uid)
        engine.stop(key, order())
        assert ended(engine, key).interrupted
        with world.leftover(second):
            assert not world.engine().forget(key.uid)
        assert ended(engine, other).exit_code == 0
        assert engine.forget(key.uid)
        assert {attempt.key for attempt in engine.list_attempts()} == {other}
        assert list(world.lines(key)) == []
        for server in (engine, world.engine()):
            assert server.observe([key])[0].phase is Phase.UNKNOWN
            assert server.forget(key.uid), "there is nothing of it"
        assert engine.forget(other.uid)
        assert list(engine.list_attempts()) == []

    def test_installations_do_not_see_each_other(self, world: World) -> None:
        engine, key = ready(world, WAITS)
        stranger = world.elsewhere()
        assert stranger.observe([key])[0].phase is Phase.UNKNOWN
        assert list(stranger.list_attempts()) == []
        assert stranger.forget(key.uid)
        stranger.stop(key, order(0.0))
        assert engine.observe([key])[0].phase is Phase.READY

    def test_who_listens_hears_of_an_end(self, world: World) -> None:
        engine, key, heard = world.engine(), new_key(), list[AttemptKey]()
        engine.listen(heard.extend)
        launch(world, engine, key, WAITS)
        until(engine, key, Phase.READY)
        world.finish(key)
        eventually(lambda: key in heard, "there is news of it")

    def test_closing_ends_threads_and_no_attempt(self, world: World) -> None:
        before = set(threading.enumerate())
        engine, key = world.engine(), new_key()
        engine.listen(lambda _keys: None)
        launch(world, engine, key, WAITS)
        until(engine, key, Phase.READY)
        began = time.monotonic()
        engine.close()
        assert time.monotonic() - began <= 2.5
        assert set(threading.enumerate()) <= before
        engine.close()
        assert world.engine().observe([key])[0].phase is Phase.READY


#: A program that goes on when all three of its gang have started, and one that says when.
_ALL_STARTED: Final = "while [ $(wc -l < $STARTED) -lt 3 ]; do sleep 0.02; done; sleep 0.2"
_ENDS: Final = 'touch "$STARTED.over"'
_SAVES: Final = 'while [ ! -e "$STARTED.over" ]; do sleep 0.02; done; sleep 0.3'


class ProgramContract(EngineContract):
    """What holds where programs really run."""

    def test_a_program_finds_what_its_plan_says_and_no_secret(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TRAINSHED_TOKEN", "hush")
        monkeypatch.setenv("UNSET", "leaks")
        code = (
            'echo "$KIT|$0|$1|$2|$#"; pwd; readlink /proc/self/fd/0; umask; echo "$UNSET"\n'
            'env | grep -c hush; echo "$TRAINSHED_JOB|$TRAINSHED_ATTEMPT|$TRAINSHED_TASK"'
        )
        engine, key = world.engine(), AttemptKey(new_key().uid, 3)
        plan = world.plan(key, FakeProgram())
        work = engine.sight(key, [ReplicaShape(Role.PRIMARY, 0)]).work
        Path(work).mkdir(parents=True)
        argv = ("/bin/sh", "-c", code, "a b", "'\"$KIT\\", "")
        env = {**plan.primary.env, "KIT": "as 'it' is\n=$HOME"}
        replica = replace(plan.primary, argv=argv, env=env)
        plan = replace(plan, replicas=(replica,), cwd=work, unset_env=("UNSET",))
        engine.launch(key, plan, place_of(engine, plan))
        assert ended(engine, key).exit_code == 0
        mask = os.umask(0)
        os.umask(mask)
        first, second, *paths, umask, unset, secrets, contract = _texts(world, key)
        assert [first, second] == ["as 'it' is", "=$HOME|a b|'\"$KIT\\||2"]
        assert paths == [work, "/dev/null"]
        assert umask in {f"{mask:04o}", _STRICTEST_UMASK}
        assert [unset, secrets, contract] == ["", "0", f"{key}|3|primary-0"]

    @pytest.mark.parametrize(
        ("role", "code"),
        [
            *((role, 0) for role in (Role.PARAMETER_SERVER, Role.EVALUATOR, Role.REDUCER)),
            (Role.PARAMETER_SERVER, 7),
        ],
    )
    def test_who_fails_first_or_the_primary_decides_and_those_who_wait_are_stopped(
        self, world: World, role: Role, code: int
    ) -> None:
        """A worker that has ended with 0 before has done its part."""
        primary = FakeProgram(code=_ALL_STARTED, waits=bool(code))
        outcome = run(
            world, primary, FakeProgram(exit_code=code), FakeProgram(waits=True, role=role)
        )
        assert (outcome.exit_code, outcome.interrupted) == (code, False)
        assert ("worker-0" if code else "primary-0") in outcome.message
        assert [replica.stopped_by_us for replica in outcome.replicas] == [bool(code), False, True]

    def test_who_still_saves_when_the_primary_has_ended_gets_its_time(self, world: World) -> None:
        """A second at least: on a machine that stood still meanwhile it is tried again."""

        def has_saved() -> bool:
            outcome = run(world, FakeProgram(code=_ENDS), FakeProgram(code=_SAVES))
            assert (outcome.exit_code, outcome.interrupted) == (0, False)
            return not outcome.replicas[1].stopped_by_us

        eventually(has_saved, "a worker ends by itself")

    @pytest.mark.parametrize("is_lost", [False, True])
    def test_nothing_is_left_whatever_it_has_forked(self, world: World, *, is_lost: bool) -> None:
        daemon = "(trap '' TERM; setsid sh -c 'setsid sleep 600 & echo ready; wait' &)"
        engine, key = ready(world, FakeProgram(waits=True, code=daemon))
        eventually(lambda: "ready" in _texts(world, key), "the daemon runs")
        if is_lost:
            world.lose(key)
        else:
            engine.stop(key, order(0.2))
        until(engine, key, *_FINAL)
        assert living(engine, key) == []

    def test_a_notice_says_why_and_until_when_before_the_signal(self, world: World) -> None:
        """What a replica then says is kept as all that it says."""
        code = "trap 'cat \"$TRAINSHED_NOTICE_FILE\"; echo; seq 10000; exit 0' TERM"
        engine, key = ready(world, FakeProgram(waits=True, code=code))
        before = time.time()
        engine.stop(key, order(40.0))
        assert ended(engine, key).interrupted
        first, *last = _texts(world, key)
        assert last == [str(number) for number in range(1, 10_001)]
        notice = json.loads(first)
        assert (notice["reason"], notice["message"]) == ("cancel", "It was cancelled.")
        assert before + 39.0 < notice["until"] < time.time() + 41.0

    def test_every_line_is_kept_once_and_in_order(self, world: World) -> None:
        """Also those of the last instant; stamps ascend over the attempts of a job."""
        engine, first = world.engine(), new_key()
        expected, stamps = [str(number) for number in range(1, 10_001)], list[int]()
        for key in (first, AttemptKey(first.uid, 2)):
            launch(world, engine, key, FakeProgram(code="seq 10000; printf 'a\\377b' >&2"))
            assert ended(engine, key).exit_code == 0
            assert _texts(world, key) == expected
            assert _texts(world, key, "stderr") == ["a\ufffdb"]
            stamps += [line.stamp_ns for line in world.lines(key)]
        assert all(earlier < later for earlier, later in pairwise(stamps))

    def test_a_launch_that_is_killed_anywhere_starts_it_once(self, world: World) -> None:
        engine, key = world.engine(), new_key()
        for pause_s in (0.0, 0.001, 0.003, 0.01, 0.03):
            server = get_context("fork").Process(
                target=launch, args=(world, world.engine(), key, WAITS)
            )
            server.start()
            time.sleep(pause_s)
            server.kill()
            server.join()
        launch(world, engine, key, WAITS)
        until(engine, key, Phase.READY)
        world.finish(key)
        assert ended(engine, key).exit_code == 0
        assert world.started(key) == 1


def _texts(world: World, key: AttemptKey, stream: str = "stdout") -> Sequence[str]:
    lines = [line for line in world.lines(key) if line.task_name == "primary-0"]
    return [line.text for line in lines if line.stream == stream]
