"""Divides the time of the GPUs of nodes among days and states, so that no second has two states.

A server looks at its nodes about once a minute; the state that it observes counts from its last
look on.  Longer gaps, in which no server looked, are unobserved.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from trainshed.model.gpus import GpuState
from trainshed.model.resources import FleetPolicy, Node, NodeState
from trainshed.model.time_use import HELD
from trainshed.planning.usage_days import DAY_S, day_of

#: A look is good for the time since the last one, but not for more than this.
LOOK_S_MAX: Final = 180.0
#: An unobserved gap is counted up to this length.
GAP_S_MAX: Final = 31 * DAY_S


def count_states(node: Node, jobs_hold: int) -> Mapping[str, Mapping[str, int]]:
    """Return the number of a node's GPUs by type and state.

    ``jobs_hold`` is the number of GPUs that jobs hold on the node; of a node with several types the
    types with free GPUs are held first.  Each GPU has one state, the first of held, faulty,
    foreign, drained and free that it is in.
    """
    left = 0 if node.policy is FleetPolicy.EMULATE else jobs_hold
    faulty = Counter(gpu.type for gpu in node.devices if gpu.state is GpuState.FAULTY)
    usable = {name: count - node.gpus_held.get(name, 0) for name, count in node.gpus.items()}
    held: Counter[str] = Counter()
    for limits in (usable, node.gpus):
        for name in sorted(node.gpus, key=lambda name: -usable[name]):
            taken = max(0, min(left, limits[name] - held[name]))
            held[name] += taken
            left -= taken
    return {
        name: dict(_states(node, name, held[name], faulty[name]))
        for name, count in node.gpus.items()
        if count > 0
    }


def _states(node: Node, name: str, held: int, faulty: int) -> Iterator[tuple[str, int]]:
    rest = node.gpus[name] - held
    blocked = min(node.gpus_held.get(name, 0), rest)
    faulty = min(faulty, rest)
    foreign = min(max(0, blocked - faulty), rest - faulty)
    last = "free" if node.state is NodeState.READY else "drained"
    counts = {HELD: held, "faulty": faulty, "foreign": foreign, last: rest - faulty - foreign}
    yield from ((state, count) for state, count in counts.items() if count > 0)


def divide_time(
    begin_s: float, end_s: float, counts: Mapping[str, int]
) -> Mapping[tuple[int, str], float]:
    """Return the GPU-seconds between two looks by day and state; empty if time went back.

    ``counts`` are the numbers of GPUs by state at ``end_s``.
    """
    begin_s = max(begin_s, end_s - GAP_S_MAX)
    if not end_s > begin_s:
        return {}
    observed_s = begin_s if end_s - begin_s <= LOOK_S_MAX else end_s - LOOK_S_MAX
    seconds: dict[tuple[int, str], float] = defaultdict(float)
    for day, day_s in _days(begin_s, observed_s):
        seconds[day, "unobserved"] += day_s * sum(counts.values())
    for day, day_s in _days(observed_s, end_s):
        for state, count in counts.items():
            seconds[day, state] += day_s * count
    return seconds


def _days(begin_s: float, end_s: float) -> Iterator[tuple[int, float]]:
    """Yield each day between two times with its seconds between them."""
    while begin_s < end_s:
        day = day_of(begin_s)
        until_s = min(end_s, (day + 1) * DAY_S)
        yield day, until_s - begin_s
        begin_s = until_s
