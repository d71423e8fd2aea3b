"""A GPU has one state at a time, and a day of it has all its seconds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.gpus import GpuState, NodeGpu
from trainshed.model.resources import FleetPolicy, Node, NodeState
from trainshed.planning.goodput import AttemptTimes, JobTimes, attempt_goodputs
from trainshed.planning.gpu_days import GAP_S_MAX, LOOK_S_MAX, count_states, divide_time
from trainshed.planning.usage_days import DAY_S, day_uses

T4, V100 = "NVIDIA_TESLA_T4", "NVIDIA_TESLA_V100"


def node(**fields):
    return Node(**{"name": "n1", "gpus": {T4: 8}, **fields})


def faulty(count):
    return tuple(
        NodeGpu(uuid=f"GPU-{index}", type=T4, state=GpuState.FAULTY) for index in range(count)
    )


@pytest.mark.parametrize(
    ("fields", "held", "states"),
    [
        ({}, 0, {"free": 8}),
        ({}, 3, {"held": 3, "free": 5}),
        ({}, 99, {"held": 8}),
        ({"gpus_held": {T4: 3}, "devices": faulty(2)}, 4,
         {"held": 4, "faulty": 2, "foreign": 1, "free": 1}),
        ({"gpus_held": {T4: 8}}, 2, {"held": 2, "foreign": 6}),
        ({"state": NodeState.DRAINED}, 2, {"held": 2, "drained": 6}),
        ({"state": NodeState.MAINTENANCE}, 0, {"drained": 8}),
        ({"policy": FleetPolicy.EMULATE}, 5, {"free": 8}),
    ],
)  # fmt: skip
def test_states_of_the_gpus_of_a_node(fields, held, states):
    assert count_states(node(**fields), held) == {T4: states}


def test_a_node_of_two_types_has_its_free_ones_held_first():
    both = node(gpus={T4: 2, V100: 4}, gpus_held={T4: 2})
    assert count_states(both, 3) == {T4: {"foreign": 2}, V100: {"held": 3, "free": 1}}
    assert count_states(both, 5) == {T4: {"held": 1, "foreign": 1}, V100: {"held": 4}}
    assert count_states(node(gpus={T4: 0}), 0) == {}


def test_time_is_divided_at_midnight():
    assert divide_time(DAY_S - 30, DAY_S + 20, {"free": 2, "held": 1}) == {
        (0, "free"): 60.0,
        (0, "held"): 30.0,
        (1, "free"): 40.0,
        (1, "held"): 20.0,
    }


def test_a_gap_is_unobserved():
    assert divide_time(0, 1000, {"free": 2}) == {
        (0, "unobserved"): 2 * (1000 - LOOK_S_MAX),
        (0, "free"): 2 * LOOK_S_MAX,
    }


def test_time_that_goes_back_counts_nothing():
    assert divide_time(100, 100, {"free": 1}) == divide_time(100, 50, {"free": 1}) == {}


@given(
    looks=st.lists(st.floats(0.1, 9000), min_size=1, max_size=30),
    counts=st.dictionaries(st.sampled_from(["free", "held", "faulty"]), st.integers(1, 8)),
)
def test_every_second_of_every_gpu_is_in_one_bucket(looks, counts):
    total, at_s = 0.0, 5 * DAY_S - 3000
    for span_s in looks:
        seconds = divide_time(at_s, at_s + span_s, counts)
        at_s += span_s
        total += sum(seconds.values())
    assert total == pytest.approx(sum(looks) * sum(counts.values()))
    longest = divide_time(0, 9 * GAP_S_MAX, counts)
    assert sum(longest.values()) == pytest.approx(GAP_S_MAX * sum(counts.values()))


@given(
    gpus=st.dictionaries(st.sampled_from([T4, V100]), st.integers(1, 8), min_size=1),
    foreign=st.integers(0, 9),
    broken=st.integers(0, 9),
    held=st.integers(0, 20),
    state=st.sampled_from(NodeState),
)
def test_every_gpu_has_one_state(gpus, foreign, broken, held, state):
    mixed = node(gpus=gpus, gpus_held={T4: foreign}, devices=faulty(broken), state=state)
    states = count_states(mixed, held)
    assert {name: sum(counts.values()) for name, counts in states.items()} == gpus
    held_counts = sum(counts.get("held", 0) for counts in states.values())
    assert held_counts == min(held, sum(gpus.values()))


#: Jobs of a day: GPUs, first and last hour, the share of steps, and whether it reports them.
JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(-5, 23), st.integers(1, 30), st.booleans()),
    max_size=12,
)
HOUR_S = 3600
DAY = 20_000


def simulate_day(drawn, gpus=8):
    """Place jobs as they are drawn, where GPUs are free; return (GPUs, first hour, last hour)."""
    placed, free = [], dict.fromkeys(range(-5, 60), gpus)
    for count, first, hours, reports in drawn:
        span = range(first, first + hours)
        if all(free[hour] >= count for hour in span):
            for hour in span:
                free[hour] -= count
            placed.append((count, first, first + hours, reports))
    return placed, free


@settings(max_examples=20)
@given(drawn=JOBS, blocked=st.integers(0, 3), drained_hours=st.sets(st.integers(0, 23)))
def test_every_second_of_every_gpu_of_a_simulated_day_is_in_one_bucket(
    drawn, blocked, drained_hours
):
    jobs, free = simulate_day(drawn)
    begin_s, used_s, held_s, unheld_s = DAY * DAY_S, 0.0, 0.0, 0.0
    for count, first, last, reports in jobs:
        start_s, end_s = begin_s + first * HOUR_S, begin_s + last * HOUR_S
        times = AttemptTimes(attempt=1, placed_s=start_s, ended_s=end_s, running_s=start_s + 60,
                             first_step_s=start_s + 90 if reports else None,
                             last_step_s=end_s if reports else None)  # fmt: skip
        [goodput] = attempt_goodputs(
            JobTimes(accepted_s=start_s, ended_s=end_s, attempts=(times,)), end_s
        )
        days = [use for use in day_uses(times, goodput) if use.day == DAY]
        used_s += sum(count * sum(use.seconds.values()) for use in days)
    for look in range(24 * 60):
        hour = look // 60
        state = NodeState.DRAINED if hour in drained_hours else NodeState.READY
        one = node(gpus_held={T4: min(blocked, free[hour])}, state=state)
        [counts] = count_states(one, 8 - free[hour]).values()
        seconds = divide_time(begin_s + look * 60, begin_s + look * 60 + 60, counts)
        assert {day for day, _ in seconds} == {DAY}
        held_s += seconds.get((DAY, "held"), 0.0)
        unheld_s += sum(value for (_, name), value in seconds.items() if name != "held")
    assert used_s == pytest.approx(held_s)
    assert used_s + unheld_s == pytest.approx(8 * DAY_S)
