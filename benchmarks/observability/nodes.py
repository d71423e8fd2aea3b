"""Measures what it costs to sample a GPU, and to measure a replica on a cluster's node.

A warden answers each ping with the usage of its replica, which it adds up over the processes.  The
sampling of a GPU needs a card; ``make test-gpu`` has more figures of it.
"""

import argparse
import json
import os
import subprocess
import time
from typing import Final

from benchmarks.gpu.bench import Unmeasured
from benchmarks.gpu.sampling import one_sample
from benchmarks.harness import Benchmark, Goal, Report, at_most
from trainshed.engines.supervise.kernel.kill import WITHOUT_BOXES, open_process_tree
from trainshed.engines.warden.beats import Beat, compose_beat

#: Seconds between two pings of a launcher.
_PING_S: Final = 5.0
_REPLICA_PERCENT_MAX: Final = 0.05
_GPU_PERCENT_MAX: Final = 0.1


def measure(args: argparse.Namespace) -> Report:
    """Measure both; without a card the first is left out."""
    report = Report(goals=[measure_beats(args.processes, args.beats)])
    try:
        rows = {row["name"]: row for row in one_sample()}
    except Unmeasured as error:
        why = f"{error}; run it, or make test-gpu, on a machine with an NVIDIA GPU"
        report.left_out["sampling of a GPU"] = why
    else:
        row = rows["CPU of a sample every second"]
        report.goals.append(at_most(row["name"], row["value"], _GPU_PERCENT_MAX, row["unit"]))
    return report


def measure_beats(processes: int, beats: int) -> Goal:
    """Measure the CPU time of heartbeats for a replica of so many processes."""
    tree = open_process_tree("beats", 1, allow=WITHOUT_BOXES)
    program = ["sh", "-c", f"for _ in $(seq {processes - 1}); do sleep 600 & done; wait"]
    with subprocess.Popen(program, start_new_session=True) as replica:
        try:
            tree.add_replica(0, replica.pid)
            while (tree.usage(0).tasks or 0) < processes:
                time.sleep(0.01)
            began_s = time.process_time()
            for _ in range(beats):
                json.dumps(compose_beat(Beat(tree.usage(0), time.time_ns(), b'{"step": 12}')))
            cpu_s = (time.process_time() - began_s) / beats
        finally:
            os.killpg(replica.pid, 9)
    return at_most(
        f"a warden's heartbeats for {processes} processes",
        100 * cpu_s / _PING_S,
        _REPLICA_PERCENT_MAX,
        "% of a core",
        f"{1000 * cpu_s:.1f} ms each {_PING_S:g} s",
    )


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"processes": (17, 3), "beats": (200, 2)},
)
