"""Random streams of jobs, simulated: nobody starves, and a reserved start is kept."""

import heapq
from dataclasses import dataclass, field

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
    rule_sets,
)
from trainshed.model.resources import NodeState
from trainshed.placement.feasibility import Feasibility
from trainshed.placement.jobs import QuotaRule
from trainshed.placement.plan import Planner


@dataclass
class Simulation:
    """Plans whenever a job comes or ends, as the controller does."""

    nodes: list
    rules: tuple
    now_s: float = 0.0
    queue: dict = field(default_factory=dict)
    running: dict = field(default_factory=dict)
    started: dict = field(default_factory=dict)
    promised: dict = field(default_factory=dict)
    """By uid: the first reserved start, and the priority."""

    def __post_init__(self):
        self.planner = Planner(self.rules)
        self.planner.set_nodes(self.nodes)

    def run(self, arrivals):
        """``arrivals`` are (time, job, true run time)."""
        events = [(at, 0, job.uid, job, took) for at, job, took in arrivals]
        heapq.heapify(events)
        while events:
            self.now_s = events[0][0]
            while events and events[0][0] == self.now_s:
                _, _, uid, job, took = heapq.heappop(events)
                if job is None:
                    del self.running[uid]
                    self.planner.release(uid)
                else:
                    self.queue[uid] = (job, took)
            for uid, took in self.start():
                heapq.heappush(events, (self.now_s + took, 1, uid, None, None))

    def start(self):
        waiting = [job for job, _ in self.queue.values()]
        plan = self.planner.plan(waiting, self.now_s, explain_max=0)
        for uid, seats in plan.placed.items():
            job, took = self.queue.pop(uid)
            self.running[uid] = held(job, seats, self.now_s + job.running_s_max)
            self.planner.hold(self.running[uid])
            self.started[uid] = self.now_s
            yield uid, took
        assert_sound(self.nodes, self.rules, self.running.values())
        reserved = self.planner.reservation
        if reserved is not None:
            self.promised.setdefault(reserved.job.uid, (reserved.start_s, self.now_s))


@st.composite
def streams(draw, priorities):
    arrivals, at = [], 0.0
    for uid in range(1, draw(st.integers(2, 14)) + 1):
        at += draw(st.sampled_from([0.0, 0.0, 1.0, 7.0, 20.0]))
        job = queued(
            uid,
            draw(demands()),
            project=draw(st.sampled_from("ppq")),
            priority=draw(st.sampled_from(priorities)),
            seconds=draw(st.sampled_from([5.0, 20.0, 60.0, 200.0])),
        )
        share = draw(st.sampled_from([0.1, 0.5, 1.0, 1.0]))
        arrivals.append((at, job, job.running_s_max * share))
    return arrivals


@settings(max_examples=150, deadline=None)
@given(
    nodes=fleets(states=st.just(NodeState.READY)),
    rules=rule_sets,
    arrivals=streams(priorities=(0, 0, 0, 1, 2)),
)
def test_every_job_starts_and_none_later_than_its_reserved_start(nodes, rules, arrivals):
    feasibility = Feasibility(nodes, rules)
    possible = [one for one in arrivals if feasibility.judge(one[1].project, one[1].demand) is None]
    simulation = Simulation(nodes, rules)
    simulation.run(possible)
    assert set(simulation.started) == {job.uid for _, job, _ in possible}
    for uid, (start_s, granted_s) in simulation.promised.items():
        job = next(job for _, job, _ in possible if job.uid == uid)
        overtaken = any(
            other.priority > job.priority and simulation.started[other.uid] >= granted_s
            for _, other, _ in possible
        )
        assert overtaken or simulation.started[uid] <= start_s


def test_a_stream_of_small_jobs_does_not_starve_a_large_one():
    arrivals = [(float(i), queued(i + 1, demand(1), seconds=10.0), 10.0) for i in range(60)]
    arrivals.append((5.5, queued(100, demand(8), order=6, seconds=10.0), 10.0))
    simulation = Simulation([node("a", 8)], ())
    simulation.run(arrivals)
    assert simulation.started[100] <= simulation.promised[100][0] <= 16.0


def test_two_kinds_of_quota_do_not_starve_a_job_that_needs_both():
    """Each of the two streams alone always leaves too little of its own type."""
    nodes = [node("a", 8), node("b", 8, gpu_type=V100)]
    limits = Simulation(nodes, rule_set_of(T4, V100))
    arrivals = []
    for i in range(40):
        kind = (T4, V100)[i % 2]
        arrivals.append((float(i), queued(i + 1, demand(2, gpu_type=kind), seconds=4.0), 4.0))
    both = demand(4)
    workers = demand(4, workers=1, gpu_type=V100).groups[1:]
    large = type(both)(region=both.region, groups=(*both.groups, *workers))
    arrivals.append((7.5, queued(100, large, order=8), 10.0))
    limits.run(arrivals)
    assert limits.started[100] <= 12.0


def rule_set_of(*kinds):
    return tuple(QuotaRule(accelerator=kind, limit=4) for kind in kinds)
