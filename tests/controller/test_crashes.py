"""A controller is killed anywhere; the next one goes on, and nothing is lost or done twice."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.world import World, go, nodes, runs, work
from trainshed.controller.worker import REST_S_MIN
from trainshed.model.attempt import Phase
from trainshed.model.status import FINAL, JobState

SERVERS = ("server-a", "server-b")


class Killed(BaseException):
    """What nobody catches, as nobody catches SIGKILL."""


class Deadly:
    """Stands before a store or an engine, and kills before the n-th call: after the one before."""

    def __init__(self, real, fuse):
        self._real = real
        self._fuse = fuse

    def __getattr__(self, name):
        method = getattr(self._real, name)
        if not callable(method):
            return method

        def call(*args, **kwargs):
            self._fuse.burn()
            return method(*args, **kwargs)

        return call


class Fuse:
    def __init__(self, left):
        self.left = left

    def burn(self):
        self.left -= 1
        if self.left == 0:
            raise Killed


def deadly_controller(world, fuse):
    real = world.store, world.engine
    world.store, world.engine = Deadly(real[0], fuse), Deadly(real[1], fuse)
    try:
        return world.controller()
    finally:
        world.store, world.engine = real


def finish(world, controller, uids):
    """Work until everything is over, for as long as the leases hold."""
    for _ in range(8):
        if world.states(uids) <= FINAL and not world.store.commands("server-a"):
            return
        world.clock.s += 1
        work(controller)


@pytest.mark.parametrize("stranger", [Phase.UNKNOWN, Phase.LOST])
def test_killed_between_any_two_calls_it_makes(make_world, stranger):
    """One run's every call of the store and the engine, in turn, is the last one of a server."""
    world: World = make_world(nodes(2, slots=2), script=runs(1.0), stranger=stranger)
    deaths = 0
    while True:
        gang, single, cancelled = world.submit(replicas=3), world.submit(), world.submit()
        uids = [gang, single, cancelled]
        fuse = Fuse(deaths + 1)
        try:
            controller = deadly_controller(world, fuse)
            work(controller)
            world.cancel(cancelled)
            finish(world, controller, uids)
        except Killed:
            deaths += 1
        if fuse.left > 0:
            break
        world.cancel(cancelled)
        finish(world, world.controller(), uids)
        assert world.states([gang, single]) == {JobState.SUCCEEDED}
        assert world.state(cancelled) in {JobState.CANCELLED, JobState.SUCCEEDED}
        assert {world.job(uid).attempt for uid in (gang, single)} == {1}
        assert not world.engine.running
        assert world.store.holding() == []
    assert deaths > 20


OPERATIONS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 4)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["lose", "end", "fail"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["schedule", "perform", "observe", "lease"]), st.integers(0, 1)),
    st.tuples(st.sampled_from(["schedule", "perform", "observe", "lease"]), st.integers(0, 1)),
    st.tuples(st.just("crash"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.integers(1, 15)),
    st.tuples(st.just("unreachable"), st.integers(0, 1)),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(OPERATIONS, max_size=40))
def test_any_interleaving_keeps_the_promises(operations):
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), nodes(2, slots=3), script=runs())
        try:
            interleave(world, operations)
        finally:
            world.close()


def interleave(world, operations):
    servers = [world.controller(name) for name in SERVERS]
    uids: list[int] = []
    ends: dict[int, JobState] = {}
    losses: Counter[int] = Counter()
    for name, number in operations:
        match name:
            case "submit":
                uids.append(world.submit(replicas=number))
            case "wait":
                world.clock.s += number
            case "unreachable":
                world.engine.unreachable = bool(number)
            case "crash":
                world.engine.unreachable = False
                servers[number] = world.controller(SERVERS[number])
            case "cancel" | "lose" | "end" | "fail":
                happen(world, name, uids, number, losses)
            case step:
                getattr(servers[number], f"{step}_once")()
        keep_the_promises(world, uids, ends)
    settle(world, servers, uids)
    keep_the_promises(world, uids, ends)
    for uid in uids:
        assert world.job(uid).attempt <= 1 + losses[uid], "restarted and never lost"


def happen(world, name, uids, number, losses):
    if not uids:
        return
    uid = uids[number % len(uids)]
    key = world.key(uid)
    if name == "cancel":
        world.cancel(uid)
    elif key in world.engine.running:
        if name == "lose":
            world.engine.lose(key)
            losses[uid] += 1
        else:
            world.engine.end(key, int(name == "fail"))


def keep_the_promises(world, uids, ends):
    assert world.engine.violations == []
    for uid in uids:
        state = world.state(uid)
        assert ends.get(uid, state) is state, "a final state has changed"
        if state in FINAL:
            ends[uid] = state
            alive = world.key(uid) in world.engine.running
            assert not alive, "it lives after its end"
    held = {holding.uid for holding in world.store.holding()}
    assert held.isdisjoint(ends)


