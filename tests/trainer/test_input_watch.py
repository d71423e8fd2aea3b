"""A training that waits for its input says so in its log while it runs."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from trainshed_trainer.hooks.input_watch import (
    BINDS,
    FREE,
    LASTS_S,
    SAID_MAX,
    STEPS_MIN,
    InputWatch,
)

WAITING = [(1.0, 0.4)] * STEPS_MIN
FED = [(1.0, FREE / 2)] * STEPS_MIN
BETWEEN = [(1.0, (FREE + BINDS) / 2)] * STEPS_MIN


def looked(watch, began, *rounds):
    """What is said of states that last for some seconds each, looked at once a second."""
    texts, now = [], began
    for steps, seconds in rounds:
        for _ in range(seconds):
            texts.append(watch.look(now, steps))
            now += 1.0
    return [text for text in texts if text]


def test_what_lasts_is_said_once_with_what_helps_and_then_taken_back():
    long = int(LASTS_S) + 5
    first, second = looked(InputWatch(), 7.0, (WAITING, 10 * long), (BETWEEN, long), (FED, long))
    assert first.startswith(
        "WARNING: steps wait for their input in 40 % of their time; more loader"
    )
    assert second == "INFO: steps wait for their input no longer"


def test_a_pause_for_an_epoch_or_a_checkpoint_is_not_said():
    short = int(LASTS_S) - 5
    assert not looked(InputWatch(), 0.0, *[(WAITING, short), (FED, 1)] * 20)


def test_a_few_steps_and_steps_without_time_tell_nothing():
    few, still = WAITING[1:], [(0.0, 0.0)] * STEPS_MIN
    assert not looked(InputWatch(), 0.0, (few, 200), (still, 200), ([], 200))


def test_it_is_not_said_for_ever():
    long = int(LASTS_S) + 5
    assert len(looked(InputWatch(), 0.0, *[(WAITING, long), (FED, long)] * 30)) == SAID_MAX


@given(
    st.lists(st.tuples(st.sampled_from([WAITING, FED, BETWEEN]), st.integers(1, 50)), max_size=30)
)
def test_waiting_and_not_waiting_take_turns(rounds):
    texts = looked(InputWatch(), 0.0, *rounds)
    assert all(text.startswith("WARNING") for text in texts[::2])
    assert all(text.startswith("INFO") for text in texts[1::2])


def test_a_trainer_prints_it_where_its_own_lines_go(tmp_path):
    code = """
import time
from trainshed_trainer.hooks import input_watch
from trainshed_trainer import steps
input_watch.LASTS_S = steps.THROTTLE_S = 0.0
times = steps.step_times()
times.watch = input_watch.InputWatch()
for step in range(40):
    time.sleep(0.001)
    times.note(waited_s=1.0)  # more than a tenth of a step, however slow the machine is
print("trained")
"""
    env = {"TRAINSHED_STEPS_FILE": str(tmp_path / "steps.json"), "PATH": "/usr/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "trained\n"
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("WARNING: steps wait for their input in ")
