"""The store's time goes on when somebody sets the machine's clock, and draws near to it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.builders import LEASE_S, NS_PER_S, SERVER, HandClock, add, go, place
from trainshed.model.status import JobState
from trainshed.store.opening import open_store
from trainshed.store.steady_clock import SteadyClock

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
        seen = [clock() for _ in range(2000)]
        return seen == sorted(seen)

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
