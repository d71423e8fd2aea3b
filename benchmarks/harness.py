"""Parses the options of a benchmark, runs it, judges its goals and prints or writes its values.

A benchmark has sizes, each with a smaller one for its dry form.  ``--dry`` measures everything once
in seconds, which shows that the benchmark still runs; its values are not judged.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
BIN: Final = Path(sys.executable).parent
TRAINSHED: Final = str(BIN / "trainshed")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A measured value and its limit."""

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    """None: the value is shown, not judged."""
    is_least: bool = False
    """Whether the value must reach the limit; else it must not exceed it."""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the value keeps its limit."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.is_least else self.value <= self.limit


def at_most(name: str, value: float, limit: float | None, unit: str, note: str = "") -> Goal:
    """A value that must not exceed its limit."""
    return Goal(name=name, value=value, unit=unit, limit=limit, note=note)


def at_least(name: str, value: float, limit: float | None, unit: str, note: str = "") -> Goal:
    """A value that must reach its limit."""
    return Goal(name=name, value=value, unit=unit, limit=limit, is_least=True, note=note)


@dataclass(slots=True, kw_only=True)
class Report:
    """The results of a benchmark."""

    goals: list[Goal] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """By name the parts that were not measured, with the reason."""
    lines: list[str] = field(default_factory=list)
    """Tables that are printed before the goals."""
    data: Json = field(default_factory=dict)
    """All other values, for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark: each of its sizes is an option, with a normal and a dry value."""

    description: str
    measure: Callable[[argparse.Namespace], Report]
    sizes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    add_options: Callable[[argparse.ArgumentParser], object] = lambda _: None
    fails: bool = True
    """Whether a missed goal makes the exit status 1."""


def run(name: str, benchmark: Benchmark, words: Sequence[str]) -> int:
    """Run a benchmark, print its table and write its JSON; return 1 if a goal is missed."""
    args = _arguments(name, benchmark, words)
    document: Json = {"benchmark": name, "dry": args.dry, "load": os.getloadavg()[0]}
    began = time.monotonic()
    report = benchmark.measure(args)
    document["seconds"] = round(time.monotonic() - began, 1)
    document["goals"] = [{**asdict(goal), "holds": goal.holds} for goal in report.goals]
    document |= {"left_out": report.left_out, "data": report.data}
    if args.json:
        args.json.write_text(json.dumps(document, indent=1, default=str) + "\n")
    for line in (*report.lines, *table_lines([document])):
        print(line, flush=True)
    return int(benchmark.fails and has_missed(document))


def has_missed(document: Json) -> bool:
    """Whether a goal of a benchmark is missed; the values of a dry form are not judged."""
    return not document["dry"] and not all(goal["holds"] for goal in document["goals"])


def table_lines(documents: Sequence[Json]) -> Iterator[str]:
    """A line for each goal, then one for each part that was left out."""
    width = max((len(goal["name"]) for one in documents for goal in one["goals"]), default=0)
    for document in documents:
        label = f"{document['benchmark']:14}  " if len(documents) > 1 else ""
        for goal in document["goals"]:
            yield f"  {_verdict(goal, dry=document['dry'])}  {label}{_value_text(goal, width)}"
        for part, reason in document["left_out"].items():
            yield f"  {'FAIL' if part == 'failed' else 'SKIP'}  {label}{part}: {reason}"


def _verdict(goal: Json, *, dry: bool) -> str:
    if dry or goal["limit"] is None:
        return "    "
    return "PASS" if goal["holds"] else "FAIL"


def _value_text(goal: Json, width: int) -> str:
    text = f"{goal['name']:{width}} {goal['value']:10.3f} {goal['unit']}"
    parts = [goal["note"]] if goal["note"] else []
    if goal["limit"] is not None:
        parts.insert(0, f"at {'least' if goal['is_least'] else 'most'} {goal['limit']:g}")
    return f"{text}  ({'; '.join(parts)})" if parts else text


def _arguments(name: str, benchmark: Benchmark, words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=benchmark.description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dry", action="store_true", help="the smallest sizes; judges nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all values here")
    for option, (normal, dry) in benchmark.sizes.items():
        text = f"default {normal:g}, with --dry {dry:g}"
        parser.add_argument(f"--{option}", type=type(normal), metavar="N", help=text)
    benchmark.add_options(parser)
    args = parser.parse_args(words)
    for option, values in benchmark.sizes.items():
        key = option.replace("-", "_")
        if getattr(args, key) is None:
            setattr(args, key, values[args.dry])
    return args


def tell(text: str) -> None:
    """Print progress, beside the table."""
    print(f"  {text}", file=sys.stderr, flush=True)
