"""The figures of a GPU machine: what Trainshed costs a training on it, and how soon it lets go.

Measures run in order of value, each in a process of its own, until the time is over; one that
fails or hangs is listed with its reason, and the others go on.  The figures so far are in the file
after each of them.  It needs a GPU; a goal that is missed is no failure of the command.

    python -m benchmarks gpu --out DIR [--seconds 240] [--dry] [--only NAME]

``--dry`` is a rehearsal on the CPU with fake devices: its figures mean nothing.
"""

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import charts
from benchmarks.gpu import machine
from benchmarks.gpu.bench import Bench, Row, Unmeasured
from benchmarks.harness import ROOT, Benchmark, Goal, Report, at_least, at_most

#: In order of value; each is a module of its own.
MEASURES = ("steps", "cancel", "sampling", "reduction", "start", "check")
#: How much longer than the rest of the time the last measure may take.
OVERTIME_S, GOODBYE_S = 15.0, 10.0


@dataclass(slots=True, kw_only=True)
class Figures:
    """The figures of all measures."""

    machine: dict[str, object]
    figures: list[dict[str, object]] = field(default_factory=list)
    not_measured: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def written(self, file: Path) -> None:
        """Write the figures to a file in one step."""
        document = {
            **self.machine,
            "figures": self.figures,
            "not_measured": self.not_measured,
            "seconds": self.seconds,
        }
        aside = file.with_suffix(".partial")
        aside.write_text(json.dumps(document, indent=1) + "\n")
        aside.replace(file)


def measure(args: argparse.Namespace) -> Report:
    """Run the measures, or one of them in this process."""
    if args.into:
        measured_into(args)
        return Report()
    args.out.mkdir(parents=True, exist_ok=True)
    figures = Figures(machine=machine.facts(is_dry=args.dry))
    tell_machine(figures.machine)
    if not args.dry and figures.machine["device"] != "cuda":
        raise SystemExit(f"nothing can be measured: {figures.machine['why_no_cuda']}")
    until = time.monotonic() + args.seconds
    for name in args.only or MEASURES:
        take(name, args, until, figures)
        figures.written(args.out / "gpu-figures.json")
    if reason := charts.draw_gpu_figures(figures.figures, args.out / "gpu-figures.png"):
        figures.not_measured["picture"] = reason
    figures.written(args.out / "gpu-figures.json")
    if not figures.figures:
        raise SystemExit("nothing was measured")
    return Report(goals=[goal_of(row) for row in figures.figures], left_out=figures.not_measured)


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long, and which measures."""
    out = ROOT / "build" / "gpu"
    parser.add_argument("--out", type=Path, default=out, help="where the figures go")
    parser.add_argument("--seconds", type=float, default=240.0, help="when no measure begins")
    parser.add_argument("--only", action="append", choices=MEASURES, help="repeatable")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # we call ourselves so


def tell_machine(facts: dict[str, object]) -> None:
    """Print on what this runs."""
    print("  " + ", ".join(f"{name} {fact}" for name, fact in facts.items() if fact))


def take(name: str, args: argparse.Namespace, until: float, figures: Figures) -> None:
    """Run one measure; add to ``figures`` its rows, or the reason why it has none."""
    if time.monotonic() >= until:
        figures.not_measured[name] = "the time was over"
        return
    print(f"\n  {name}", flush=True)
    began = time.monotonic()
    rows, reason = in_a_process(name, args, until - began)
    figures.seconds[name] = round(time.monotonic() - began, 1)
    for row in rows:
        holds = None if args.dry or row["goal"] is None else goal_of(row).holds
        figures.figures.append({"measure": name, **row, "holds": holds})
    if reason:
        figures.not_measured[name] = f"not measured: {reason}"


def in_a_process(name: str, args: argparse.Namespace, left_s: float) -> tuple[list[Row], str]:
    """Run a measure in a process, which ends at a time limit; return its figures and a reason."""
    with tempfile.TemporaryDirectory(prefix=f"gpu-{name}-", ignore_cleanup_errors=True) as folder:
        into = Path(folder) / "rows.json"
        words = ["--out", folder, "--into", into, "--only", name, "--seconds", left_s]
        command = [
            sys.executable,
            "-m",
            "benchmarks",
            "gpu",
            *words,
            *(["--dry"] if args.dry else []),
        ]
        child = subprocess.Popen([*map(str, command)], cwd=ROOT, start_new_session=True)
        reason = waited_for(child, left_s + OVERTIME_S)
        if not into.exists():
            return [], reason or f"it ended with {child.returncode} and no figure"
        report = json.loads(into.read_text())
        return report["rows"], reason or report["reason"]


def waited_for(child: subprocess.Popen[bytes], limit_s: float) -> str:
    """Wait for a measure; where it takes too long it may end its jobs, and then is killed."""
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        return f"it took longer than {limit_s:.0f} s"
    return ""


def measured_into(args: argparse.Namespace) -> None:
    """Run one measure in this process, and write its figures or the reason."""
    (name,) = args.only
    args.out.chmod(0o755)  # jobs may run as other users
    bench = Bench(
        device="cpu" if args.dry else "cuda",
        dry=args.dry,
        folder=args.out / name,
        until=time.monotonic() + args.seconds,
    )
    bench.folder.mkdir()
    rows: list[Row] = []
    reason = ""
    try:
        for row in importlib.import_module(f"benchmarks.gpu.{name}").measure(bench):
            rows.append(row)
            args.into.write_text(json.dumps({"rows": rows, "reason": "it was ended"}))
    except Unmeasured as unmeasured:
        reason = str(unmeasured)
    except (Exception, SystemExit) as fault:  # noqa: BLE001  # the other measures go on
        reason = f"{type(fault).__name__}: {fault}"[:2000]
    args.into.write_text(json.dumps({"rows": rows, "reason": reason}))


def goal_of(row: Mapping[str, Any]) -> Goal:
    """Convert a figure to a goal of the harness."""
    judge = at_least if row["better"] == "more" else at_most
    return judge(row["name"], row["value"], row["goal"], row["unit"])


BENCHMARK = Benchmark(description=__doc__, measure=measure, add_options=add_options, fails=False)
