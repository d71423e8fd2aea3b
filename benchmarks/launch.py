"""How long it takes from a command to the first line of the last replica, beside the peers.

Ours, bare Python, torchrun and gcloud's local train run in turn, round by round, so that a busy
moment hits them all; the table prints medians.  Also: what a warm package job adds, the launcher's
memory at 13 replicas, and the speed of `trainshed validate`.

    python benchmarks/launch.py [--rounds 5] [--format json] [--skip gcloud]
"""

import argparse
import json
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
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

BIN = Path(sys.executable).parent
TRAINSHED = str(BIN / "trainshed")
# it stays a moment: a job ends with its primary, and the others must have had their say
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One promise: what was measured, against what, and whether it holds."""

    name: str
    ours: float
    unit: str
    goal: str
    holds: bool


def first_line_s(command: Sequence[str], lines: int, cwd: Path, env: Mapping[str, str]) -> float:
    """Seconds from starting a command to the last of ``lines`` first lines."""
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
        raise SystemExit(f"{' '.join(command)} gave {len(stamps)} of {lines} lines:\n{done.stdout}")
    return max(stamps) - started


def bare(count: int, cwd: Path, env: Mapping[str, str]) -> float:
    """The floor: ``count`` plain interpreters started at once."""
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
    """Every row of the table: a name and how to measure it once."""
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
    """Every row once a round, after one round that warms up; the median of each."""
    samples: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(rounds + 1):
        for name, measure in rows.items():
            seconds = measure()
            print(f"  round {turn}/{rounds}  {name:28} {seconds:6.3f} s", file=sys.stderr)
            if turn:
                samples[name].append(seconds)
    return {name: statistics.median(values) for name, values in samples.items()}


def memory_mb_at_13(cwd: Path, env: Mapping[str, str]) -> float:
    """The launcher's peak resident memory while 13 replicas run, MB."""
    (cwd / "pkg" / "wait.py").write_text(WAITER)
    command = [TRAINSHED, "ai-platform", "local", "train", "--config", "config.yaml",
               "--module-name", "pkg.wait", "--package-path", "pkg"]  # fmt: skip
    child = subprocess.Popen(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert child.stdout  # noqa: S101  # a pipe was asked for
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
    """Median seconds of a whole command."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def specs_per_s(cwd: Path, env: Mapping[str, str]) -> float:
    """Files a second when 1,000 are validated in one call, start-up included."""
    many = cwd / "specs"
    many.mkdir(exist_ok=True)
    for index in range(1000):
        (many / f"{index:04}.yaml").write_text(CLUSTER_13)
    files = [f"specs/{index:04}.yaml" for index in range(1000)]
    return 1000 / process_s([TRAINSHED, "validate", *files], cwd, env, 1)


def figures(table: Mapping[str, float], cwd: Path, env: Mapping[str, str]) -> list[Figure]:
    """The promises of the launcher, each with what was measured."""
    promises = [
        at_most("x1, over bare python", table["trainshed x1"] - table["bare python x1"], 0.35, "s"),
        at_most(
            "a warm package job, over one without",
            table["trainshed warm package x1"] - table["trainshed x1"], 0.25, "s",
        ),
        at_most("launcher's memory at 13 replicas", memory_mb_at_13(cwd, env), 40, "MB"),
        at_most(
            "validate, one file, as a process",
            process_s([TRAINSHED, "validate", "config.yaml"], cwd, env, 5), 0.5, "s",
        ),
        at_most("--help, as a process", process_s([TRAINSHED, "--help"], cwd, env, 5), 0.3, "s"),
    ]  # fmt: skip
    rate = specs_per_s(cwd, env)
    promises.append(Figure(name="validate, 1,000 files in one call", ours=rate, unit="specs/s",
                        goal="over 500", holds=rate > 500))  # fmt: skip
    for peer, share in (("torchrun x4", 1 / 4), ("gcloud x4", 1 / 5)):
        if peer in table:
            ratio = table["trainshed x4"] / table[peer]
            promises.append(at_most(f"x4, as a share of {peer}", ratio, share, "of its time"))
    return promises


def at_most(name: str, ours: float, most: float, unit: str) -> Figure:
    """A promise that a figure stays under a limit."""
    return Figure(name=name, ours=ours, unit=unit, goal=f"at most {most:g}", holds=ours <= most)


def at_least(name: str, ours: float, least: float, unit: str) -> Figure:
    """A promise that a figure reaches a limit."""
    return Figure(name=name, ours=ours, unit=unit, goal=f"at least {least:g}", holds=ours >= least)


def verdict(figure: Figure, width: int) -> str:
    """One line: whether it holds, its name in so many columns, and what was asked for."""
    word = "PASS" if figure.holds else "FAIL"
    return f"  {word}  {figure.name:{width}} {figure.ours:9.3f} {figure.unit}  ({figure.goal})"


def prepare(cwd: Path) -> None:
    """A trivial trainer, the same as a package, and a config of 13 replicas."""
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


def show(table: Mapping[str, float], figures: Sequence[Figure]) -> None:
    """The table with a bar for each row, then one line a promise."""
    widest = max(table.values())
    print("command to first line of the last replica, median seconds\n")
    for name, seconds in table.items():
        print(f"  {name:28} {seconds:7.3f}  {'#' * max(1, round(40 * seconds / widest))}")
    print()
    for figure in figures:
        print(verdict(figure, 40))


def main() -> int:
    """Measure, print, and say by the exit code whether every promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--skip", action="append", default=[], help="leave a peer out")
    args = parser.parse_args()
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
        rows = {n: m for n, m in rows.items() if not any(s in n for s in args.skip)}
        table = medians(rows, args.rounds)
        promises = figures(table, cwd, env)
    if args.format == "json":
        print(json.dumps({"seconds": table, "figures": [asdict(f) for f in promises]}, indent=1))
    else:
        show(table, promises)
    return 0 if all(figure.holds for figure in promises) else 1


if __name__ == "__main__":
    sys.exit(main())
