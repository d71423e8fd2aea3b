"""The tests that every engine must pass.  Inherit a class and supply a fixture ``world``.

``EngineContract`` is for every engine.  It has the tests of ``queue_contract``, for engines that
choose the nodes.  ``program_contract.ProgramContract`` adds tests for engines that run real
programs.  ``engine_world`` describes the fixture.  A test is skipped if a trait of the engine turns
it off, or if the engine lacks a capability; the reason names the test.
"""
# ruff: noqa: S101, PLR2004 - tests by name, made of asserts and expected numbers

import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from trainshed.engines.base import ReplicaShape
from trainshed.engines.capabilities import SupportsFencing, SupportsSentTexts, SupportsUsage
from trainshed.model.attempt import AttemptKey, Loss, Phase
from trainshed.model.faults import EngineFault
from trainshed.model.roles import Role
from trainshed.testing.engine_steps import (
    DEADLINE_S,
    FINAL,
    ended,
    eventually,
    launch,
    launched,
    list_threads,
    living,
    new_key,
    order,
    ready,
    run,
    until,
)
from trainshed.testing.engine_world import (
    DEAF,
    MISSING,
    SERVES,
    WAITS,
    FakeProgram,
    World,
)
from trainshed.testing.queue_contract import TERMINATED, QueueContract

#: Seconds: less than the grace of the orders in the tests, and enough for a slow machine.
_PROMPTLY_S: Final = 20.0


