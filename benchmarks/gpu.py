"""The figures of a GPU machine: what Trainshed costs a training on it, and how soon it lets go.

Measures run in order of value, each in a process of its own, until the time is over; one that
fails or hangs is told with its reason, and the others go on.  The figures so far are in the file
after each of them.

    python benchmarks/gpu.py --out DIR [--seconds 240] [--dry] [--only NAME]

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
from dataclasses import dataclass, field
from pathlib import Path

import gpu_machine
from gpu_bench import Bench, Row, Unmeasured
from gpu_chart import draw

from launch import Figure, at_least, at_most, verdict

#: In order of value; each is a module of its own.
MEASURES = ("steps", "cancel", "sampling", "reduction", "start", "check")
#: How much longer than the rest of the time the last measure may take.
OVERTIME_S, GOODBYE_S = 15.0, 10.0


@dataclass(slots=True, kw_only=True)
class Report:
    """All that was found."""

    machine: dict[str, object]
    figures: list[dict[str, object]] = field(default_factory=list)
    not_measured: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def written(self, file: Path) -> None:
        """To a file, whole or not at all."""
        document = {
            **self.machine,
            "figures": self.figures,
            "not_measured": self.not_measured,
            "seconds": self.seconds,
        }
        aside = file.with_suffix(".partial")
        aside.write_text(json.dumps(document, indent=1) + "\n")
        aside.replace(file)


def main() -> int:
    """Measure; the exit code is 1 only where nothing could be."""
    args = arguments()
    if args.into:
        return measured_into(args)
    args.out.mkdir(parents=True, exist_ok=True)
    report = Report(machine=gpu_machine.facts(is_dry=args.dry))
    tell_machine(report.machine)
    if not args.dry and report.machine["device"] != "cuda":
        print(f"  nothing can be measured: {report.machine['why_no_cuda']}")
        return 1
    until = time.monotonic() + args.seconds
    for name in args.only or MEASURES:
        take(name, args, until, report)
        report.written(args.out / "gpu-figures.json")
    if reason := draw(report.figures, args.out / "gpu-figures.png"):
        report.not_measured["picture"] = reason
    report.written(args.out / "gpu-figures.json")
    for row in report.figures:
        if row["holds"] is False:
            print(f"  FAIL  {row['name']}: {row['value']:.3g} {row['unit']}, goal {row['goal']}")
    return 0 if report.figures else 1


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="where the figures go")
    parser.add_argument("--seconds", type=float, default=240.0, help="when no measure begins")
    parser.add_argument("--dry", action="store_true", help="a rehearsal without a GPU")
    parser.add_argument("--only", action="append", choices=MEASURES, help="repeatable")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # we call ourselves so
    return parser.parse_args()


def tell_machine(machine: dict[str, object]) -> None:
    """Say on what this runs."""
    print("  " + ", ".join(f"{name} {fact}" for name, fact in machine.items() if fact))


def take(name: str, args: argparse.Namespace, until: float, report: Report) -> None:
    """One measure: its lines go to the table, its figures or its reason to the report."""
    if time.monotonic() >= until:
        report.not_measured[name] = "the time was over"
        print(f"  SKIP  {name}: the time was over", flush=True)
        return
    print(f"\n  {name}", flush=True)
    began = time.monotonic()
    rows, reason = in_a_process(name, args, until - began)
    report.seconds[name] = round(time.monotonic() - began, 1)
    for row in rows:
        figure = None if args.dry else promised(row)
        print(line(row, figure), flush=True)
        report.figures.append({"measure": name, **row, "holds": figure and figure.holds})
    if reason:
        report.not_measured[name] = reason
        print(f"  SKIP  {name}: not measured: {reason}", flush=True)


def in_a_process(name: str, args: argparse.Namespace, left_s: float) -> tuple[list[Row], str]:
    """The figures of a measure, and why there are no others; it is ended when it takes too long."""
    with tempfile.TemporaryDirectory(prefix=f"gpu-{name}-", ignore_cleanup_errors=True) as folder:
        into = Path(folder) / "rows.json"
        words = ["--out", folder, "--into", into, "--only", name, "--seconds", left_s]
        command = [sys.executable, __file__, *words, *(["--dry"] if args.dry else [])]
        child = subprocess.Popen([*map(str, command)], start_new_session=True)
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


def measured_into(args: argparse.Namespace) -> int:
    """Take one measure in this process, and write what came of it."""
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
        for row in importlib.import_module(f"gpu_{name}").measure(bench):
            rows.append(row)
            args.into.write_text(json.dumps({"rows": rows, "reason": "it was ended"}))
    except Unmeasured as unmeasured:
        reason = str(unmeasured)
    except (Exception, SystemExit) as fault:  # noqa: BLE001  # the other measures go on
        reason = f"{type(fault).__name__}: {fault}"[:2000]
    args.into.write_text(json.dumps({"rows": rows, "reason": reason}))
    return 0


def line(row: Row, figure: Figure | None) -> str:
    """A line of the table."""
    if figure:
        return verdict(figure, 46)
    return f"        {row['name']:46} {row['value']:9.3f} {row['unit']}"


def promised(row: Row) -> Figure | None:
    """The figure as other benchmarks have it; None without a goal."""
    if row["goal"] is None:
        return None
    judge = at_least if row["better"] == "more" else at_most
    return judge(row["name"], row["value"], row["goal"], row["unit"])


if __name__ == "__main__":
    sys.exit(main())
