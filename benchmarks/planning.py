"""How well the planner predicts what was measured: every goal beside its baselines.

Run it: .venv/bin/python benchmarks/planning.py [--short] [--goals G8,G9] [--tables DIR] [--hosts]

The goals of docs/sources/planner.md 11 leave rows out, fit the shipped model
(``trainshed.planning``) to the others, and predict the rows that were left out.  With --tables the
rows of that folder are predicted instead, from fits to ours.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import planning_goals_scaling as scaling
import planning_input
import planning_seeds
import planning_targets
from planning_frame import PUBLISHED, SLACK, Data, Figure, Found, Goal, Line, tables_of

GOALS: Final[Mapping[str, Goal]] = {
    **planning_input.GOALS,
    **planning_targets.GOALS,
    **planning_seeds.GOALS,
}
#: Predictions of steps are made once for all of these.
STEPS: Final = ("G1", "G2", "G3", "G4", "G5", "G6", "G7", "G11", "G12")
SHORT: Final = ("G1", "G3", "G8", "G13")
WORST: Final = 10


def main() -> int:
    """Measure, print; 1 where a goal is missed."""
    args = _arguments()
    chosen = args.goals or (SHORT if args.short else (*STEPS, *GOALS))
    started = time.monotonic()
    rows, worst = _measured(chosen, args.tables, short=args.short)
    if args.hosts:
        import planning_hosts  # noqa: PLC0415 - torch is imported for it

        rows += planning_hosts.rows()
    seconds = round(time.monotonic() - started, 1)
    if args.format == "json":
        report = {"rows": [asdict(row) for row in rows], "worst": worst, "seconds": seconds}
        print(json.dumps(report, indent=1))
    else:
        _show(rows, worst, seconds)
    return 1 if any(row.met is False for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", action="store_true", help="G14 too: as root, some minutes")
    parser.add_argument("--short", action="store_true", help=f"{', '.join(SHORT)} alone")
    parser.add_argument("--goals", help="a list, as G8,G9", type=lambda text: text.split(","))
    parser.add_argument("--tables", type=Path, help="rows kept elsewhere, of the same format")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    names = (*STEPS, *GOALS)
    if unknown := set(args.goals or ()) - set(names):
        parser.error(f"there is no goal {', '.join(unknown)}; there are {', '.join(names)}")
    return args


def _measured(
    chosen: Sequence[str], tables: Path | None, *, short: bool
) -> tuple[list[scaling.Row], list[str]]:
    """Rows of the report, and the worst predictions."""
    rows, worst = [], []
    if any(name in STEPS for name in chosen):
        answers = scaling.answers_of(tables, short=short)
        slack = SLACK if tables else 1.0
        rows += [row for row in scaling.rows_of(answers, slack) if row.goal in chosen]
        worst += scaling.worst([answer for answer in answers if answer.goal in chosen])
    data = _data(tables)
    for name in (name for name in GOALS if name in chosen):
        outcome = GOALS[name](data)
        rows += [_row(name, line, data) for line in outcome.lines if line.count]
        worst += list(_worst(name, outcome))
    return sorted(rows, key=lambda row: int(row.goal.strip("G"))), worst


def _data(folder: Path | None) -> Data:
    ours = tables_of(PUBLISHED)
    if folder is None:
        return Data(ours=ours, tested=ours)
    tested = tables_of(folder).over(ours)
    for fault in tested.faults:
        print(f"left out: {fault}", file=sys.stderr)
    return Data(ours=ours, tested=tested, slack=SLACK)


def _row(name: str, line: Line, data: Data) -> scaling.Row:
    has_goal = any(figure.goal is not None for figure in line.figures)
    peers = (
        f"{peer} {' / '.join(f'{value:.3g}' for value in values)}"
        for peer, values in line.baselines.items()
    )
    return scaling.Row(
        goal=name,
        part=line.name,
        count=line.count,
        value=" / ".join(f"{figure.value:.3g}" for figure in line.figures),
        baselines=", ".join(peers),
        wanted=" / ".join(_limit_text(f, data.slack) for f in line.figures) if has_goal else "",
        met=all(figure.holds(data.slack) for figure in line.figures) if has_goal else None,
    )


def _limit_text(figure: Figure, slack: float) -> str:
    if figure.goal is None:
        return "-"
    goal = figure.goal / slack if figure.least else figure.goal * slack
    return f"{'>=' if figure.least else '<='} {goal:.3g}"


def _worst(name: str, outcome: Found) -> Iterator[str]:
    for miss in sorted(outcome.misses, key=lambda miss: -miss.error)[:WORST]:
        figures = f"{miss.predicted:.4g} predicted, {miss.measured:.4g} measured"
        limit = f" ({miss.limit})" if miss.limit else ""
        yield f"{name} {100 * miss.error:.0f} % {miss.row}: {figures}{limit}"


def _show(rows: Sequence[scaling.Row], worst: Sequence[str], seconds: float) -> None:
    marks: Mapping[bool | None, str] = {True: "met", False: "MISSED", None: ""}
    for row in rows:
        start = f"{row.goal:4} {row.part[:50]:50} {row.count:5} {row.value:44}"
        print(f"{start} {row.wanted:28} {marks[row.met]:7} {row.baselines}")
    print("\nworst rows")
    for line in worst:
        print(f"  {line}")
    missed = sorted({row.goal for row in rows if row.met is False})
    print(f"\nmissed: {', '.join(missed) or 'none'}; {seconds} s")


if __name__ == "__main__":
    sys.exit(main())
