"""From a submit to the program's first line: a job with a GPU over one without, in turns."""

import statistics
import time

from benchmarks.gpu.bench import Bench, Row, in_turns, median_ratio
from benchmarks.gpu.jobs import document, gpu_server, started_s

SAY = ["python", "-c", "print('here', flush=True)"]
PAIRS = 6
#: By then the job before has let go of its GPU: its release is not part of this one's start.
REST_S = 0.6


def measure(bench: Bench) -> list[Row]:
    """Pairs on one server; the first jobs, which find nothing warm, are not counted."""
    pairs = 2 if bench.dry else PAIRS
    with gpu_server(bench) as server:

        def start_s(gpus: int) -> float:
            time.sleep(REST_S)
            return started_s(server, document("start", SAY, gpus=gpus))

        start_s(1), start_s(0)
        timings = in_turns(lambda: start_s(1), lambda: start_s(0), pairs)
    gpu_s, cpu_s = (statistics.median(side) for side in zip(*timings, strict=True))
    bench.tell(f"with a GPU {gpu_s:.3f} s, without {cpu_s:.3f} s")
    return [
        Row(
            name="start of a GPU job",
            value=median_ratio(timings),
            unit="of a CPU job",
            goal=None,
            better="less",
            of=f"submit to the first line, over that of a CPU job, median of {pairs} pairs",
        ),
        Row(
            name="what a GPU adds to a start",
            value=statistics.median(1000 * (gpu - cpu) for gpu, cpu in timings),
            unit="ms",
            goal=None,
            better="less",
            of="the difference of the same pairs",
        ),
    ]
