"""Reducers beside gloo's ring, interleaved in the same processes behind the same shaped links.

Needs root for shaped links, and says SKIP without.  Ratios and shares of the wire are promised,
never milliseconds.  A goal that fails is measured once more, and the output says so.

    python benchmarks/reduction.py [--only four few] [--json FILE] [--png FILE]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

# each rank computes on one processor, and torch does not complain that addresses have no names;
# read when torch and NumPy are imported
os.environ.update(
    {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
)

import reduction_failures as failures
from reduction_chart import draw
from reduction_goals import GOALS, Found, Goal
from reduction_networks import measure_networks
from reduction_stage import Setting, Stage, stage
from shaped_network import why_not

from launch import Figure, verdict

FAILURES, NETWORKS = "failures", "networks"
NAMES = [*GOALS, NETWORKS, FAILURES]
#: Worker hosts of the shaped stage, and as many for reducers: the most that a goal needs.
WORKERS, WORKERS_LOOPBACK = 8, 4


@dataclass(slots=True, kw_only=True)
class Report:
    """All that was found; goals by name."""

    load: float
    noisy: bool
    seconds: float = 0.0
    figures: dict[str, Sequence[Figure]] = field(default_factory=dict)
    settings: dict[str, Sequence[Setting]] = field(default_factory=dict)
    retried: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def holds(self) -> bool:
        """Whether all goals hold; on a noisy machine, those that must hold even there."""
        steady = {FAILURES, *(name for name, goal in GOALS.items() if goal.steady)}
        return all(
            figure.holds
            for name, figures in self.figures.items()
            for figure in figures
            if name in steady or not self.noisy
        )


def tell(text: str) -> None:
    """Say what goes on, beside the table."""
    print(f"  {text}", file=sys.stderr, flush=True)


def measure(report: Report, name: str, goal: Goal, testbed: Stage) -> None:
    """One goal, and once more if it fails."""
    outcome = _measured(name, goal, testbed)
    if not all(figure.holds for figure in outcome.figures):
        tell(f"{name} failed, and is measured once more")
        report.retried.append(name)
        outcome = _measured(name, goal, testbed)
    report.figures[name], report.settings[name] = outcome.figures, outcome.settings


def _measured(name: str, goal: Goal, testbed: Stage) -> Found:
    began = time.monotonic()
    if goal.rate_mbit is not None:
        testbed.at(goal.rate_mbit)
    outcome = goal.measure(testbed)
    tell(f"{name}: {time.monotonic() - began:.1f} s")
    for setting in outcome.settings:
        tell(f"  {setting.name}: {setting.ratio:.2f} times gloo")
    return outcome


def measure_goals(report: Report, names: Sequence[str]) -> None:
    """The goals behind links, then those on loopback."""
    shaped = {n: goal for n, goal in GOALS.items() if n in names and goal.rate_mbit is not None}
    local = {n: goal for n, goal in GOALS.items() if n in names and goal.rate_mbit is None}
    if reason := why_not():
        report.skipped |= dict.fromkeys(shaped, reason)
        shaped = {}
    for goals, workers in ((shaped, WORKERS), (local, WORKERS_LOOPBACK)):
        if goals:
            rate_mbit = next(iter(goals.values())).rate_mbit
            with stage(workers, workers, rate_mbit) as testbed:
                for name, goal in goals.items():
                    measure(report, name, goal, testbed)


def measure_job_networks(report: Report) -> None:
    """What networks of jobs cost."""
    try:
        report.settings[NETWORKS], report.figures[NETWORKS] = measure_networks()
    except OSError as error:
        report.skipped[NETWORKS] = f"networks of jobs are refused here: {error}"


def measure_failures(report: Report) -> None:
    """What is promised about losses."""
    reason = why_not()
    if reason:
        report.skipped["a cut link"] = reason
    report.figures[FAILURES] = failures.figures(None if reason else 200)


@contextmanager
def timed(report: Report) -> Iterator[None]:
    """Note how long it took."""
    began = time.monotonic()
    yield
    report.seconds = time.monotonic() - began


def show(report: Report) -> None:
    """A bar for each setting, then one line a promise."""
    loaded = "noisy: only some goals count" if report.noisy else "quiet"
    machine = f"on {os.cpu_count()} processors, whose load was {report.load:.1f} before ({loaded})"
    print(f"{machine}; {report.seconds:.0f} s\n")
    print("times faster than gloo, in the same processes and over the same links; then which part")
    print("of its own limit on these links each reached, reducers and gloo's ring\n")
    for setting in (one for group in report.settings.values() for one in group):
        shaped = setting.rate_mbit is not None
        effs = f"{setting.eff:5.2f} {setting.gloo_eff:5.2f}" if shaped else " " * 11
        bar = "#" * max(1, round(20 * setting.ratio))
        print(f"  {setting.name:32} {setting.ratio:5.2f}  {effs}  {bar}")
    print()
    for figure in (one for group in report.figures.values() for one in group):
        print(verdict(figure, 56))
    for name, reason in report.skipped.items():
        print(f"  SKIP  {name}: {reason}")
    for name in report.retried:
        print(f"  {name} had failed at first, and was measured a second time")


def document(report: Report) -> dict[str, object]:
    """The report for other programs."""
    settings = [
        {
            "goal": name,
            **asdict(setting),
            "ratio": setting.ratio,
            "theory": setting.theory,
            "eff": setting.eff,
            "gloo_eff": setting.gloo_eff,
        }
        for name, group in report.settings.items()
        for setting in group
    ]
    return {**asdict(report), "settings": settings, "holds": report.holds()}


def main() -> int:
    """Measure, print, and say by the exit code whether every promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", choices=NAMES, help="these goals and no others")
    parser.add_argument("--json", type=Path, help="write all that was measured here")
    parser.add_argument("--png", type=Path, help="draw the ratios here")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    report = Report(load=load, noisy=load > 2 * (os.cpu_count() or 1))
    names = args.only or NAMES
    with timed(report):
        measure_goals(report, names)
        if NETWORKS in names:
            measure_job_networks(report)
        if FAILURES in names:
            measure_failures(report)
    settings = [setting for rows in report.settings.values() for setting in rows]
    if args.png and (skipped := draw(settings, args.png)):
        report.skipped["png"] = skipped
    if args.json:
        args.json.write_text(json.dumps(document(report), indent=1))
    show(report)
    return 0 if report.holds() else 1


if __name__ == "__main__":
    sys.exit(main())
