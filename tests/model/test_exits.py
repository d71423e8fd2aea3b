"""A failed job's error says once how its replica ended, and what it wrote last."""

import pytest

from trainshed.model.attempt import Outcome, ReplicaExit
from trainshed.model.exits import describe_exit, failure, when_stopped
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
    "a signal that nobody has explained": (
        {"exit_code": None, "signal": 9},
        "workerpool0-0 was killed by SIGKILL (out of memory?) after 0.1 s: step 7",
        "step 7",
        f"{SENTENCE} 137 (SIGKILL, out of memory?). step 7",
    ),
    "the want of memory": (
        {"exit_code": None, "signal": 9, "oom": True, "peak_memory_bytes": 2 << 30},
        "workerpool0-0 was killed by SIGKILL: out of memory (peak 2.0 GiB) after 0.1 s",
        "",
        f"{SENTENCE} 137 (SIGKILL): out of memory; peak memory 2.0 GiB.",
    ),
    "a child's want of memory": (
        {"exit_code": 1, "signal": None, "oom": True, "peak_memory_bytes": 310 << 20},
        "workerpool0-0 exited with code 1 after 0.1 s: BrokenProcessPool",
        "BrokenProcessPool",
        f"{SENTENCE} 1: out of memory; peak memory 310 MiB. BrokenProcessPool",
    ),
    "a crash": (
        {"exit_code": None, "signal": 11, "peak_memory_bytes": 3 << 29},
        "workerpool0-0 was killed by SIGSEGV after 0.1 s",
        "",
        f"{SENTENCE} 139 (SIGSEGV); peak memory 1.5 GiB.",
    ),
    "shared memory": (
        {"exit_code": None, "signal": 7, "peak_memory_bytes": 1 << 20},
        "workerpool0-0 was killed by SIGBUS after 0.1 s",
        "",
        f"{SENTENCE} 135 (SIGBUS, is /dev/shm full?); peak memory 1 MiB.",
    ),
    "SIGKILL from outside, where memory was watched": (
        {"exit_code": None, "signal": 9, "peak_memory_bytes": 1 << 20},
        "workerpool0-0 was killed by SIGKILL after 0.1 s",
        "",
        f"{SENTENCE} 137 (SIGKILL); peak memory 1 MiB.",
    ),
    "a real-time signal": (
        {"exit_code": None, "signal": 40},
        "workerpool0-0 was killed by signal 40 after 0.1 s",
        "",
        f"{SENTENCE} 168 (signal 40).",
    ),
}


def exit_of(task_name="workerpool0-0", **fields):
    return ReplicaExit(
        **{
            "role": Role.PRIMARY,
            "index": 0,
            "task_name": task_name,
            "seconds": 0.1,
            "stopped_by_us": False,
            **fields,
        }
    )


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_said_twice(case):
    fields, message, last_words, expected = CASES[case]
    ended = exit_of(**fields)
    outcome = Outcome(
        exit_code=ended.status, replicas=(ended,), message=message, last_words=last_words
    )
    assert failure(outcome, None) == expected


def test_a_replica_out_of_memory_is_named_though_another_one_decides():
    deciding = exit_of(exit_code=1, signal=None)
    starved = exit_of(
        "workerpool1-3",
        role=Role.WORKER,
        index=3,
        exit_code=None,
        signal=9,
        oom=True,
        peak_memory_bytes=4 << 30,
    )
    outcome = Outcome(
        exit_code=1, replicas=(deciding, starved), message="", last_words="Connection reset by peer"
    )
    assert failure(outcome, None) == (
        f"{SENTENCE} 1. The replica workerpool1-3 was out of memory; peak memory 4.0 GiB. "
        "Connection reset by peer"
    )


STOPPED = {"stopped_by_us": True, "exit_code": None, "signal": 15}
NOTICED = {
    "ended by itself 3.2 s after the notice": {**STOPPED, "notice_s": 3.2},
    "ended by itself after the notice": STOPPED,
    "had to be killed 120.0 s after the notice": {**STOPPED, "killed": True, "notice_s": 120.0},
    "exited with code 0 after 0.1 s": {"exit_code": 0, "signal": None},
    "was killed by SIGSEGV after 0.1 s": {"exit_code": None, "signal": 11},
}


@pytest.mark.parametrize("words", NOTICED)
def test_a_notice_is_told_with_what_came_of_it(words):
    assert when_stopped(exit_of(**NOTICED[words]), noticed=True) == words


def test_what_had_no_notice_was_stopped():
    assert when_stopped(exit_of(**STOPPED), noticed=False) == "was stopped after 0.1 s"
    assert (
        when_stopped(exit_of(**STOPPED, killed=True), noticed=False)
        == "had to be killed after 0.1 s"
    )


@pytest.mark.parametrize(
    ("ended", "facts", "words"),
    [
        (
            {"signal": 9},
            {"machine_oom": True},
            "was killed by SIGKILL while the machine was out of memory",
        ),
        (
            {"exit_code": 1, "oom": True},
            {"children_killed": 2, "limit_bytes": 1 << 30},
            (
                "exited with code 1 after 2 of its processes had been killed:"
                " out of memory at its limit of 1.0 GiB"
            ),
        ),
        (
            {"signal": 9, "oom": True},
            {"children_killed": 1},
            "was killed by SIGKILL: out of memory",
        ),
    ],
)
def test_a_supervisor_says_what_the_kernel_did(ended, facts, words):
    fields = {"exit_code": None, "signal": None, "stopped_by_us": False, **ended}
    replica = ReplicaExit(
        role=Role.PRIMARY, index=0, task_name="workerpool0-0", seconds=0.1, **fields
    )
    assert describe_exit(replica, **facts) == words
