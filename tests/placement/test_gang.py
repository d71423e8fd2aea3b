from collections import Counter
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.support import (
    T4,
    V100,
    assert_sound,
    demand,
    demands,
    fleets,
    held,
    node,
    queued,
    queues,
)
from trainshed.model.resources import Demand, FleetPolicy, GroupDemand, JobDemand
from trainshed.model.roles import Role
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.gang import place, place_at


def nodes_of(seats):
    return Counter(seat.node for seat in seats)


def test_a_gang_takes_few_nodes_and_the_tightest_for_the_rest():
    fleet = FleetUsage.of([node("a", 2), node("b", 8), node("c", 4), node("d", 8)])
    seats = place(fleet, 1, demand(1, workers=9))
    assert nodes_of(seats) == {"b": 8, "a": 2}


def test_seats_are_in_the_order_of_the_groups():
    fleet = FleetUsage.of([node("a", 8)])
    seats = place(fleet, 1, demand(1, workers=2, servers=1))
    names = [(seat.role, seat.index) for seat in seats]
    assert names == [
        (Role.PRIMARY, 0),
        (Role.WORKER, 0),
        (Role.WORKER, 1),
        (Role.PARAMETER_SERVER, 0),
    ]


def test_helpers_without_gpus_stay_near_those_that_have_them():
    fleet = FleetUsage.of([node("a"), node("b", 4)])
    assert nodes_of(place(fleet, 1, demand(4, servers=3))) == {"b": 4}


def test_a_job_without_gpus_leaves_gpu_nodes_alone():
    fleet = FleetUsage.of([node("a", 4), node("b")])
    assert nodes_of(place(fleet, 1, demand())) == {"b": 1}


def test_a_large_helper_is_placed_first_where_it_would_find_no_room_later():
    """Six of the eight vCPUs of the roomy node are needed by the parameter server."""
    exact = FleetPolicy.EXACT
    nodes = [node("a", 2, vcpus=8, policy=exact)]
    nodes += [node(name, 1, vcpus=2, policy=exact) for name in "bc"]
    small = Demand(vcpus=2, gpu_type=T4, gpu_count=1)
    groups = (
        GroupDemand(role=Role.PRIMARY, count=2, each=small),
        GroupDemand(role=Role.PARAMETER_SERVER, count=1, each=Demand(vcpus=7)),
    )
    seats = place(FleetUsage.of(nodes), 1, JobDemand(region=None, groups=groups))
    assert [seat.node for seat in seats] == ["b", "c", "a"]


@settings(deadline=None)
@given(nodes=fleets(), jobs=queues())
def test_a_gang_is_whole_or_absent_and_no_node_is_over_its_room(nodes, jobs):
    fleet = FleetUsage.of(nodes)
    holding = []
    for job in jobs:
        before = [list(room) for room in fleet.rooms]
        seats = place(fleet, job.uid, job.demand)
        if seats is None:
            assert fleet.rooms == before
        else:
            holding.append(held(job, seats, 0.0))
    assert_sound(nodes, (), holding)


@settings(deadline=None)
@given(nodes=fleets(), job_demand=demands(), data=st.data())
def test_the_order_of_the_nodes_changes_nothing(nodes, job_demand, data):
    shuffled = data.draw(st.permutations(nodes))
    assert place(FleetUsage.of(nodes), 1, job_demand) == place(
        FleetUsage.of(shuffled), 1, job_demand
    )


@settings(deadline=None)
@given(nodes=fleets(), job_demand=demands())
def test_seats_can_be_taken_again_on_an_equal_fleet_and_never_beyond_its_room(nodes, job_demand):
    first, second = FleetUsage.of(nodes), FleetUsage.of(nodes)
    seats = place(first, 1, job_demand)
    if seats is not None:
        assert place_at(second, 1, job_demand, seats)
        assert second.rooms == first.rooms
        while place_at(second, 2 + len(second.holders()), job_demand, seats):
            assert min(map(min, second.rooms)) >= 0
        assert second.holders()


def fits_by_trying(rooms, sizes):
    """Whether items of these sizes fit into these rooms: every way is tried."""

    @cache
    def fits(rooms, sizes):
        if not sizes:
            return True
        left = (
            (*rooms[:i], room - sizes[0], *rooms[i + 1 :])
            for i, room in enumerate(rooms)
            if room >= sizes[0]
        )
        return any(fits(tuple(sorted(one)), sizes[1:]) for one in left)

    return fits(tuple(sorted(rooms)), tuple(sorted(sizes, reverse=True)))


@settings(deadline=None)
@given(
    rooms=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    size=st.integers(1, 5),
    count=st.integers(1, 7),
)
def test_equal_replicas_find_places_whenever_there_are_any(rooms, size, count):
    nodes = [node(f"n{i}", gpus) for i, gpus in enumerate(rooms)]
    seats = place(FleetUsage.of(nodes), 1, demand(size, workers=count - 1))
    assert (seats is not None) == fits_by_trying(rooms, [size] * count)


@settings(deadline=None)
@given(
    rooms=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    counts=st.tuples(*[st.integers(1, 3)] * 3),
    sizes=st.tuples(*[st.sampled_from([1, 2, 4, 8])] * 3),
)
def test_sizes_that_divide_each_other_find_places_whenever_there_are_any(rooms, counts, sizes):
    nodes = [node(f"n{i}", gpus) for i, gpus in enumerate(rooms)]
    groups = tuple(
        GroupDemand(role=role, count=count, each=Demand(gpu_type=T4, gpu_count=size))
        for role, count, size in zip(Role, counts, sizes, strict=False)
    )
    seats = place(FleetUsage.of(nodes), 1, JobDemand(region=None, groups=groups))
    items = [size for count, size in zip(counts, sizes, strict=True) for _ in range(count)]
    assert (seats is not None) == fits_by_trying(rooms, items)


@settings(deadline=None)
@given(
    slots=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=4),
    size=st.integers(1, 4),
    count=st.integers(1, 6),
)
def test_a_placement_uses_the_fewest_nodes(slots, size, count):
    nodes = [node(f"n{i}", gpus, slots=n) for i, (gpus, n) in enumerate(slots)]
    seats = place(FleetUsage.of(nodes), 1, demand(size, workers=count - 1))
    if seats is not None:
        most = sorted((min(gpus // size, n) for gpus, n in slots), reverse=True)
        fewest = next(k for k in range(len(most) + 1) if sum(most[:k]) >= count)
        assert len(nodes_of(seats)) == fewest


def test_a_gang_of_512_is_placed_on_a_thousand_nodes():
    nodes = [node(f"n{i:04}", 8, gpu_type=(T4, V100)[i % 2]) for i in range(1000)]
    seats = place(FleetUsage.of(nodes), 1, demand(2, workers=511))
    assert len(seats) == 512
    assert set(nodes_of(seats).values()) == {4}


def test_a_held_gang_is_what_the_next_one_does_not_get():
    fleet = FleetUsage.of([node("a", 4)])
    job = queued(1, demand(2))
    assert place(fleet, 1, job.demand)
    assert place(fleet, 2, demand(2, workers=1)) is None
    assert place(fleet, 3, demand(2))
