"""The tests for engines that choose the nodes of an attempt, such as those with a queue."""
# ruff: noqa: S101, PLR2004 - tests by name, made of asserts and expected numbers

import signal
from typing import Final

import pytest

from trainshed.engines.base import PlacedBy
from trainshed.model.attempt import Loss, Phase
from trainshed.model.roles import Role
from trainshed.testing.engine_steps import (
    FINAL,
    ended,
    eventually,
    launch,
    launched,
    living,
    new_key,
    order,
    ready,
    until,
    wait_for_seats,
)
from trainshed.testing.engine_world import WAITS, FakeProgram, QueueWorld

#: The exit code of a program that SIGTERM ended.
TERMINATED: Final = 128 + signal.SIGTERM


class QueueContract:
    """The tests for engines with a queue; other engines skip them."""

    @pytest.fixture
    def queue(self, world: QueueWorld, request: pytest.FixtureRequest) -> QueueWorld:
        places = world.engine().traits.places
        if places is not PlacedBy.ENGINE:
            pytest.skip(f"Traits.places = {places.value} turns off {request.node.name}")
        return world

    def test_a_queued_attempt_reports_its_reason_and_then_its_nodes(
        self, queue: QueueWorld
    ) -> None:
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
            seats = wait_for_seats(server, key)
            where = {(seat.role, seat.index) for seat in seats}
            assert where == {(Role.PRIMARY, 0), (Role.WORKER, 0)}
            assert {seat.node for seat in seats} <= nodes
        eventually(lambda: queue.started(key) == 2, "all programs run")
        queue.finish(key)
        assert ended(engine, key).exit_code == 0

    def test_an_attempt_that_is_stopped_in_the_queue_never_starts(self, queue: QueueWorld) -> None:
        with queue.busy():
            engine, key = launched(queue, WAITS)
            until(engine, key, Phase.WAITING)
            queue.engine().stop(key, order())
            outcome = ended(engine, key)
            assert (outcome.exit_code, outcome.replicas, outcome.interrupted) == (
                TERMINATED,
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
            observation = until(server, key, *FINAL)
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
        eventually(lambda: other.forget(key.uid), "nothing of it is in the queue")
        assert engine.observe([key])[0].phase is Phase.READY
        queue.finish(key)
        assert ended(engine, key).exit_code == 0
