"""Reducers among the replicas of an attempt: they wait for others, and never decide anything."""

from types import SimpleNamespace

import pytest

from engines.attempts import KEY, ended, engine_at, observe, order, record
from engines.support import FOREVER, cluster, plan_of, python_replica, wait_until
from trainshed.engines.supervise.commands import compose_command
from trainshed.engines.supervise.judging import have_settled
from trainshed.model.attempt import Phase
from trainshed.model.roles import Role

HANG_S = 3.0


def with_reducer(mark, *codes, reducer=FOREVER):
    return plan_of([*cluster(*codes), python_replica(Role.REDUCER, 0, reducer)], mark)


def test_a_reducer_that_waits_while_others_compute_does_not_hang(root, mark):
    """It is as silent as the worker, and was started with it."""
    engine = engine_at(root, hang_s=HANG_S, hang_stacks=False)
    engine.launch(KEY, with_reducer(mark, "while True: pass", FOREVER), ())
    hung = wait_until(lambda: observe(engine).hung, "the worker hangs")
    assert [hang.task_name for hang in hung] == ["worker-replica-0"]
    engine.stop(KEY, order(0.0))
    ended(engine)


def test_it_is_stopped_when_the_job_is_done_and_that_is_no_failure(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, with_reducer(mark, "", "print('last')"), ())
    outcome = ended(engine).outcome
    assert outcome.exit_code == 0
    assert {e.task_name: e.stopped_by_us for e in outcome.replicas}["reducer-replica-0"]


def test_one_that_dies_ends_the_job_and_is_named(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, with_reducer(mark, FOREVER, reducer="import sys; sys.exit('no memory')"), ())
    observed = ended(engine)
    assert observed.phase is Phase.ENDED
    assert observed.outcome.exit_code == 1
    assert observed.outcome.message.startswith("reducer-replica-0 exited with code 1")
    assert observed.outcome.message.endswith("no memory")
    assert record(root, "Decided") is not None


@pytest.mark.parametrize(("living", "settled"), [({0, 1, 2}, False), ({1, 2}, False), ({2}, True)])
def test_only_those_that_end_by_themselves_are_waited_for(living, settled):
    roles = (Role.PRIMARY, Role.WORKER, Role.REDUCER)
    spec = SimpleNamespace(replicas=[SimpleNamespace(role=role) for role in roles])
    assert have_settled(spec, SimpleNamespace(living=dict.fromkeys(living, 1))) is settled


def test_the_packages_of_the_job_are_not_a_reducer_s():
    plan = with_reducer("", "")
    primary, reducer = [
        compose_command(replica, packages=("/cache/1",), base={"PYTHONPATH": "/ours"})
        for replica in plan.replicas
    ]
    assert primary.env["PYTHONPATH"] == "/cache/1:/ours"
    assert reducer.env["PYTHONPATH"] == "/ours"
