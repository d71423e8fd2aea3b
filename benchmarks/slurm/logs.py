"""Measures the output of many lines, beside ``srun --output``."""

import sys
from pathlib import Path

from benchmarks.harness import at_least, at_most
from benchmarks.slurm import sides
from benchmarks.slurm.measured import Measured
from benchmarks.slurm.sides import Caller, Cluster, submit

LOG_MB = 200
#: Writes lines, then the seconds that this took: a full pipe blocks the program.
WRITES = f"""\
import os, sys, time
began, line = time.monotonic(), "x" * 99 + "\\n"
for _ in range({LOG_MB} * 10):
    sys.stdout.write(line * 1000)
sys.stdout.flush()
with open(sys.argv[1] + ".new", "w") as file:
    file.write(repr(time.monotonic() - began))
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


def measure_log(measured: Measured, client: Caller, at: Cluster) -> None:
    """Measure how long a program needs to write its lines, by us and by ``srun --output``."""
    program = at.folder / "shared" / "writes.py"
    program.write_text(WRITES)
    plain, ours = at.make_folder() / "seconds", at.make_folder() / "seconds"
    at.idle()
    words = (f"--output={plain.parent}/lines", "-n1", sys.executable, str(program), str(plain))
    at.command("srun", *words)
    at.idle()
    argv = [sys.executable, str(program), str(ours)]
    name = submit(client, sides.job_of(argv, 1))
    sides.await_state(client, name, "SUCCEEDED")
    seconds, plain_s = _read_s(ours), _read_s(plain)
    note = f"srun --output {LOG_MB / plain_s:.0f} MB/s"
    measured.goals += [
        at_least(f"{LOG_MB} MB of lines", LOG_MB / seconds, 50.0, "MB/s", note),
        at_most(f"{LOG_MB} MB of lines, over srun --output", seconds / plain_s, 1.0, "times"),
    ]


def _read_s(path: Path) -> float:
    return float(path.read_text())
