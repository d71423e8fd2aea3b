"""Samples of the whole installation, which one server gives: the one that schedules."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from trainshed.model.explanation import Reason
from trainshed.service.telemetry import families
from trainshed.service.telemetry.family import FamilySamples
from trainshed.store.open_job_counts import OpenJobCounts
from trainshed.store.records.jobs import Holding
from trainshed.store.records.nodes import NodeRow

#: With more nodes, families of nodes are sums, with an empty label ``node``.
NODES_MAX = 200


def read_jobs(counts: OpenJobCounts, choose: Callable[[str], str]) -> Iterator[FamilySamples]:
    """Return the open jobs; ``choose`` returns the label of a project, the largest first."""
    sizes: Counter[str] = Counter()
    for (project, _), count in counts.by_project.items():
        sizes[project] += count
    labels = {project: choose(project) for project, _ in sizes.most_common()}
    jobs: Counter[tuple[str, ...]] = Counter()
    for (project, state), count in counts.by_project.items():
        jobs[labels[project], state] += count
    yield families.JOBS, jobs
    yield families.QUEUE_JOBS, {(reason.value,): counts.waiting.get(reason, 0) for reason in Reason}
    yield families.QUEUE_OLDEST, {(): counts.oldest_wait_s or 0.0}
    yield families.STUDIES, {(state,): count for state, count in counts.studies.items()}
    yield families.TRIALS, {(state,): count for state, count in counts.trials.items()}


def read_nodes(
    rows: Sequence[NodeRow], held: Mapping[int, Holding], names: Sequence[str]
) -> Iterator[FamilySamples]:
    """Return the nodes; ``names`` are their labels, empty above ``NODES_MAX`` nodes."""
    replicas = Counter(
        (seat.engine or holding.engine, seat.node)
        for holding in held.values()
        for seat in holding.seats
    )
    states, by_node = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for row, name in zip(rows, names, strict=True):
        node, state = row.node.name, row.node.state.value
        states[(state,)] += 1
        on_node = replicas[row.engine, node] + (replicas["", node] if row.engine else 0)
        by_node[name, state] += on_node
    yield families.NODES, states
    yield families.NODE_REPLICAS, by_node
    seen_times = {(n,): r.seen_time.timestamp() for r, n in zip(rows, names, strict=True) if n}
    yield families.NODE_SEEN, seen_times
