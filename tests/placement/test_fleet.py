from hypothesis import given, settings
from hypothesis import strategies as st

from placement.support import T4, US, V100, demand, fleets, held, node, queued, queues
from trainshed.model.resources import ANY_GPU, FleetPolicy, NodeState
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.gang import place
from trainshed.placement.topology import Where


def places(nodes, job_demand):
    return place(FleetUsage.of(nodes), 1, job_demand) is not None


def test_exact_nodes_count_vcpus_and_the_others_do_not():
    job_demand = demand(vcpus=8)
    assert not places([node("a", vcpus=4, policy=FleetPolicy.EXACT)], job_demand)
    assert places([node("a", vcpus=8, policy=FleetPolicy.EXACT)], job_demand)
    assert places([node("a", vcpus=4, policy=FleetPolicy.BEST_EFFORT)], job_demand)


def test_gpus_are_counted_unless_emulated():
    assert not places([node("a", 1)], demand(2))
    assert places([node("a", policy=FleetPolicy.EMULATE)], demand(2))


def test_gpus_that_somebody_else_holds_are_not_given_out():
    busy = node("a", 4, gpus_held={T4: 1})
    assert places([busy], demand(3))
    assert not places([busy], demand(4))
    fleet = FleetUsage.of([busy])
    assert [place(fleet, uid, demand(1)) is not None for uid in range(4)] == [True] * 3 + [False]


def test_slots_bound_the_replicas_under_every_policy():
    for policy in FleetPolicy:
        full = node("a", slots=2, vcpus=9, policy=policy)
        assert places([full], demand(workers=1))
        assert not places([full], demand(workers=2))


def test_a_stand_in_serves_the_type_that_it_is_named_for():
    job_demand = demand(2)
    v100 = node("a", 2, gpu_type=V100)
    assert not places([v100], job_demand)
    assert places([node("a", 2, gpu_type=V100, gpu_alias={T4: V100})], job_demand)
    assert places([node("a", 2, gpu_type=V100, gpu_alias={T4: ANY_GPU})], job_demand)


def test_the_type_itself_is_preferred_to_a_stand_in_and_both_to_none():
    nodes = [
        node("a", policy=FleetPolicy.EMULATE),
        node("b", 1, gpu_type=V100, gpu_alias={T4: ANY_GPU}),
        node("c", 1),
    ]
    fleet = FleetUsage.of(nodes)
    assert [place(fleet, uid, demand(1))[0].node for uid in (1, 2, 3)] == ["c", "b", "a"]


def test_replicas_of_one_job_get_the_same_hardware_where_that_is_possible():
    nodes = [node("a", 1), node("b", 2, gpu_type=V100, gpu_alias={T4: V100})]
    assert {s.node for s in place(FleetUsage.of(nodes), 1, demand(1, workers=1))} == {"b"}
    assert {s.node for s in place(FleetUsage.of(nodes), 1, demand(1, workers=2))} == {"a", "b"}


def test_one_replica_never_mixes_gpu_types():
    mixed = node("a", gpu_alias={T4: ANY_GPU})
    mixed.gpus.update({"X": 1, "Y": 1})
    assert not places([mixed], demand(2))
    assert places([mixed], demand(1, workers=1))


def test_a_node_without_a_region_serves_all_and_drained_ones_nobody():
    assert places([node("a", region=None)], demand(region=US))
    assert places([node("a", region=US)], demand(region=None))
    assert not places([node("a", region="elsewhere")], demand(region=US))
    assert not places([node("a", state=NodeState.DRAINED)], demand())


def test_a_seat_on_a_node_that_is_gone_takes_nothing_and_frees_nothing():
    fleet = FleetUsage.of([node("a", 4), node("b", 4)])
    job = queued(1, demand(4, workers=1))
    seats = place(fleet, 1, job.demand)
    left = FleetUsage.of([node("b", 4)], [held(job, seats, 10.0)])
    assert place(left, 2, demand(1)) is None
    left.release(1)
    assert place(left, 2, demand(4)) is not None
    assert place(left, 3, demand(1)) is None


def test_a_node_that_shrank_takes_nothing_until_enough_has_left():
    fleet = FleetUsage.of([node("a", 8)])
    jobs = [queued(uid, demand(4)) for uid in (1, 2)]
    holding = [held(job, place(fleet, job.uid, job.demand), 10.0) for job in jobs]
    shrunk = FleetUsage.of([node("a", 4)], holding)
    shrunk.release(1)
    assert place(shrunk, 3, demand(1)) is None
    shrunk.release(2)
    assert place(shrunk, 3, demand(4)) is not None


@settings(deadline=None)
@given(nodes=fleets(), jobs=queues(), data=st.data())
def test_keeping_count_ends_where_counting_anew_does(nodes, jobs, data):
    fleet = FleetUsage.of(nodes)
    holding = {}
    for job in jobs:
        if holding and data.draw(st.booleans()):
            fleet.release(holding.pop(data.draw(st.sampled_from(sorted(holding)))).uid)
        seats = place(fleet, job.uid, job.demand)
        if seats is not None:
            holding[job.uid] = held(job, seats, 1.0)
    anew = FleetUsage.of(nodes, holding.values())
    assert fleet.rooms == anew.rooms
    for job in jobs:
        for group in job.demand.groups:
            ours = fleet.candidates(Where(job.demand.region), group.each)
            theirs = anew.candidates(Where(job.demand.region), group.each)
            assert ours.totals == theirs.totals
            assert ours.best(0, group.count) == theirs.best(0, group.count)
