"""Measures the time from a command to the first line of the last replica, beside other launchers.

Trainshed, bare Python, torchrun and gcloud's local train run in turn in each round, so that other
work on the machine slows all of them; the table prints medians.  The benchmark also measures the
time that an installed package adds, the launcher's memory at 13 replicas, and the speed of
`trainshed validate`.

    python -m benchmarks launch [--rounds 5] [--skip gcloud]
"""

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.harness import BIN, TRAINSHED, Benchmark, Goal, Report, at_least, at_most, tell

# the trainer waits after its line: a job ends with its primary, and all replicas must print first
SAY = "import sys, time\nsys.stdout.write(f'UL {time.time()}\\n')\nsys.stdout.flush()\n"
TRAINER = SAY + "time.sleep(1)\n"
WAITER = SAY + "time.sleep(600)\n"
LINE = re.compile(r"UL (\d+\.\d+)")

CLUSTER_13 = """\
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-4
  workerType: n1-standard-4
  workerCount: 9
  parameterServerType: n1-standard-4
  parameterServerCount: 3
"""
SETUP = "from setuptools import setup\nsetup(name='warm', version='1.0', packages=['warm'])\n"


def first_line_s(command: Sequence[str], lines: int, cwd: Path, env: Mapping[str, str]) -> float:
    """Return the seconds from the start of a command to the last of ``lines`` first lines."""
    started = time.time()
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    stamps = [float(stamp) for stamp in LINE.findall(done.stdout)]
    if done.returncode or len(stamps) != lines:
        raise SystemExit(
            f"{' '.join(command)} must print {lines} lines, got {len(stamps)}:\n{done.stdout}"
        )
    return max(stamps) - started


def bare(count: int, cwd: Path, env: Mapping[str, str]) -> float:
    """Return the seconds of ``count`` plain interpreters that start at once: the lower limit."""
    started = time.time()
    children = [
        subprocess.Popen(
            [sys.executable, "pkg/task.py"], cwd=cwd, env=env, text=True, stdout=subprocess.PIPE
        )
        for _ in range(count)
    ]
    stamps = [float(LINE.findall(child.communicate()[0])[0]) for child in children]
    return max(stamps) - started


def launchers(cwd: Path, env: Mapping[str, str]) -> dict[str, Callable[[], float]]:
    """Return the rows of the table: a name, and the function that measures it once."""
    local = ["ai-platform", "local", "train", "--module-name", "pkg.task", "--package-path", "pkg"]
    four = ["--distributed", "--parameter-server-count", "1", "--worker-count", "2"]
    torchrun = str(BIN / "torchrun")
    rows: dict[str, Callable[[], float]] = {}
    for name, count in (("x1", 1), ("x4", 4)):
        extra = four if count > 1 else []
        ours = [TRAINSHED, *local, *extra]
        gcloud = ["gcloud", *local, *extra]
        torch = [torchrun, f"--nproc-per-node={count}", "pkg/task.py"]
        rows[f"bare python {name}"] = partial(bare, count, cwd, env)
        rows[f"trainshed {name}"] = partial(first_line_s, ours, count, cwd, env)
        if Path(torchrun).exists():
            rows[f"torchrun {name}"] = partial(first_line_s, torch, count, cwd, env)
        if shutil.which("gcloud"):
            # without our environment: it would import TensorFlow again and again (contract 9.1)
            plain = {**env, "PATH": os.environ["PATH"]}
            rows[f"gcloud {name}"] = partial(first_line_s, gcloud, count, cwd, plain)
    package = ["--packages", "dist/warm-1.0.tar.gz", "--module-name", "warm.task"]
    command = [TRAINSHED, "ai-platform", "local", "train", *package]
    rows["trainshed warm package x1"] = partial(first_line_s, command, 1, cwd, env)
    return rows


