"""A failed job's error says once how its replica ended, and what it wrote last."""

import pytest

from trainshed.controller.words import failure
from trainshed.engines.base import AttemptKey, Observation, Outcome, Phase, ReplicaExit
from trainshed.model.roles import Role

SENTENCE = "The replica workerpool0-0 exited with a non-zero status of"
CASES = {
    "a code": (
        {"exit_code": 4, "signal": None},
        "workerpool0-0 exited with code 4 after 0.1 s: ValueError: no data",
        "ValueError: no data",
        f"{SENTENCE} 4. ValueError: no data",
    ),
    "a code without a word": (
        {"exit_code": 4, "signal": None},
        "workerpool0-0 exited with code 4 after 0.1 s",
        "",
        f"{SENTENCE} 4.",
    ),
    "a signal, whose name says more": (
        {"exit_code": None, "signal": 9},
        "workerpool0-0 was killed by SIGKILL (out of memory?) after 0.1 s",
        "",
        f"{SENTENCE} 137. workerpool0-0 was killed by SIGKILL (out of memory?) after 0.1 s",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_said_twice(case):
    how, message, last_words, told = CASES[case]
    ended = ReplicaExit(
        role=Role.PRIMARY,
        index=0,
        task_name="workerpool0-0",
        seconds=0.1,
        stopped_by_us=False,
        **how,
    )
    outcome = Outcome(
        exit_code=ended.status, replicas=(ended,), message=message, last_words=last_words
    )
    seen = Observation(key=AttemptKey(1, 1), phase=Phase.ENDED, outcome=outcome)
    assert failure(seen) == told
