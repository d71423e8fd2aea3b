"""A training that waits for its input says so in its log while it runs."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from trainshed_trainer.hooks.input_watch import (
    BOUND_SHARE,
    FREE_SHARE,
    LASTING_S,
    LINES_MAX,
    STEPS_MIN,
    InputWatch,
)

WAITING = [(1.0, 0.4)] * STEPS_MIN
FED = [(1.0, FREE_SHARE / 2)] * STEPS_MIN
BETWEEN = [(1.0, (FREE_SHARE + BOUND_SHARE) / 2)] * STEPS_MIN


def collect_lines(watch, began, *rounds):
    """Collect the lines for (steps, seconds) rounds, with an update once a second."""
    texts, now = [], began
    for steps, seconds in rounds:
        for _ in range(seconds):
            texts.append(watch.update(now, steps))
            now += 1.0
    return [text for text in texts if text]


def test_a_lasting_wait_is_logged_once_and_its_end_too():
    long = int(LASTING_S) + 5
    first, second = collect_lines(
        InputWatch(), 7.0, (WAITING, 10 * long), (BETWEEN, long), (FED, long)
    )
    assert first.startswith(
        "WARNING: steps wait for their input in 40 % of their time; more loader"
    )
    assert second == "INFO: steps no longer wait for their input"


def test_a_short_wait_is_not_logged():
    short = int(LASTING_S) - 5
    assert not collect_lines(InputWatch(), 0.0, *[(WAITING, short), (FED, 1)] * 20)


def test_few_steps_or_steps_without_duration_are_not_judged():
    few, still = WAITING[1:], [(0.0, 0.0)] * STEPS_MIN
    assert not collect_lines(InputWatch(), 0.0, (few, 200), (still, 200), ([], 200))


def test_the_number_of_lines_is_limited():
    long = int(LASTING_S) + 5
    assert len(collect_lines(InputWatch(), 0.0, *[(WAITING, long), (FED, long)] * 30)) == LINES_MAX


@given(
    st.lists(st.tuples(st.sampled_from([WAITING, FED, BETWEEN]), st.integers(1, 50)), max_size=30)
)
def test_waiting_and_not_waiting_take_turns(rounds):
    texts = collect_lines(InputWatch(), 0.0, *rounds)
    assert all(text.startswith("WARNING") for text in texts[::2])
    assert all(text.startswith("INFO") for text in texts[1::2])


def test_a_trainer_prints_the_line_to_stderr(tmp_path):
    code = """
import time
from trainshed_trainer.hooks import input_watch
from trainshed_trainer import steps
input_watch.LASTING_S = steps.THROTTLE_S = 0.0
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
