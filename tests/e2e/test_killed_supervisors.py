"""Supervisors killed by SIGKILL at any moment: nothing of the attempt lives, and the next begins.

A lost attempt is the machine's fault: it is paid for by that budget, until there is none left.
"""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from e2e import trainers
from e2e.chaos import (
    FULL,
    cancel,
    check_doctor,
    counting,
    records,
    replica_texts,
    restarts,
    some_random,
)
from e2e.remains import Remains
from e2e.support import FINAL, custom_job, native, serving, submit, wait_until

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROUNDS = 4 if FULL else 1
CONFIG = "[fleet]\ngrace_s = 1\nslots = 64\n"
#: What ``restarts.infra`` is by default.
BUDGET = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("supervisors") / "data", config=CONFIG) as server:
        yield server
        check_doctor(server)


def submitted(server, kind, code):
    word = f"word-{kind}-{os.urandom(4).hex()}"
    name = submit(server, custom_job(kind, trainers.program(code, word)))
    return name, Remains(server, name, word)


def supervisor_of(folder):
    """Who has locked the folder of an attempt, once that is written down there."""

    def holder():
        with suppress(OSError, ValueError):
            return json.loads((folder / "lock").read_bytes())[0]
        return None

    return wait_until(holder)


def attempt(remains, number):
    """The folder of an attempt, once it is there."""

    def folder():
        return next((path for path in remains.attempts if path.name == str(number)), None)

    return wait_until(folder)


def check_second_is_alone(remains):
    """As soon as the second attempt has begun, nothing of the first lives."""
    second = attempt(remains, 2)
    wait_until(lambda: records(second, "Began"))
    assert not remains.processes(attempt=1)


def kill_and_see(server, kind, code, pause_s):
    """Kill the supervisor some time after it has come; its job goes on with a second attempt."""
    name, remains = submitted(server, kind, code)
    pid = supervisor_of(attempt(remains, 1))
    time.sleep(pause_s)
    os.kill(pid, signal.SIGKILL)
    check_second_is_alone(remains)
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    assert (native(server, name)["attempt"], restarts(server, name)) == (2, {"infra": 1})
    cancel(server, name)
    server.wait_for(f"/v1/{name}", FINAL)
    remains.check_nothing()


def test_nothing_of_its_attempt_lives_and_the_next_begins(server):
    chance = some_random()
    kinds = [*trainers.LIVING.items()] * ROUNDS
    pauses = [chance.choice([0, 0.02, 0.1, chance.random()]) for _ in kinds]
    with ThreadPoolExecutor(len(trainers.LIVING)) as pool:
        tasks = [
            pool.submit(kill_and_see, server, *kind, pause)
            for kind, pause in zip(kinds, pauses, strict=True)
        ]
        for future in tasks:
            future.result()


def test_lines_that_were_read_before_are_there_afterwards(server, tmp_path):
    go = tmp_path / "go"
    name, remains = submitted(server, "talks", counting(go, pause_s=0.001))
    read = wait_until(lambda: server_texts(server, name, at_least=200))
    os.kill(supervisor_of(attempt(remains, 1)), signal.SIGKILL)
    check_second_is_alone(remains)
    server.wait_for(f"/v1/{name}", {"JOB_STATE_RUNNING"})
    go.touch()
    assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    texts = replica_texts(server, name)
    assert texts[: len(read)] == read
    again = texts.index("1", 1)
    assert texts[:again] == [str(number) for number in range(1, again + 1)]
    assert texts[again:-1] == [str(number) for number in range(1, len(texts) - again)]
    assert restarts(server, name) == {"infra": 1}


def server_texts(server, name, *, at_least):
    texts = replica_texts(server, name)
    return texts if len(texts) >= at_least else None


def test_when_the_budget_is_used_up_the_job_fails_and_says_so(server):
    name, remains = submitted(server, "unlucky", trainers.LIVING["daemon"])
    for number in range(1, BUDGET + 2):
        folder = attempt(remains, number)
        wait_until(lambda folder=folder: records(folder, "Ready"))
        os.kill(supervisor_of(folder), signal.SIGKILL)
    job = server.wait_for(f"/v1/{name}", FINAL)
    assert job["state"] == "JOB_STATE_FAILED"
    message = job["error"]["message"]
    assert f"Attempt {BUDGET + 1} was lost (its supervisor was killed)" in message
    assert f"all {BUDGET} restarts are used up" in message
    assert restarts(server, name) == {"infra": BUDGET}
    assert len(remains.attempts) == BUDGET + 1
    remains.check_nothing()


def test_one_that_is_killed_while_its_job_ends_leaves_nothing(server):
    """Before the verdict is written the attempt is lost; afterwards it counts."""
    chance = some_random()
    with ThreadPoolExecutor(8) as pool:
        kinds = [*trainers.ENDING.items()] * ROUNDS
        tasks = [pool.submit(kill_at_end, server, *kind, chance.random() * 0.3) for kind in kinds]
        killed = [future.result() for future in tasks]
    # one that was killed between its last record and its exit leaves an empty box to the next job
    name, _ = submitted(server, "next", "")
    server.wait_for(f"/v1/{name}", {"JOB_STATE_SUCCEEDED"})
    for remains in killed:
        remains.check_nothing()


def kill_at_end(server, kind, how, pause_s):
    code, state = how
    name, remains = submitted(server, kind, code)
    pid = supervisor_of(attempt(remains, 1))
    time.sleep(pause_s)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert server.wait_for(f"/v1/{name}", FINAL)["state"] == state
    remains.check_no_process()
    assert sum(restarts(server, name).values()) == len(remains.attempts) - 1
    return remains
