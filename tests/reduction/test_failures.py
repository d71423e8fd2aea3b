"""Whatever dies, stands still or is cut off: every survivor hears of it, and whose fault it was."""

import contextlib
import signal
import socket
import sys
import time

import pytest
from benchmarks.reduction import shaped_network as shaped

from reduction.stage import ACTOR, FULL, Actor, cast, nursery, some_random

pytestmark = pytest.mark.slow

KILLS = 500 if FULL else 8
#: Promised is 2 s (docs/sources/reduction.md 5); a busy machine may take longer to say so.
TOLD_S = 10.0
#: Long enough that a process which stands still for two seconds is not taken for lost.
TIMEOUT_S = 4.0
#: How long a group that is formed waits for who does not come.
JOIN_S = 4.0
SIZES = [1, 1000, 70_000, 300_000]


@pytest.fixture(scope="module")
def fork():
    with nursery() as parent:
        yield parent.fork


@contextlib.contextmanager
def on_stage(*args, **settings):
    stage = cast(*args, **settings)
    try:
        yield stage
    finally:
        stage.close()


def actor_named(stage, name):
    return next(actor for actor in [*stage.workers, *stage.reducers] if actor.name == name)


def check_all_heard(stage, victim, since, most_s, *, culprit=None):
    """Every survivor has raised in time and names the victim; no sum was wrong."""
    ends = stage.ends(but=[victim])
    seconds = max(end["at"] for end in ends.values()) - since
    sys.stdout.write(f"{victim.name}: the last of {len(ends)} has heard after {seconds:.3f} s\n")
    assert {end["culprit"] for end in ends.values()} == {culprit or victim.name}, ends
    assert all(end["wrong"] == 0 and end["rounds"] > 0 for end in ends.values())
    assert seconds < most_s
    return ends


@pytest.mark.parametrize(
    ("workers", "reducers", "hybrid", "name"),
    [
        (3, 2, False, "worker 1"),
        (3, 2, False, "reducer 1"),
        (2, 1, False, "worker 0"),
        (2, 1, False, "reducer 0"),
        (4, 2, True, "worker 3"),
        (4, 2, True, "reducer 0"),
        (3, 0, True, "worker 2"),
    ],
)
def test_a_kill_is_heard_of_by_every_survivor(fork, workers, reducers, hybrid, name):
    with on_stage(fork, workers, reducers, hybrid=hybrid, sizes=SIZES) as stage:
        victim = actor_named(stage.going(), name)
        since = time.monotonic()
        victim.signal(signal.SIGKILL)
        for end in check_all_heard(stage, victim, since, TOLD_S).values():
            assert f"{name} is lost" in end["error"]


@pytest.mark.parametrize("name", ["worker 1", "reducer 1"])
def test_one_that_stands_still_is_heard_of_when_the_timeout_is_over(fork, name):
    with on_stage(fork, 3, 2, sizes=SIZES, timeout=TIMEOUT_S) as stage:
        victim = actor_named(stage.going(), name)
        since = time.monotonic()
        victim.signal(signal.SIGSTOP)
        ends = check_all_heard(stage, victim, since, 2 * TIMEOUT_S + TOLD_S)
        assert all("has been silent for 4 s" in end["error"] for end in ends.values())
        assert min(end["at"] for end in ends.values()) - since > TIMEOUT_S / 2
        victim.signal(signal.SIGCONT)
        if victim in stage.workers:
            assert victim.until("error")["culprit"] == name


@pytest.mark.parametrize("name", ["worker 1", pytest.param("reducer 1", marks=pytest.mark.full)])
def test_one_that_stands_still_for_a_moment_is_waited_for(fork, name):
    with on_stage(fork, 3, 2, sizes=SIZES, rounds=200) as stage:
        victim = actor_named(stage.going(), name)
        victim.signal(signal.SIGSTOP)
        time.sleep(0.7)  # nothing happens meanwhile that could be waited for
        victim.signal(signal.SIGCONT)
        for end in stage.ends().values():
            assert (end["error"], end["wrong"], end["rounds"]) == (None, 0, 200)


@pytest.mark.parametrize("name", ["worker 1", "reducer 1"])
def test_one_that_is_killed_while_the_group_is_formed_is_no_reason_to_hang(fork, name):
    """Who has not come has no connection that could be lost: then it is time that ends it."""
    with on_stage(fork, 3, 2, sizes=SIZES, join_timeout=JOIN_S) as stage:
        victim = actor_named(stage, name)
        victim.signal(signal.SIGKILL)
        for end in stage.ends(but=[victim]).values():
            assert end["wrong"] == 0
            assert end["culprit"] == name or "not every worker has connected" in end["error"]


@pytest.mark.parametrize("cut", [1, pytest.param(4, marks=pytest.mark.full)])
def test_a_link_that_is_cut_is_heard_of_when_the_timeout_is_over(cut):
    """Host 1 is a worker's, host 4 a reducer's; the worker that is cut off must not hang either."""
    if reason := shaped.why_not():
        pytest.skip(reason)
    with shaped.network(5, 1000) as net, contextlib.ExitStack() as stack:

        def fork(name):
            kind, number = name.split()
            ours, theirs = socket.socketpair()
            stack.callback(ours.close)
            with theirs:
                host = int(number) + 3 * (kind == "reducer")
                net.start(host, [sys.executable, str(ACTOR)], stdin=theirs, stdout=theirs)
            return Actor(ours, name)

        where = [net.address(host) for host in range(5)]
        settings = {"sizes": SIZES, "hosts": where, "timeout": TIMEOUT_S}
        stage = stack.enter_context(on_stage(fork, 3, 2, **settings)).going()
        victim = [*stage.workers, *stage.reducers][cut]
        since = time.monotonic()
        net.cut(cut)
        check_all_heard(stage, victim, since, 2 * TIMEOUT_S + TOLD_S)
        if victim in stage.workers:
            assert victim.until("error")["wrong"] == 0


def test_kills_at_any_moment_hang_nobody_and_blame_the_right_one(fork):
    """Small worlds, so that most kills meet several rounds in several states."""
    chance, slowest = some_random(), 0.0
    for number in range(KILLS):
        workers, reducers = chance.randint(2, 3), chance.randint(1, 2)
        hybrid = reducers < workers and chance.random() < 0.3
        sizes = chance.sample([1, 500, 30_000, 200_000, 500_000], 3)
        with on_stage(fork, workers, reducers, hybrid=hybrid, sizes=sizes) as stage:
            victim = chance.choice([*stage.going().workers, *stage.reducers])
            time.sleep(chance.random() * 0.05)  # the moment is what is drawn
            since = time.monotonic()
            victim.signal(signal.SIGKILL)
            ends = stage.ends(but=[victim])
        culprits = {end["culprit"] for end in ends.values()}
        assert culprits == {victim.name}, (number, victim.name, ends)
        assert all(end["wrong"] == 0 for end in ends.values()), (number, ends)
        slowest = max(slowest, *(end["at"] - since for end in ends.values()))
    sys.stdout.write(f"{KILLS} kills, the slowest was heard of after {slowest:.3f} s\n")
    assert slowest < TOLD_S
