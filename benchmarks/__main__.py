"""Run benchmarks: one with options of its own, or several that end with one table.

    python -m benchmarks NAME [OPTION ...]
    python -m benchmarks NAME NAME ... [--dry] [--json FILE]
    python -m benchmarks all [--dry] [--json FILE]

Without a name the names are listed.  ``all`` runs the benchmarks that take minutes: those of tuning
and early stopping take an hour, and ``gpu`` needs a GPU.  ``--dry`` runs each with its smallest
sizes, in seconds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Final

from benchmarks.harness import ROOT, Json, has_missed, run, table_lines

#: The module of each benchmark, which defines ``BENCHMARK``.
MODULES: Final = {
    "launch": "launch.local_run",
    "startup": "launch.server_start",
    "isolation": "launch.isolation",
    "service": "service.submits",
    "job-cost": "service.job_cost",
    "connections": "service.connections",
    "console_stream": "console.stream",
    "storage": "service.storage",
    "bodies": "service.bodies",
    "logs": "service.logs",
    "console-logs": "console.logs",
    "console": "console.page",
    "recovery": "service.recovery",
    "studies": "service.studies",
    "observability": "observability.parts",
    "slurm": "slurm.submits",
    "kubernetes": "kubernetes.submits",
    "reduction": "reduction.rings",
    "planning": "planning.accuracy",
    "planning-hosts": "planning.hosts",
    "planning-speed": "planning.speed",
    "tuning": "tuning.regret",
    "tuning-start": "tuning.start_rule",
    "early-stopping": "tuning.early_stopping",
    "early-rungs": "tuning.early_rungs",
    "gpu": "gpu.figures",
}
ALL: Final = "all"
#: The benchmarks that ``all`` leaves out.
ON_REQUEST: Final = ("tuning", "tuning-start", "early-stopping", "early-rungs", "gpu")


def main(words: Sequence[str]) -> int:
    """Run the named benchmarks; return 1 if a goal is missed or a benchmark fails to run.

    Without a name return 2.
    """
    if words and words[0] in MODULES and not set(words[1:]) & {ALL, *MODULES}:
        benchmark = import_module(f"benchmarks.{MODULES[words[0]]}").BENCHMARK
        return run(words[0], benchmark, words[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((ALL, *MODULES)))
    parser.add_argument("--dry", action="store_true", help="the smallest sizes; judges nothing")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "benchmarks.json")
    args = parser.parse_args(words)
    if not args.names:
        print(*_list_names(), sep="\n", file=sys.stderr)
        return 2
    if unknown := set(args.names) - {ALL, *MODULES}:
        accepted = ", ".join((ALL, *MODULES))
        parser.error(f"NAME must be one of {accepted}, got {', '.join(sorted(unknown))}")
    documents = [_run_alone(name, dry=args.dry) for name in _expand(args.names)]
    args.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"date": datetime.now(UTC).date().isoformat(), "processors": os.cpu_count()}
    args.json.write_text(json.dumps({**machine, "benchmarks": documents}, indent=1) + "\n")
    print("\n", *table_lines(documents), f"\n  all values: {args.json}", sep="\n")
    return int(any(has_missed(one) or "failed" in one["left_out"] for one in documents))


def _list_names() -> Iterator[str]:
    yield "python -m benchmarks needs a NAME:"
    yield from (f"  {name}" for name in MODULES if name not in ON_REQUEST)
    yield f"  {ALL}: these one after the other, in more than an hour"
    yield from (f"  {name}, which {ALL} leaves out" for name in ON_REQUEST)


def _expand(names: Sequence[str]) -> Sequence[str]:
    """Return the benchmarks to run, each once."""
    usual = [name for name in MODULES if name not in ON_REQUEST]
    chosen = (usual if name == ALL else [name] for name in names)
    return list(dict.fromkeys(chain.from_iterable(chosen)))


def _run_alone(name: str, *, dry: bool) -> Json:
    """Run a benchmark in a separate process; return its document, or one with the failure."""
    print(f"\n{name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        command = [sys.executable, "-m", "benchmarks", name, "--json", str(file)]
        done = subprocess.run([*command, *(["--dry"] if dry else [])], cwd=ROOT, check=False)
        if file.exists():
            return dict(json.loads(file.read_text()))
    reason = {"failed": f"its process ended with exit status {done.returncode} and wrote no values"}
    return {"benchmark": name, "dry": dry, "goals": [], "left_out": reason}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