def medians(rows: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Measure every row once in each round, after one warm-up round; return the medians."""
    samples: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(rounds + 1):
        for name, measure in rows.items():
            seconds = measure()
            tell(f"round {turn}/{rounds}  {name:28} {seconds:6.3f} s")
            if turn:
                samples[name].append(seconds)
    return {name: statistics.median(values) for name, values in samples.items()}


def memory_mb_at_13(cwd: Path, env: Mapping[str, str]) -> float:
    """Return the peak resident memory of the launcher with 13 replicas, in MB."""
    (cwd / "pkg" / "wait.py").write_text(WAITER)
    command = [TRAINSHED, "ai-platform", "local", "train", "--config", "config.yaml",
               "--module-name", "pkg.wait", "--package-path", "pkg"]  # fmt: skip
    child = subprocess.Popen(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert child.stdout  # noqa: S101  # Popen has opened a pipe
    count = 0
    while count < 13:
        line = child.stdout.readline()
        if not line:
            raise SystemExit("the 13 replicas did not start")
        count += len(LINE.findall(line))
    status = Path(f"/proc/{child.pid}/status").read_text()
    child.send_signal(signal.SIGTERM)
    child.communicate()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


def process_s(command: Sequence[str], cwd: Path, env: Mapping[str, str], rounds: int) -> float:
    """Return the median seconds of a command, from its start to its end."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def specs_per_s(cwd: Path, env: Mapping[str, str], count: int) -> float:
    """Validate ``count`` files with one command; return the files per second."""
    many = cwd / "specs"
    many.mkdir(exist_ok=True)
    files = [f"specs/{index:04}.yaml" for index in range(count)]
    for file in files:
        (cwd / file).write_text(CLUSTER_13)
    return count / process_s([TRAINSHED, "validate", *files], cwd, env, 1)


def goals(
    table: Mapping[str, float], cwd: Path, env: Mapping[str, str], args: argparse.Namespace
) -> list[Goal]:
    """Measure the other figures, and return all goals of the launcher."""
    over_python = table["trainshed x1"] - table["bare python x1"]
    over_cold = table["trainshed warm package x1"] - table["trainshed x1"]
    validate_s = process_s([TRAINSHED, "validate", "config.yaml"], cwd, env, args.rounds)
    help_s = process_s([TRAINSHED, "--help"], cwd, env, args.rounds)
    rate = specs_per_s(cwd, env, args.specs)
    peers = (("torchrun x4", 1 / 4), ("gcloud x4", 1 / 5))
    return [
        at_most("x1, over bare python", over_python, 0.35, "s"),
        at_most("a warm package job, over one without", over_cold, 0.25, "s"),
        at_most("launcher's memory at 13 replicas", memory_mb_at_13(cwd, env), 40, "MB"),
        at_most("validate, one file, as a process", validate_s, 0.5, "s"),
        at_most("--help, as a process", help_s, 0.3, "s"),
        at_least(f"validate, {args.specs:,} files in one call", rate, 500, "specs/s"),
        *(
            at_most(f"x4, as a share of {peer}", table["trainshed x4"] / table[peer], share, "")
            for peer, share in peers
            if peer in table
        ),
    ]


def prepare(cwd: Path) -> None:
    """Write a trivial trainer, a package with the same trainer, and a config of 13 replicas."""
    for name in ("pkg", "warm"):
        (cwd / name).mkdir()
        (cwd / name / "__init__.py").touch()
        (cwd / name / "task.py").write_text(TRAINER)
    (cwd / "config.yaml").write_text(CLUSTER_13)
    (cwd / "setup.py").write_text(SETUP)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist"], cwd=cwd, check=True, capture_output=True
    )
    (cwd / "setup.py").unlink()


def bars(table: Mapping[str, float]) -> list[str]:
    """Return a line with a bar for each row of the table."""
    widest = max(table.values())
    lines = ["command to first line of the last replica, median seconds", ""]
    for name, seconds in table.items():
        lines.append(f"  {name:28} {seconds:7.3f}  {'#' * max(1, round(40 * seconds / widest))}")
    return [*lines, ""]


def measure(args: argparse.Namespace) -> Report:
    """Measure all rows, then the goals."""
    skip = [*args.skip, *(("torchrun", "gcloud") if args.dry else ())]
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder)
        prepare(cwd)
        env = {
            **os.environ,
            "CLOUDSDK_CONFIG": str(cwd / "gcloud"),
            "TRAINSHED_CACHE_DIR": str(cwd / "cache"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        rows = launchers(cwd, env)
        rows = {n: m for n, m in rows.items() if not any(s in n for s in skip)}
        table = medians(rows, args.rounds)
        left_out = dict.fromkeys(args.skip, "as asked")
        left_out |= {
            peer: "not measured in the dry form" if args.dry else "not installed"
            for peer in ("torchrun", "gcloud")
            if peer not in left_out and not any(peer in name for name in rows)
        }
        return Report(
            goals=goals(table, cwd, env, args),
            left_out=left_out,
            lines=bars(table),
            data={"seconds": table},
        )


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"rounds": (5, 1), "specs": (1000, 20)},
    add_options=lambda parser: parser.add_argument(
        "--skip", action="append", default=[], help="a launcher to leave out"
    ),
)
