"""The store's time goes on when somebody sets the machine's clock, and draws near to it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine

from store.builders import LEASE_S, NS_PER_S, SERVER, HandClock, add, go, place
from trainshed.model.status import JobState
from trainshed.planning.goodput import job_goodput
from trainshed.service.goodput.facts import goodput_facts
from trainshed.store import clock_jumps, steady_clock
from trainshed.store.clock_jumps import ClockJump
from trainshed.store.opening import open_store
from trainshed.store.records.steps import NewEvent
from trainshed.store.steady_clock import SteadyClock
from trainshed.store.tables import METADATA

HOUR_S = 3600
MS = 1_000_000


class Machine:
    """A wall clock that can be set, and the time since the machine was started, which cannot."""

    def __init__(self):
        self.wall_ns = HandClock().now_ns
        self.up_ns = 777 * NS_PER_S

    def wall(self):
        return self.wall_ns

    def up(self):
        return self.up_ns

    def clock(self):
        return SteadyClock(self.wall, self.up)

    def wait(self, seconds):
        self.wall_ns += int(seconds * NS_PER_S)
        self.up_ns += int(seconds * NS_PER_S)

    def set_clock(self, seconds):
        self.wall_ns += int(seconds * NS_PER_S)


waits = st.integers(0, 100_000 * MS)
sets = st.integers(-10_000 * NS_PER_S, 10_000 * NS_PER_S) | st.just(0)


@given(st.lists(st.tuples(waits, sets)))
def test_it_never_goes_back_and_is_never_a_tenth_too_fast_or_too_slow(changes):
    machine = Machine()
    clock = machine.clock()
    first_ns, up_ns, before = clock(), machine.up_ns, clock()
    for waited_ns, set_ns in changes:
        machine.wall_ns += waited_ns + set_ns
        machine.up_ns += waited_ns
        now_ns = clock()
        assert abs(now_ns - before - waited_ns) <= waited_ns / 10
        assert now_ns >= before
        before = now_ns
    passed_ns = machine.up_ns - up_ns
    assert abs(before - first_ns - passed_ns) <= passed_ns / 10


@given(st.lists(waits, min_size=1))
def test_it_is_the_wall_clock_while_nobody_sets_that(waited):
    machine = Machine()
    clock = machine.clock()
    for waited_ns in waited:
        machine.wall_ns += waited_ns
        machine.up_ns += waited_ns
        assert clock() == machine.wall_ns
    assert clock.skew_s() == 0


@given(st.integers(-3 * HOUR_S, 3 * HOUR_S), st.floats(0.001, 600))
def test_it_is_the_wall_clock_again_after_ten_times_the_step(step_s, tick_s):
    machine = Machine()
    clock = machine.clock()
    machine.set_clock(step_s)
    assert clock.skew_s() == pytest.approx(step_s)
    machine.wait(5 * abs(step_s))
    assert abs(clock.skew_s()) == pytest.approx(abs(step_s) / 2)
    machine.wait(5 * abs(step_s) + tick_s)
    assert clock() == machine.wall_ns


def test_threads_see_it_go_forward_only():
    clock = SteadyClock()

    def looks(_):
        times = [clock() for _ in range(2000)]
        return times == sorted(times)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(looks, range(4)))


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def steady(url, machine):
    opened = open_store(url, machine.clock())
    yield opened
    opened.close()


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_step_of_an_hour_ends_no_lease_and_no_deadline(steady, machine, step_s):
    steady.join(SERVER, LEASE_S)
    waits, runs = (add(steady, waiting_s_max=600.0, running_s_max=600.0).uid for _ in range(2))
    place(steady, runs)
    go(steady, runs, JobState.RUNNING)
    machine.set_clock(step_s)
    assert list(steady.servers()) == [SERVER]
    assert list(steady.take_over(SERVER)) == []
    assert steady.clock_skew_s() == pytest.approx(step_s)
    machine.wait(500)
    assert not steady.due(limit=9)
    machine.wait(200)
    assert {due.uid for due in steady.due(limit=9)} == {waits, runs}
    assert not steady.servers(), "what really passes still counts"
    assert steady.job_by_uid(runs).ran_s == pytest.approx(700, rel=0.11)


def test_who_opens_the_store_after_the_step_agrees_with_who_had_it_before(url, machine):
    first = open_store(url, machine.clock())
    uid = add(first, waiting_s_max=600.0).uid
    first.join(SERVER, LEASE_S)
    machine.set_clock(HOUR_S)
    if url.startswith("sqlite"):
        first.close()
        second = open_store(url, machine.clock())
    else:
        second = open_store(url, machine.clock())
        assert list(second.servers()) == [SERVER], "it is not taken for dead"
        first.close()
    assert second.clock_skew_s() == pytest.approx(HOUR_S)
    assert not second.due(limit=9)
    machine.wait(700)
    assert [due.uid for due in second.due(limit=9)] == [uid]
    second.close()


def test_a_clock_that_was_days_wrong_is_put_right_by_a_restart(url, machine):
    open_store(url, machine.clock()).close()
    machine.set_clock(3 * 24 * HOUR_S)
    second = open_store(url, machine.clock())
    assert second.clock_skew_s() == 0
    second.close()


DAYS_400_S = 400 * 24 * HOUR_S


@pytest.fixture(params=[False, True], ids=["same boot", "next boot"])
def set_clock(request, machine, monkeypatch):
    """Sets the clock of the machine, and starts it anew or not."""

    def set_by(seconds):
        machine.set_clock(seconds)
        if request.param:
            monkeypatch.setattr(steady_clock, "_name", lambda: "clock of another start")
            machine.up_ns = 0

    return set_by


@pytest.fixture
def others_are_dead(monkeypatch):
    """A server that starts need not wait to see that no other renews its lease."""
    monkeypatch.setattr(steady_clock, "RENEWED_S_MAX", 0.0)


@pytest.mark.parametrize("step_s", [DAYS_400_S, -DAYS_400_S])
@pytest.mark.usefixtures("others_are_dead")
def test_a_server_that_starts_400_days_off_ends_nothing(url, machine, step_s, set_clock, caplog):
    """Nothing is due before its time has really passed, also where the machine was started anew."""
    first = open_store(url, machine.clock())
    waits, runs = (add(first, waiting_s_max=600.0, running_s_max=600.0).uid for _ in range(2))
    place(first, runs)
    go(first, runs, JobState.RUNNING)
    first.join(SERVER, LEASE_S)
    machine.wait(100)  # its lease is over
    first.close()
    set_clock(step_s)
    second = open_store(url, machine.clock())
    assert second.clock_skew_s() == 0, "times that callers see are the wall's"
    assert not second.servers()
    assert second.job_by_uid(runs).ran_s <= 111
    (message,) = caplog.messages
    assert message.startswith(f"the clock has moved by {step_s / 86_400:+.1f} days")
    machine.wait(450)
    assert not second.due(limit=9)
    machine.wait(200)
    assert {due.uid for due in second.due(limit=9)} == {waits, runs}
    second.close()
    third = open_store(url, machine.clock())
    assert len(caplog.records) == 1, "it is told once"
    third.close()


def test_a_server_400_days_off_takes_the_time_of_those_that_live(postgres_url, machine):
    """As one on another machine whose clock is wrong: it takes over nothing."""
    first = open_store(postgres_url, machine.clock())
    uid = add(first, waiting_s_max=600.0).uid
    first.join(SERVER, LEASE_S)
    machine.set_clock(DAYS_400_S)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_store, postgres_url, machine.clock())
        while not opening.done():
            machine.wait(0.001)
            first.join(SERVER, LEASE_S)
        second = opening.result()
    assert second.clock_skew_s() == pytest.approx(DAYS_400_S)
    assert list(second.servers()) == [SERVER]
    machine.wait(400)
    assert second.clock_skew_s() == pytest.approx(DAYS_400_S), "it does not follow its wall"
    assert not second.due(limit=9)
    machine.wait(200)
    assert [due.uid for due in second.due(limit=9)] == [uid]
    first.close()
    second.close()


def test_retention_leaves_out_what_the_clock_has_jumped(url, machine):
    day = timedelta(days=1)
    first = open_store(url, machine.clock())
    ended = first.now()
    machine.wait(10 * 86_400)
    first.close()
    machine.set_clock(DAYS_400_S)
    second = open_store(url, machine.clock())
    machine.wait(3600)
    assert second.moment_before(9 * day) > ended, "not older than the ten days that have passed"
    assert second.moment_before(11 * day) < ended
    assert second.now() - second.moment_before(timedelta(minutes=59)) == timedelta(minutes=59)
    second.close()


def test_a_jump_back_removes_nothing():
    jumps = [ClockJump(at_ns=50, by_ns=-40)]
    assert clock_jumps.moment_before(60, 30, jumps) == 30
    assert clock_jumps.moment_before(60, 100, jumps) == 0
    assert clock_jumps.moment_before(60, 20, [ClockJump(at_ns=50, by_ns=30)]) == 10


@pytest.mark.parametrize(
    ("step_s", "held_s"),
    [(DAYS_400_S, 3700), pytest.param(-DAYS_400_S, 0, marks=pytest.mark.full)],
)
@pytest.mark.usefixtures("others_are_dead")
def test_a_job_has_not_held_its_machine_while_the_clock_jumped(sqlite_url, machine, step_s, held_s):
    """Else 400 days of its machine would be paid for; a jump back hides time, and is no credit."""
    first = open_store(sqlite_url, machine.clock())
    uid = add(first).uid
    machine.wait(50)
    go(first, uid, JobState.PREPARING, events=(NewEvent(kind="PLACED", message="Placed."),))
    machine.wait(100)
    first.close()
    machine.set_clock(step_s)
    second = open_store(sqlite_url, machine.clock())
    machine.wait(3600)
    go(second, uid, JobState.SUCCEEDED, events=(NewEvent(kind="SUCCEEDED", message="Done."),))
    times = goodput_facts(second, second.job_by_uid(uid))
    goodput = job_goodput(times, second.now().timestamp())
    assert goodput.held_s == pytest.approx(held_s, abs=1)
    assert goodput.first_wait_s == pytest.approx(50 if held_s else 0, abs=1)
    assert times.ended_s == pytest.approx(second.now().timestamp(), abs=1) or not held_s
    second.close()


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ([400, -400], []),
        ([400, -100], [(300, 300)]),
        ([-400], []),
        ([-400, 400], [(0, 400)]),
        ([400, 30], [(400, 400), (430, 30)]),
        ([400, 30, -420], [(10, 10)]),
    ],
    ids=str,
)
def test_a_clock_that_is_set_back_takes_back_what_it_was_set_forward(days, expected):
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    today = 1000
    with engine.begin() as connection:
        for by in days:
            today += by
            clock_jumps.perform(connection, ClockJump(today, by), is_set=True)
        sets = clock_jumps.read_set(connection)
    engine.dispose()
    assert [(jump.at_ns - 1000, jump.by_ns) for jump in sets] == expected


@pytest.mark.usefixtures("others_are_dead")
def test_time_in_which_the_machine_was_perhaps_off_counts(sqlite_url, machine, monkeypatch):
    """Clusters run jobs while the machine of the server is off."""
    open_store(sqlite_url, machine.clock()).close()
    machine.set_clock(DAYS_400_S)
    monkeypatch.setattr(steady_clock, "_name", lambda: "clock of another start")
    second = open_store(sqlite_url, machine.clock())
    assert second.clock_sets() == []
    second.close()


def test_times_before_a_set_clock_are_moved_and_others_stay():
    jumps = [ClockJump(at_ns=100, by_ns=40), ClockJump(at_ns=700, by_ns=100)]
    assert [clock_jumps.on_clock_of_now(at, jumps) for at in (10, 60, 100, 300, 600, 700)] == [
        150, 200, 200, 400, 700, 700,
    ]  # fmt: skip