class EngineContract(QueueContract):
    """The tests for every engine."""

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
            pytest.skip("this world does not limit memory")
        outcome = run(world, program)
        number = signal.SIGKILL if program.oom else program.signal
        status = 128 + number if number else program.exit_code
        assert (outcome.exit_code, outcome.interrupted) == (status, False)
        assert outcome.message.strip()
        assert "\n" not in outcome.message
        assert "limit" in outcome.message or not program.oom
        (replica,) = outcome.replicas
        assert (replica.role, replica.index, replica.task_name) == (Role.PRIMARY, 0, "primary-0")
        assert (replica.exit_code, replica.signal) == ((None, number) if number else (status, None))
        assert (replica.stopped_by_us, replica.killed, replica.oom) == (False, False, program.oom)
        assert (replica.notice_s, replica.status) == (None, status)
        assert 0 <= replica.seconds < DEADLINE_S

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
        assert (outcome.exit_code, outcome.replicas) == (TERMINATED, ())
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
        assert time.monotonic() - began < _PROMPTLY_S, "the engine does not wait for the full grace"
        assert (outcome.exit_code, outcome.interrupted) == (TERMINATED, True)
        assert all(replica.stopped_by_us and not replica.killed for replica in outcome.replicas)
        if is_running:
            assert [replica.signal for replica in outcome.replicas] == [signal.SIGTERM] * 2
            assert all(0 <= (replica.notice_s or 0) < _PROMPTLY_S for replica in outcome.replicas)
        engine.stop(key, order(0.0))
        assert ended(engine, key) == outcome, "an end is final"

    @pytest.mark.parametrize("graces_s", [(0.5, 60.0), (60.0, 0.5, 60.0)])
    def test_a_program_that_ignores_sigterm_is_killed_after_the_shortest_grace(
        self, world: World, graces_s: Sequence[float]
    ) -> None:
        """A later order may shorten the grace but never extend it, from any server."""
        engine, key = ready(world, DEAF)
        began = time.monotonic()
        for grace_s in graces_s:
            world.engine().stop(key, order(grace_s))
        outcome = ended(engine, key)
        assert 0.5 <= time.monotonic() - began < _PROMPTLY_S
        assert (outcome.exit_code, outcome.interrupted) == (TERMINATED, True)
        (replica,) = outcome.replicas
        assert (replica.exit_code, replica.signal, replica.killed) == (None, signal.SIGKILL, True)
        assert (replica.notice_s or 0) >= 0.5

    def test_attempts_are_distinguished(self, world: World) -> None:
        engine, first = ready(world, WAITS)
        other, unknown = new_key(), new_key()
        launch(world, engine, other, FakeProgram(exit_code=3))
        assert ended(engine, other).exit_code == 3
        observations = engine.observe([other, unknown, first])
        assert [observation.key for observation in observations] == [other, unknown, first]
        assert [observation.phase for observation in observations] == [
            Phase.ENDED,
            Phase.UNKNOWN,
            Phase.READY,
        ]
        assert list(engine.observe([first, unknown, other])) == list(reversed(observations))
        assert engine.observe([]) == []
        engine.stop(first, order())
        before = ended(engine, first)
        second = AttemptKey(first.uid, 2)
        launch(world, engine, second, FakeProgram(exit_code=4))
        assert ended(engine, second).exit_code == 4
        assert ended(world.engine(), first) == before

    @pytest.mark.parametrize("programs", [(MISSING,), (WAITS, WAITS, MISSING)])
    def test_a_gang_with_a_missing_program_is_a_fault_and_leaves_no_process(
        self, world: World, programs: Sequence[FakeProgram]
    ) -> None:
        engine, key = world.engine(), new_key()
        try:
            launch(world, engine, key, *programs)
        except EngineFault as fault:  # the engine may know at once
            why = str(fault)
        else:
            observation = until(engine, key, *FINAL)
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
        observation = until(engine, key, *FINAL)
        assert (observation.phase, observation.outcome) == (Phase.LOST, None)
        assert observation.fault
        assert observation.loss in {None, Loss.INFRA}
        assert living(engine, key) == []
        engine.stop(key, order(0.0))
        launch(world, world.engine(), key, WAITS, WAITS)
        assert until(engine, key, *FINAL).phase is Phase.LOST
        assert world.started(key) == 2

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

    def test_reports_are_read_from_a_mark_to_the_last_one(self, world: World) -> None:
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
        ports_at = [(first.addresses[role, index], ports) for role, index, ports in shape]
        endpoints = {
            (address.host, address.port + offset)
            for address, ports in ports_at
            for offset in range(ports)
        }
        primary = first.addresses[Role.PRIMARY, 0]
        assert len(endpoints | {(primary.host, primary.rendezvous_port)}) == 6
        views = (first, second, third)
        if engine.traits.has_own_work_folders:
            assert {view.earlier for view in views} == {()}
        else:
            assert (first.earlier, third.earlier) == ((), (first.work, second.work))
            folders = [{view.work, view.exchange, view.metrics} for view in views]
            assert len(set[str]().union(*folders)) == 9
        assert first.buckets == third.buckets
        assert engine.observe([key])[0].phase is Phase.UNKNOWN, "observing starts nothing"

    def test_nodes_and_traits_are_the_same_for_every_server(self, world: World) -> None:
        engine = world.engine()
        assert engine.name
        assert engine.traits == world.engine().traits
        names = [node.name for node in engine.fleet()]
        assert len(set(names)) == len(names) > 0
        assert all(node.slots > 0 for node in engine.fleet())
        assert [node.name for node in world.engine().fleet()] == names

    def test_the_texts_sent_for_an_attempt_can_be_read(
        self, world: World, request: pytest.FixtureRequest
    ) -> None:
        engine, key = world.engine(), new_key()
        if not isinstance(engine, SupportsSentTexts):
            pytest.skip(f"no SupportsSentTexts turns off {request.node.name}")
        assert engine.read_sent(key) == {}
        launch(world, engine, key, FakeProgram())
        assert engine.read_sent(key)
        assert ended(engine, key).exit_code == 0

    def test_the_usage_of_an_attempt_can_be_read_until_its_job_is_forgotten(
        self, world: World, request: pytest.FixtureRequest
    ) -> None:
        engine, key = world.engine(), new_key()
        if not isinstance(engine, SupportsUsage):
            pytest.skip(f"no SupportsUsage turns off {request.node.name}")
        assert not engine.read_usage(key)
        launch(world, engine, key, FakeProgram())
        assert ended(engine, key).exit_code == 0
        lines = engine.read_usage(key)
        assert [line.at for line in lines] == sorted(line.at for line in lines)
        assert {name for line in lines for name in line.replicas} <= {"primary-0"}
        assert list(lines[-16:]) == list(engine.read_newest_usage(key))
        assert not engine.read_newest_steps(key)
        at = lines[-1].at if lines else time.time()
        assert list(engine.read_usage(key, at, at)) == [line for line in lines if line.at == at]
        assert not engine.read_newest_usage(key, at)
        eventually(lambda: engine.forget(key.uid), "its last processes have gone")
        assert not engine.read_usage(key)

    def test_a_running_attempt_cannot_be_fenced(
        self, world: World, request: pytest.FixtureRequest
    ) -> None:
        if not isinstance(world.engine(), SupportsFencing):
            pytest.skip(f"no SupportsFencing turns off {request.node.name}")
        engine, key = ready(world, WAITS)
        assert isinstance(engine, SupportsFencing)
        with pytest.raises(EngineFault):
            engine.fence(key)
        assert engine.observe([key])[0].phase is Phase.READY

    def test_what_lives_is_known_and_what_is_left_is_found(self, world: World) -> None:
        engine, key = ready(world, WAITS)
        leftover = new_key()
        with world.leftover(leftover):
            attempts = {attempt.key: attempt for attempt in world.engine().list_attempts()}
            assert attempts.keys() == {key, leftover}
            assert (attempts[key].phase, attempts[leftover].phase) == (Phase.READY, Phase.UNKNOWN)
            for attempt in attempts.values():
                assert {part.key for part in attempt.living} == {attempt.key}
            assert list(world.elsewhere().list_attempts()) == []
        world.finish(key)
        assert ended(engine, key).exit_code == 0
        assert [attempt[1:3] for attempt in engine.list_attempts() if attempt.key == key] == [
            (Phase.ENDED, ())
        ]

    def test_a_job_is_forgotten_completely_but_not_while_it_lives(self, world: World) -> None:
        engine, key = ready(world, WAITS)
        other, second = new_key(), AttemptKey(key.uid, 2)
        launch(world, engine, other, FakeProgram())
        assert not engine.forget(key.uid)
        engine.stop(key, order())
        assert ended(engine, key).interrupted
        with world.leftover(second):
            assert not world.engine().forget(key.uid)
        assert ended(engine, other).exit_code == 0
        eventually(lambda: engine.forget(key.uid), "its last processes have gone")
        assert {attempt.key for attempt in engine.list_attempts()} == {other}
        assert list(world.lines(key)) == []
        for server in (engine, world.engine()):
            assert server.observe([key])[0].phase is Phase.UNKNOWN
            assert server.forget(key.uid), "nothing of the job is left"
        eventually(lambda: engine.forget(other.uid), "its last processes have gone")
        assert list(engine.list_attempts()) == []

    def test_installations_do_not_see_each_other(self, world: World) -> None:
        engine, key = ready(world, WAITS)
        other_engine = world.elsewhere()
        assert other_engine.observe([key])[0].phase is Phase.UNKNOWN
        assert list(other_engine.list_attempts()) == []
        assert other_engine.forget(key.uid)
        other_engine.stop(key, order(0.0))
        assert engine.observe([key])[0].phase is Phase.READY

    def test_listeners_are_notified_of_an_end(self, world: World) -> None:
        engine, key, ended_keys = world.engine(), new_key(), list[AttemptKey]()
        engine.listen(ended_keys.extend)
        launch(world, engine, key, WAITS)
        until(engine, key, Phase.READY)
        world.finish(key)
        eventually(lambda: key in ended_keys, "the end is reported")

    def test_closing_ends_threads_and_no_attempt(self, world: World) -> None:
        before = list_threads(world)
        engine, key = world.engine(), new_key()
        engine.listen(lambda _keys: None)
        launch(world, engine, key, WAITS)
        until(engine, key, Phase.READY)
        began = time.monotonic()
        engine.close()
        assert time.monotonic() - began <= 2.5
        assert list_threads(world) <= before
        engine.close()
        assert world.engine().observe([key])[0].phase is Phase.READY