def settle(world, servers, uids):
    """Everything that still can ends well once the world is quiet."""
    world.engine.unreachable = False
    for _ in range(4 + 2 * len(uids)):
        if world.states(uids) <= FINAL and not world.store.holding():
            break
        world.clock.s += 5
        for server in servers:
            go(server, 2)
        for key in world.engine.running:
            world.engine.end(key)
    for server in servers:
        go(server, 2)
    for uid in uids:
        assert world.state(uid) in FINAL, world.messages(uid)
    assert world.store.holding() == []
    assert all(world.engine.observe([world.key(uid)])[0].phase is not Phase.READY for uid in uids)


@pytest.mark.parametrize("clean", [True, False])
def test_a_dead_servers_jobs_are_taken_over(make_world, clean):
    world: World = make_world(script=runs())
    first, second = world.controller("server-a"), world.controller("server-b")
    uids = [world.submit() for _ in range(10)]
    for _ in range(2):
        go(first)
        go(second)
    assert world.states(uids) == {JobState.RUNNING}
    assert {world.job(uid).owner for uid in uids} == set(SERVERS), "the work is shared"
    assert (first.leading, second.leading) == (True, False)

    if clean:
        first.stop()
    else:
        world.clock.s += 11
    late = world.submit()
    for key in world.engine.running:
        world.engine.end(key)
    go(second, 2)
    assert second.leading
    assert world.states(uids) == {JobState.SUCCEEDED}
    assert world.state(late) is JobState.RUNNING
    assert set(world.engine.launches.values()) == {1}


def test_what_a_server_thought_before_it_slept_is_not_written_after(make_world):
    """A paused leader wakes up in the middle of its pass: another has filled the node meanwhile."""
    world: World = make_world(nodes(1, slots=1), script=runs())
    sleeper, other = world.controller("server-a"), world.controller("server-b")
    chosen = world.submit()
    urgent: list[int] = []
    apply = world.store.apply

    def sleep_first(steps):
        world.store.apply = apply
        world.clock.s += 30
        urgent.append(world.submit(priority=9))
        go(other, 2)
        sleeper.lease_once()  # its lease thread wakes up first
        return apply(steps)

    world.store.apply = sleep_first
    assert sleeper.schedule_once() == 0
    assert other.leading
    go(sleeper, 2)
    assert world.state(urgent[0]) is JobState.RUNNING
    assert world.state(chosen) is JobState.QUEUED


@pytest.mark.parametrize("cancelled", [True, False])
def test_what_is_still_to_be_performed_is_not_judged(make_world, cancelled):
    """To an engine an attempt that was not launched yet may look like one that was lost."""
    world: World = make_world(script=runs(), stranger=Phase.LOST)
    controller = world.controller()
    uid = world.submit()
    controller.schedule_once()
    if cancelled:
        world.cancel(uid)
    before = world.state(uid)
    controller.observe_once()
    assert world.state(uid) is before
    go(controller)
    assert world.state(uid) is (JobState.CANCELLED if cancelled else JobState.RUNNING)
    assert world.job(uid).attempt == 1


def test_a_job_cancelled_while_its_launch_is_read_is_not_launched(make_world):
    world: World = make_world(script=runs())
    controller = world.controller()
    uid = world.submit()
    controller.schedule_once()
    commands = world.store.commands

    def cancel_behind_its_back(*args, **kwargs):
        orders = commands(*args, **kwargs)
        world.store.commands = commands
        world.cancel(uid)
        return orders

    world.store.commands = cancel_behind_its_back
    controller.perform_once()
    go(controller)
    assert world.state(uid) is JobState.CANCELLED
    assert world.engine.launches.total() == 0


def test_a_server_back_under_its_name_goes_on_at_once(make_world):
    world: World = make_world(script=runs())
    go(world.controller())
    uid = world.submit()
    go(world.controller())
    again = world.controller()
    world.engine.end(world.key(uid))
    go(again)
    assert world.state(uid) is JobState.SUCCEEDED


def test_what_a_dead_leader_had_goes_on_within_five_seconds(make_world):
    """At the pace of a server, by a clock of the test: the other one looks as often as it does."""
    world: World = make_world(script=runs(None))
    leader = world.controller("server-a")
    uid = world.submit()
    work(leader)
    assert world.state(uid) is JobState.RUNNING
    other = world.controller("server-b")
    leader.lease_once()  # and is killed
    waiting, killed_s = world.submit(), world.clock.s
    lease = other._workers["lease"]
    while not other.leading:
        world.clock.s += lease._tick_s + REST_S_MIN
        other.lease_once()
    work(other)
    assert world.clock.s - killed_s <= 5.0
    assert world.job(uid).owner == "server-b"
    assert world.state(waiting) is not JobState.QUEUED
