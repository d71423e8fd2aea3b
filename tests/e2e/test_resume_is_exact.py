"""Stopped at any step, in any way, a job ends with the weights of one that nobody stopped."""

import re
import sys

import pytest

from e2e import fleet
from e2e.chaos import FULL, check_doctor, some_random
from e2e.goodput_by_hand import check_goodput
from e2e.interrupting import (
    LAST_STEPS,
    STEP_S,
    STEPS_PER_STOP,
    WAYS,
    by_the_supervisors_death,
    keras_job,
    small_job,
    torch_job,
)
from e2e.support import custom_job, log_lines, native, serving
from examples.cluster import needs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if FULL else 900)]

#: More supervisors are killed here than anybody loses.
CONFIG = "[restarts]\ninfra = 20\n"

SMALL_STOPS = 8 if FULL else 2
TORCH_STOPS, KERAS_STOPS = 14, 6


#: Keeps one checkpoint; the next attempt looks at it or does not.
KEEPS = """\
import os, sys, time
from trainshed_trainer import local_path
folder = str(local_path(os.environ["AIP_CHECKPOINT_DIR"]))
path = os.path.join(folder, "checkpoint-7")
if os.environ["TRAINSHED_ATTEMPT"] == "2":
    {look}
    sys.exit(0)
with open(path, "w") as file:
    file.write("weights")
print("saved", flush=True)
time.sleep(7200)
"""
LOOKS = {"reads": "open(path).read()", "ignores": "os.listdir(folder)"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("resume") / "data", config=CONFIG) as server:
        fleet.make_bucket(server)
        yield server
        check_doctor(server)


@pytest.fixture(autouse=True)
def node_is_back(server):
    """Whatever became of a test, the next one has its node."""
    yield
    fleet.resume(server)


def test_a_program_of_the_library_alone(server):
    check(server, "small", SMALL_STOPS, small_job)


@pytest.mark.full
@needs("torch")
def test_torch_on_two_replicas(server):
    check(server, "torch", TORCH_STOPS, torch_job)


@pytest.mark.full
@needs("torch")
def test_the_goodput_of_a_training_that_was_killed_twice_is_that_of_its_log(server):
    training = torch_job(server, "torch_killed", 900, STEP_S, save_every=200)
    for number, step in enumerate((350, 560), 1):
        fleet.running(server, training.name, number)
        training.wait_until(lambda least=step: newest_step(server, training) >= least)
        by_the_supervisors_death(training)
    training.weights()
    assert starts(server, training) == ["0", "200", "400"]
    check_goodput(server, training.name, primary_of(server, training.name))


def newest_step(server, training):
    """The newest step of the living attempt, as the goodput of the job has it."""
    attempts = native(server, training.name, "/goodput")["attempts"]
    return (attempts[-1]["last_step"] or 0) if attempts else 0


@pytest.mark.full
@needs("tensorflow")
def test_keras(server, tmp_path):
    check(server, "keras", KERAS_STOPS, lambda *job: keras_job(*job, tmp_path))


def check(server, name, stops, submit):
    """Once straight on, once with stops at random steps."""
    chance = some_random()
    steps = LAST_STEPS + stops * STEPS_PER_STOP
    straight = submit(server, f"{name}_straight", steps, 0).weights()
    training = submit(server, f"{name}_stopped", steps, STEP_S)
    ways = a_shuffle(chance, stops)
    for number, step in enumerate(sorted(chance.sample(range(5, steps - LAST_STEPS), stops)), 1):
        fleet.running(server, training.name, number)
        # its supervisor may be killed, and with it what it has not read yet
        training.wait_until(lambda count=number: len(starts(server, training)) == count)
        training.wait_for(step)
        way = ways[number - 1].__name__
        sys.stdout.write(f"stop {number} of {stops} at about step {step} of {steps}: {way}\n")
        ways[number - 1](training)
    assert training.weights() == straight, fleet.story_text(server, training.name)
    check_the_story(server, training, ways)
    check_goodput(server, training.name, primary_of(server, training.name))


def a_shuffle(chance, count):
    """So many ways, each as often as the others, in any order."""
    ways = [WAYS[number % len(WAYS)] for number in range(count)]
    chance.shuffle(ways)
    return ways


def check_the_story(server, training, ways):
    """Every stop was one, and was counted for what it was."""
    job = native(server, training.name)
    assert job["attempt"] == len(ways) + 1
    killed = ways.count(by_the_supervisors_death)
    assert job["restarts"] == {"maintenance": len(ways) - killed, "infra": killed, "user": 0}
    words = "\n".join(primary_lines(server, training.name))
    assert len(starts(server, training)) == len(ways) + 1, words
    for step in re.findall(r"told to stop at step (\d+)", words):
        where = "what was saved at a notice is where it goes on"
        assert step in starts(server, training), f"{where}: {words}"


def starts(server, training):
    """The steps that its attempts began at."""
    words = "\n".join(primary_lines(server, training.name))
    return re.findall(r"^(?:resumed from|started at) step (\d+)$", words, re.MULTILINE)


def primary_lines(server, name):
    """What the primary has printed; the dialects name it differently."""
    return fleet.output_lines(server, name, primary_of(server, name))


def primary_of(server, name):
    """The task name of the primary."""
    replicas = native(server, name)["replicas"]
    return next(row["taskName"] for row in replicas if row["role"] == "primary")


def test_only_who_ignores_its_checkpoint_is_warned(server):
    jobs = {
        kind: fleet.begun(
            server, fleet.in_bucket(custom_job(kind, KEEPS.format(look=look)), kind), "saved"
        )
        for kind, look in LOOKS.items()
    }
    for name in jobs.values():
        fleet.maintained(server, name, 0)
    fleet.resume(server)
    for name in jobs.values():
        assert fleet.ended(server, name)["attempt"] == 2
    assert warnings(server, jobs["reads"]) == []
    (warning,) = warnings(server, jobs["ignores"])
    assert "opened none of the 1 files" in warning
    assert "/results/ignores/checkpoints/checkpoint-7" in warning


def warnings(server, name):
    """What the log warns of beside the restart itself."""
    lines = log_lines(server, name)
    return [
        line["message"]
        for line in lines
        if line["severity"] == "WARNING" and "checkpoint" in line["message"]
    ]
