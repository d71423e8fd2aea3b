from placement.support import T4, demand, held, node, queued
from trainshed.model.resources import Demand, FleetPolicy, GroupDemand, JobDemand, Seat
from trainshed.model.roles import Role
from trainshed.placement.fleet import FleetUsage
from trainshed.placement.gang import place
from trainshed.placement.reservation import Reservation, reserve


def test_a_reserved_start_is_kept_even_where_packing_finds_no_seats_any_more():
    """The gang is too large for a second attempt, and the first puts workers where only the
    parameter server fits.  Its seats from the time before are good, so its start stands.
    """
    exact = FleetPolicy.EXACT
    nodes = [
        node("a", 65, vcpus=70, slots=99, policy=exact),
        node("b", 66, vcpus=65, slots=99, policy=exact),
    ]
    worker = Demand(vcpus=1, gpu_type=T4, gpu_count=1)
    groups = (
        GroupDemand(role=Role.WORKER, count=65, each=worker),
        GroupDemand(role=Role.PARAMETER_SERVER, count=1, each=Demand(vcpus=70)),
    )
    job = queued(1, JobDemand(region=None, groups=groups))
    seats = (
        *(Seat(role=Role.WORKER, index=i, node="b") for i in range(65)),
        Seat(role=Role.PARAMETER_SERVER, index=0, node="a"),
    )
    other = queued(2, JobDemand(region=None, groups=groups[1:]))
    fleet = FleetUsage.of(
        nodes, [held(other, (Seat(role=groups[1].role, index=0, node="a"),), 9.0)]
    )
    assert place(fleet, 1, job.demand) is None
    before = Reservation(job=job, start_s=9.0, seats=seats)
    assert reserve(fleet, job, [(9.0, 2)], 0.0) is None
    granted, then = reserve(fleet, job, [(9.0, 2)], 0.0, before)
    assert (granted.start_s, granted.seats) == (9.0, seats)
    assert then.taken(1)
    assert not fleet.taken(1)


def test_the_start_is_the_earliest_at_which_enough_has_ended():
    fleet = FleetUsage.of([node("a", 6)])
    for uid in range(6):
        place(fleet, uid, demand(1))
    ends = [(10.0, 0), (20.0, 1), (20.0, 2), (30.0, 3), (40.0, 4), (50.0, 5)]
    granted, _ = reserve(fleet, queued(9, demand(4)), ends, 0.0)
    assert granted.start_s == 30.0
    overdue, _ = reserve(fleet, queued(9, demand(4)), ends, 35.0)
    assert overdue.start_s == 35.0
