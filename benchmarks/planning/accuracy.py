"""The accuracy of the planner's predictions: every goal beside its baselines.

    python -m benchmarks planning [--goals G8,G9] [--tables DIR] [--png FILE]

The goals of docs/sources/planner.md 11 leave rows out, fit the shipped model
(``trainshed.planning``) to the others, and predict the rows that were left out.  With --tables the
rows of that folder are predicted instead, from fits to ours.  The dry form has no fit.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from benchmarks import charts
from benchmarks.harness import Benchmark, Goal, Report
from benchmarks.planning import goals_input, goals_steps, goals_targets
from benchmarks.planning.frame import PUBLISHED, SLACK, Line, Measure, Outcome, rows_of

GOALS: Final[Mapping[str, Measure]] = {
    **goals_input.GOALS,
    **goals_targets.GOALS,
}
#: Predictions of steps are made once for all of these.
STEPS: Final = ("G1", "G2", "G3", "G4", "G5", "G6", "G7", "G11", "G12", "G16")
DRY: Final = ("G8",)
WORST: Final = 10


def measure(args: argparse.Namespace) -> Report:
    """All goals, or those that are named."""
    chosen = args.goals or (DRY if args.dry else (*STEPS, *GOALS))
    report, worst = Report(), list[str]()
    rows: list[tuple[str, Line]] = []
    if any(name in STEPS for name in chosen):
        answers = goals_steps.answers_of(args.tables)
        rows += [(name, line) for name, line in goals_steps.lines_of(answers) if name in chosen]
        worst += goals_steps.worst([answer for answer in answers if answer.goal in chosen])
        if args.png and (reason := charts.draw_efficiencies(answers, args.png)):
            report.left_out["picture"] = reason
    ours = rows_of(PUBLISHED)
    tested = rows_of(args.tables) if args.tables else ours
    for name in (name for name in GOALS if name in chosen):
        outcome = GOALS[name](ours, tested)
        rows += [(name, line) for line in outcome.lines if line.count]
        worst += _worst(name, outcome)
    slack = SLACK if args.tables else 1.0
    rows = [(name, _with_slack(line, slack)) for name, line in sorted(rows, key=_number)]
    report.lines = [*_table(rows), "", "worst rows", *(f"  {line}" for line in worst), ""]
    report.goals = [
        replace(goal, name=f"{name} {line.name} {goal.name}".rstrip())
        for name, line in rows
        for goal in line.goals
        if goal.limit is not None
    ]
    report.data = {"rows": [{"goal": name, **asdict(line)} for name, line in rows], "worst": worst}
    return report


def _number(row: tuple[str, Line]) -> int:
    return int(row[0].strip("G"))


def goal_names(text: str) -> list[str]:
    """Goals by name, with commas between them."""
    names = text.split(",")
    if unknown := set(names) - {*STEPS, *GOALS}:
        raise argparse.ArgumentTypeError(f"there is no goal {', '.join(unknown)}")
    return names


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which goals, of which rows."""
    parser.add_argument("--goals", help=", ".join((*STEPS, *GOALS)), type=goal_names)
    parser.add_argument("--tables", type=Path, help="rows kept elsewhere, of the same format")
    parser.add_argument("--png", type=Path, help="draw predicted against measured here")


def _with_slack(line: Line, slack: float) -> Line:
    """The same line with its limits that much wider."""
    return replace(line, goals=tuple(_widened(goal, slack) for goal in line.goals))


def _widened(goal: Goal, slack: float) -> Goal:
    if goal.limit is None:
        return goal
    return replace(goal, limit=goal.limit / slack if goal.is_least else goal.limit * slack)


def _worst(name: str, outcome: Outcome) -> Iterator[str]:
    for miss in sorted(outcome.misses, key=lambda miss: -miss.error)[:WORST]:
        values = f"{miss.predicted:.4g} predicted, {miss.measured:.4g} measured"
        yield f"{name} {100 * miss.error:.0f} % {miss.row}: {values}"


def _table(rows: Sequence[tuple[str, Line]]) -> Iterator[str]:
    """Values of ours, then the same of each baseline."""
    for name, line in rows:
        values = " / ".join(f"{goal.value:.3g}" for goal in line.goals)
        peers = (
            f"{peer} {' / '.join(f'{value:.3g}' for value in of_peer)}"
            for peer, of_peer in line.baselines.items()
        )
        yield f"{name:4} {line.name[:50]:50} {line.count:5} {values:20} {', '.join(peers)}"


BENCHMARK = Benchmark(description=__doc__, measure=measure, add_options=add_options)
