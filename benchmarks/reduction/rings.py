"""Reducers beside gloo's ring, interleaved in the same processes behind the same shaped links.

Needs root for shaped links, and says SKIP without.  Ratios and shares of the wire are promised,
never milliseconds.  A goal that fails is measured once more, and the output says so.

    python -m benchmarks reduction [--only four few] [--png FILE]
"""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

# each rank computes on one processor, and torch does not complain that addresses have no names;
# read when torch and NumPy are imported
os.environ.update(
    {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
)

from benchmarks import charts
from benchmarks.harness import Benchmark, Goal, Report, tell
from benchmarks.reduction import failures
from benchmarks.reduction.goals import PARTS, Outcome, Part
from benchmarks.reduction.networks import measure_networks
from benchmarks.reduction.shaped_network import why_not
from benchmarks.reduction.stage import Setting, Stage, stage

FAILURES, NETWORKS = "failures", "networks"
NAMES = [*PARTS, NETWORKS, FAILURES]
#: Worker hosts of the shaped stage, and as many for reducers: the most that a goal needs.
WORKERS, WORKERS_LOOPBACK = 8, 4


@dataclass(slots=True, kw_only=True)
class Measured:
    """The measurements of the parts by name."""

    goals: dict[str, Sequence[Goal]] = field(default_factory=dict)
    settings: dict[str, Sequence[Setting]] = field(default_factory=dict)
    retried: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def measure_part(measured: Measured, name: str, part: Part, testbed: Stage) -> None:
    """Measure one part, and once more if it misses a goal."""
    outcome = _outcome(name, part, testbed)
    if not all(goal.holds for goal in outcome.goals):
        tell(f"{name} failed, and is measured once more")
        measured.retried.append(name)
        outcome = _outcome(name, part, testbed)
    measured.goals[name], measured.settings[name] = outcome.goals, outcome.settings


def _outcome(name: str, part: Part, testbed: Stage) -> Outcome:
    began = time.monotonic()
    if part.rate_mbit is not None:
        testbed.at(part.rate_mbit)
    outcome = part.measure(testbed)
    tell(f"{name}: {time.monotonic() - began:.1f} s")
    for setting in outcome.settings:
        tell(f"  {setting.name}: {setting.ratio:.2f} times gloo")
    return outcome


def measure_parts(measured: Measured, names: Sequence[str]) -> None:
    """Measure the parts behind links, then those on loopback."""
    shaped = {n: part for n, part in PARTS.items() if n in names and part.rate_mbit is not None}
    local = {n: part for n, part in PARTS.items() if n in names and part.rate_mbit is None}
    if shaped and (reason := why_not()):
        measured.left_out |= dict.fromkeys(shaped, reason)
        shaped = {}
    for parts, workers in ((shaped, WORKERS), (local, WORKERS_LOOPBACK)):
        if parts:
            rate_mbit = next(iter(parts.values())).rate_mbit
            with stage(workers, workers, rate_mbit) as testbed:
                for name, part in parts.items():
                    measure_part(measured, name, part, testbed)


def measure_dry(measured: Measured) -> None:
    """Two ranks on loopback, and one small tensor by both ways."""
    with stage(2, 2, None) as testbed:
        setting = testbed.group(2, 2).measure("N=2 R=2, 0.1 MB, loopback", 0.1, 1)
    measured.settings["dry"] = [setting]
    measured.left_out |= dict.fromkeys(NAMES, "not measured in the dry form")


def measure_job_networks(measured: Measured) -> None:
    """Measure the cost of networks of jobs."""
    try:
        measured.settings[NETWORKS], measured.goals[NETWORKS] = measure_networks()
    except OSError as error:
        measured.left_out[NETWORKS] = f"networks of jobs are refused here: {error}"


def measure_failures(measured: Measured) -> None:
    """Measure the times until a failure is reported."""
    reason = why_not()
    if reason:
        measured.left_out["a cut link"] = reason
    measured.goals[FAILURES] = list(failures.goals(None if reason else 200))


def judged(measured: Measured, *, is_noisy: bool) -> Iterator[Goal]:
    """Yield all goals; on a noisy machine goals that depend on its speed have no limit."""
    steady = {FAILURES, *(name for name, part in PARTS.items() if part.steady)}
    for name, goals in measured.goals.items():
        for goal in goals:
            yield replace(goal, limit=None) if is_noisy and name not in steady else goal


def lines(measured: Measured, load: float, *, is_noisy: bool) -> Iterator[str]:
    """A bar for each setting."""
    loaded = "noisy: only some goals are judged" if is_noisy else "quiet"
    yield f"on {os.cpu_count()} processors, whose load was {load:.1f} before ({loaded})\n"
    yield "times faster than gloo, in the same processes and over the same links; then which part"
    yield "of its own limit on these links each reached, reducers and gloo's ring\n"
    for setting in (one for group in measured.settings.values() for one in group):
        shaped = setting.rate_mbit is not None
        effs = f"{setting.eff:5.2f} {setting.gloo_eff:5.2f}" if shaped else " " * 11
        bar = "#" * max(1, round(20 * setting.ratio))
        yield f"  {setting.name:32} {setting.ratio:5.2f}  {effs}  {bar}"
    for name in measured.retried:
        yield f"  {name} had failed at first, and was measured a second time"
    yield ""


def setting_documents(measured: Measured) -> Iterator[dict[str, object]]:
    """The settings for other programs."""
    for name, group in measured.settings.items():
        for setting in group:
            ratios = {key: getattr(setting, key) for key in ("ratio", "theory", "eff", "gloo_eff")}
            yield {"part": name, **asdict(setting), **ratios}


def measure(args: argparse.Namespace) -> Report:
    """Measure all parts, or the named ones."""
    load = os.getloadavg()[0]
    is_noisy = load > 2 * (os.cpu_count() or 1)
    measured = Measured()
    names = args.only or NAMES
    if args.dry:
        measure_dry(measured)
    else:
        measure_parts(measured, names)
        if NETWORKS in names:
            measure_job_networks(measured)
        if FAILURES in names:
            measure_failures(measured)
    settings = [setting for rows in measured.settings.values() for setting in rows]
    if args.png and (reason := charts.draw_ratios(settings, args.png)):
        measured.left_out["picture"] = reason
    return Report(
        goals=list(judged(measured, is_noisy=is_noisy)),
        left_out=measured.left_out,
        lines=list(lines(measured, load, is_noisy=is_noisy)),
        data={"settings": list(setting_documents(measured)), "retried": measured.retried},
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which parts, and the picture."""
    parser.add_argument("--only", nargs="+", choices=NAMES, help="these parts and no others")
    parser.add_argument("--png", type=Path, help="draw the ratios here")


BENCHMARK = Benchmark(description=__doc__, measure=measure, add_options=add_options)
