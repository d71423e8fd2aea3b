"""What somebody else does to a job of ours on a real cluster, and what is said of it."""

import pytest

from slurm.world import SlurmWorld
from trainshed.model.attempt import AttemptKey, Loss, Phase
from trainshed.model.explanation import Reason
from trainshed.testing.engine_steps import (
    ended,
    eventually,
    launch,
    launched,
    new_key,
    ready,
    until,
)
from trainshed.testing.engine_world import SERVES, WAITS, FakeProgram

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300)]


@pytest.fixture
def world(cluster, tmp_path):
    world = SlurmWorld(cluster, tmp_path)
    yield world
    world.close()


def number_of(cluster, key):
    """Slurm's own number of an attempt."""
    rows = (line.split() for line in cluster.jobs("%A %k"))
    return next(number for number, comment, *_ in rows if comment == str(key))


def runs(cluster, number):
    return cluster.run("squeue", "-h", "-j", number, "-o", "%T", check=False).strip() == "RUNNING"


def test_a_job_that_somebody_cancels_is_an_operators_decision(world, cluster):
    engine, key = ready(world, WAITS)
    number = number_of(cluster, key)
    cluster.run("scancel", number)
    observation = until(engine, key, Phase.LOST, Phase.ENDED)
    assert (observation.phase, observation.loss) == (Phase.LOST, Loss.OPERATOR)
    who = "someone other than this server"  # without accounts, Slurm does not know
    assert f"{who} cancelled the Slurm job {number} (scancel) at 20" in observation.fault


def test_a_job_that_somebody_holds_waits_and_says_so(world, cluster):
    with world.busy():
        engine, key = launched(world, WAITS)
        until(engine, key, Phase.WAITING)
        number = number_of(cluster, key)
        cluster.run("scontrol", "hold", number)
        eventually(
            lambda: [
                observation
                for observation in engine.observe([key])
                if observation.waits is not None and observation.waits.reason is Reason.HELD
            ],
            "it is said that it is held",
        )
        cluster.run("scontrol", "release", number)
    until(engine, key, Phase.READY)
    world.finish(key)
    assert ended(engine, key).exit_code == 0


def test_a_job_that_somebody_suspends_stands_still_and_goes_on(world, cluster):
    engine, key = ready(world, WAITS)
    number = number_of(cluster, key)
    eventually(lambda: runs(cluster, number), "it runs")
    cluster.run("scontrol", "suspend", number)
    observation = eventually(
        lambda: [
            observation for observation in engine.observe([key]) if observation.waits is not None
        ],
        "it is said that it stands still",
    )[0]
    assert (observation.phase, observation.waits.reason) == (Phase.READY, Reason.HELD)
    cluster.run("scontrol", "resume", number)
    world.finish(key)
    assert ended(engine, key).exit_code == 0


def test_a_job_that_somebody_requeues_is_lost_and_starts_no_second_time(world, cluster):
    engine, key = ready(world, WAITS)
    number = number_of(cluster, key)
    cluster.run("scontrol", "update", f"jobid={number}", "requeue=1")
    cluster.run("scontrol", "requeue", number)
    observation = until(engine, key, Phase.LOST, Phase.ENDED)
    assert (observation.phase, observation.loss) == (Phase.LOST, Loss.INFRA)
    assert "requeued" in observation.fault
    eventually(lambda: not cluster.jobs(), "it has left the queue")
    assert world.started(key) == 1


def test_a_job_whose_node_dies_is_lost_and_the_next_attempt_is_elsewhere(world, cluster):
    engine, key = ready(world, WAITS)
    (seat,) = eventually(lambda: engine.observe([key])[0].placed, "it is known where it is")
    cluster.kill_node(seat.node)
    observation = until(engine, key, Phase.LOST, Phase.ENDED)
    assert (observation.phase, observation.loss) == (Phase.LOST, Loss.INFRA)
    assert seat.node in observation.fault
    second = AttemptKey(key.uid, 2)
    launch(world, engine, second, WAITS)
    until(engine, second, Phase.READY)
    (other,) = eventually(lambda: engine.observe([second])[0].placed, "it is known where it is")
    assert other.node != seat.node
    world.finish(second)
    assert ended(engine, second).exit_code == 0


def test_a_node_that_does_not_see_the_spool_is_named_and_avoided(world, cluster):
    node = cluster.nodes[0]  # the first that Slurm gives
    cluster.hide_from(node, cluster.shared)
    engine, key = launched(world, WAITS)
    observation = until(engine, key, Phase.LOST, Phase.ENDED)
    assert (observation.phase, observation.loss) == (Phase.LOST, Loss.INFRA)
    assert f"never began on {node}" in observation.fault
    second = AttemptKey(key.uid, 2)
    launch(world, engine, second, WAITS)
    until(engine, second, Phase.READY)
    (seat,) = eventually(lambda: engine.observe([second])[0].placed, "it is known where it is")
    assert seat.node != node
    world.finish(second)
    assert ended(engine, second).exit_code == 0
    cluster.kill_node(node)


def test_slurm_counts_a_job_by_the_end_of_its_attempt(world, cluster):
    statuses = {}
    for code in (0, 3):
        engine, key = launched(world, FakeProgram(exit_code=code))
        assert ended(engine, key).exit_code == code
        statuses[f"-{key.uid}"] = f"{code}:0"

    def list_statuses():
        rows = [(row["Name"], row["ExitCode"]) for row in cluster.finished()]
        counted = {end: code for name, code in rows for end in statuses if name.endswith(end)}
        return counted == statuses

    eventually(list_statuses, "Slurm has counted both")


def test_a_restarted_controller_ends_nothing(world, cluster):
    engine, key = ready(world, WAITS, SERVES)
    cluster.stop_controller()
    until(engine, key, Phase.UNKNOWN)
    assert eventually(engine.health, "it is said").reason is Reason.ENGINE_AWAY
    cluster.start_controller()
    until(engine, key, Phase.READY)
    world.finish(key)
    assert ended(engine, key).exit_code == 0


def test_a_controller_without_its_state_loses_no_end_and_doubles_nothing(world, cluster):
    engine, key = ready(world, WAITS)
    waiting = new_key()
    cluster.stop_controller()
    cluster.forget_state()
    cluster.start_controller()
    observation = until(engine, key, Phase.LOST, Phase.ENDED)
    assert observation.phase is Phase.LOST
    launch(world, engine, waiting, FakeProgram(exit_code=7))
    assert ended(engine, waiting).exit_code == 7
    assert world.started(key) == 1
