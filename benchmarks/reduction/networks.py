"""What networks of jobs cost reducers: the same all-reduce there and on the machine's loopback."""

import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from benchmarks.harness import Goal, at_most
from benchmarks.reduction.job_hosts import job_hosts
from benchmarks.reduction.shaped_network import Network, network
from benchmarks.reduction.stage import Setting, stage_on

WORKERS: Final = 4
SIZE_MB: Final = 64.0
REPS: Final = 12
#: By what share of the time on loopback an all-reduce may take longer.
LOSS_MAX: Final = 0.03
TODAY: Final = "the machine's loopback"
SHARED, OWN = "a job's network", "a network for each replica"


def measure_networks() -> tuple[list[Setting], list[Goal]]:
    """All-reduce in turn in the three places, so that a busy moment hits them all.

    Raises:
        OSError: this machine cannot make networks of jobs.

    """
    seconds: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        places = _open_places(stack)
        groups = {
            name: stack.enter_context(stage_on(net, WORKERS)).group(WORKERS, WORKERS)
            for name, net in places.items()
        }
        for turn in range(REPS + 1):
            for name in list(groups)[:: -1 if turn % 2 else 1]:
                for backend in ("gloo", "reduction"):
                    second = groups[name].checked(backend, SIZE_MB)
                    if turn:  # the first round warms buffers up
                        seconds.setdefault(name, {}).setdefault(backend, []).append(second)
        settings = [
            groups[name].setting(f"N=4 R=4, {SIZE_MB:g} MB, {name}", SIZE_MB, of_backend)
            for name, of_backend in seconds.items()
        ]
    return settings, _compare(seconds)


def _open_places(stack: ExitStack) -> dict[str, Network]:
    count = 2 * WORKERS
    return {
        TODAY: stack.enter_context(network(count, None)),
        SHARED: stack.enter_context(job_hosts(count, is_shared=True)),
        OWN: stack.enter_context(job_hosts(count, is_shared=False)),
    }


def _compare(seconds: Mapping[str, Mapping[str, list[float]]]) -> list[Goal]:
    """A goal for each kind of network; gloo's ratio shows what is the network's own."""
    today, goals = seconds[TODAY], []
    for name in (SHARED, OWN):
        gloo = _slowdown(seconds[name]["gloo"], today["gloo"])
        ours = _slowdown(seconds[name]["reduction"], today["reduction"])
        words = f"reducers in {name}, over {TODAY} (gloo: {gloo:.2f})"
        goals.append(at_most(words, ours, 1 + LOSS_MAX, "of its time"))
    return goals


def _slowdown(there_s: list[float], here_s: list[float]) -> float:
    """The median of the ratios round by round."""
    return statistics.median(there / here for there, here in zip(there_s, here_s, strict=True))
