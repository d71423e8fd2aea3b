"""Nodes, demands and jobs in few words, and what Hypothesis makes of them."""

from collections import Counter

from hypothesis import strategies as st

from trainshed.model.resources import (
    Demand,
    FleetPolicy,
    GroupDemand,
    JobDemand,
    Node,
    NodeState,
)
from trainshed.model.roles import Role
from trainshed.placement.jobs import HeldJob, QueuedJob, QuotaRule

T4, V100 = "NVIDIA_TESLA_T4", "NVIDIA_TESLA_V100"
US, EU = "us-central1", "europe-west4"


def node(name, gpus=0, *, gpu_type=T4, **more):
    return Node(name=name, gpus={gpu_type: gpus} if gpus else {}, **more)


def demand(  # noqa: PLR0913 - words of a test
    gpus=0, workers=0, *, servers=0, gpu_type=T4, region=US, vcpus=0
):
    size = Demand(gpu_type=gpu_type if gpus else None, gpu_count=gpus, vcpus=vcpus)
    counts = {Role.PRIMARY: 1, Role.WORKER: workers}
    groups = [GroupDemand(role=r, count=n, each=size) for r, n in counts.items() if n]
    if servers:
        role = Role.PARAMETER_SERVER
        groups.append(GroupDemand(role=role, count=servers, each=Demand(vcpus=vcpus)))
    return JobDemand(region=region, groups=tuple(groups))


def queued(  # noqa: PLR0913 - words of a test
    uid, job_demand, *, project="p", priority=0, seconds=100.0, order=None
):
    return QueuedJob(
        uid=uid,
        project=project,
        name=f"projects/{project}/jobs/j{uid}",
        priority=priority,
        order=uid if order is None else order,
        demand=job_demand,
        running_s_max=seconds,
    )


def held(job, seats, ends_at_s):
    return HeldJob(
        uid=job.uid,
        project=job.project,
        name=job.name,
        demand=job.demand,
        seats=seats,
        ends_at_s=ends_at_s,
    )


def hold_all(planner, queue, now_s=0.0):
    """Plan and commit; answers the plan."""
    plan = planner.plan(queue, now_s)
    for job in queue:
        if job.uid in plan.placed:
            planner.hold(held(job, plan.placed[job.uid], now_s + job.running_s_max))
    return plan


def assert_sound(nodes, quotas, holding):
    """No node is over its room, no quota over its limit, every gang is whole.

    Counted from the words alone, apart from the code under test: GPU types are the node's own here.
    """
    by_name = {n.name: n for n in nodes}
    used = {n.name: Counter() for n in nodes}
    in_use = Counter()
    for job in holding:
        want = [(g.role, i) for g in job.demand.groups for i in range(g.count)]
        assert [(s.role, s.index) for s in job.seats] == want
        sizes = {g.role: g.each for g in job.demand.groups}
        for seat in job.seats:
            size, where = sizes[seat.role], by_name[seat.node]
            assert where.state is NodeState.READY
            assert None in (where.region, job.demand.region) or where.region == job.demand.region
            used[seat.node]["slots"] += 1
            if where.policy is not FleetPolicy.EMULATE:
                used[seat.node][size.gpu_type] += size.gpu_count
            if where.policy is FleetPolicy.EXACT:
                used[seat.node]["vcpus"] += size.vcpus
        for kind, count in job.demand.gpus.items():
            in_use[job.project, job.demand.region, kind] += count
    for n in nodes:
        room = {"slots": n.slots, "vcpus": n.vcpus, **n.gpus}
        assert all(count <= room.get(what, 0) for what, count in used[n.name].items() if count)
    for rule in quotas:
        for (project, _, kind), count in in_use.items():
            if rule.accelerator == kind and rule.project in ("*", project):
                assert count <= rule.limit


counts = st.sampled_from([0, 1, 1, 2, 4, 8])
regions = st.sampled_from([None, US, US, EU])


states = st.sampled_from([NodeState.READY] * 5 + [NodeState.DRAINED])


@st.composite
def fleets(draw, states=states):
    return [
        node(
            f"node-{i}",
            draw(counts),
            gpu_type=draw(st.sampled_from([T4, T4, V100])),
            region=draw(regions),
            slots=draw(st.integers(1, 8)),
            vcpus=draw(st.integers(1, 8)),
            policy=draw(st.sampled_from([FleetPolicy.BEST_EFFORT, FleetPolicy.EXACT])),
            state=draw(states),
        )
        for i in range(draw(st.integers(1, 5)))
    ]


@st.composite
def demands(draw):
    return demand(
        draw(counts),
        draw(st.integers(0, 3)),
        servers=draw(st.sampled_from([0, 0, 0, 1, 2])),
        gpu_type=draw(st.sampled_from([T4, T4, V100])),
        region=draw(st.sampled_from([US, US, EU])),
        vcpus=draw(st.integers(0, 3)),
    )


@st.composite
def queues(draw, size_max=12, priorities=(0, 0, 0, 1)):
    return [
        queued(
            uid,
            draw(demands()),
            project=draw(st.sampled_from(["p", "p", "q"])),
            priority=draw(st.sampled_from(priorities)),
            seconds=draw(st.sampled_from([5.0, 10.0, 30.0, 100.0])),
        )
        for uid in range(1, draw(st.integers(1, size_max)) + 1)
    ]


rule_sets = st.sampled_from(
    [(), (QuotaRule(accelerator=T4, limit=4),), (QuotaRule(accelerator=T4, limit=8, project="p"),)]
)
