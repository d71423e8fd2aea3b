"""G1 to G7, G11 and G12 of docs/sources/planner.md 11: how well steps are predicted.

Rows are left out with their whole system (G6, G12: model), in groups; in the short form in fewer.
Rows that are kept elsewhere are predicted with the parameters of the release, which never saw them;
a model or a system that only they name stands in a ``models.toml`` or ``systems.toml`` beside them.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from planning_answers import Answer, on_models, on_systems
from planning_baselines import NAMES
from planning_left_out import GROUPS, by_model, by_system, left_out
from planning_questions import GOALS, questions
from planning_rows import TABLES, curves

from trainshed.planning.scaling.parameters import parameters
from trainshed.planning.scaling.reach import Extrapolation

_SHORT = frozenset({"G1", "G3"})
_SHORT_GROUPS = 3
#: G7 by family: median and 90th percentile.
_FAMILIES = {"tf2017": (3.5, 11.0), "torch-ddp": (3.0, 5.0), "horovod2017": (13.0, 50.0)}
_INSIDE = (75.0, 88.0)
_CLASS = 40
_WIDTHS = {Extrapolation.FROM_HOST: 1.12, Extrapolation.FROM_INSIDE: 1.12, Extrapolation.REAL: 1.6}
_ORDERED, _APART = 88.0, 0.10
_UNORDERED = frozenset({"dle", "csc", "rossum"})
_TENTH = 1.1


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the report."""

    goal: str
    part: str
    count: int
    value: str
    baselines: str = ""
    wanted: str = ""
    met: bool | None = None


def rows_of(answers: Sequence[Answer], slack: float = 1.0) -> list[Row]:
    """Everything that the answers show; ``slack``: by what limits of errors are multiplied."""
    rows = [row for goal in GOALS for row in _accuracy(goal, answers, slack)]
    return [*rows, *_coverage(answers), *_order(answers)]


def answers_of(tables: Path | None = None, *, short: bool = False) -> list[Answer]:
    """All answers: exact leave-outs, or of rows that the release's fit never saw."""
    return _kept_back(tables) if tables else _left_out(short=short)


def worst(answers: Sequence[Answer], count: int = 10) -> list[str]:
    """The rows with the largest errors, one of a curve, and what is known of them."""
    by_curve: dict[str, Answer] = {}
    for answer in sorted(answers, key=lambda answer: -abs(answer.error)):
        by_curve.setdefault(answer.curve.name, answer)
    return [_describe(answer) for answer in itertools.islice(by_curve.values(), count)]


def _left_out(*, short: bool) -> list[Answer]:
    every = curves()
    selected = [q for q in questions(every) if not short or q.goal in _SHORT]
    groups = _SHORT_GROUPS if short else GROUPS
    answers = list(on_systems(every, selected, left_out(every, by_system, groups)))
    if not short:
        of_models = [question for question in selected if question.goal == "G7"]
        answers += on_models(every, of_models, left_out(every, by_model, groups))
    return answers


def _kept_back(tables: Path) -> list[Answer]:
    held_back, ours, constants = curves(tables, TABLES), curves(), parameters()
    selected = questions(held_back)
    answers = list(
        on_systems(held_back, selected, {by_system(c): constants for c in held_back}, ours)
    )
    of_models = [question for question in selected if question.goal == "G7"]
    fits = {by_model(c): constants for c in held_back}
    return [*answers, *on_models([*held_back, *ours], of_models, fits, ours)]


def _accuracy(goal: str, answers: Sequence[Answer], slack: float) -> Iterator[Row]:
    of_goal = [answer for answer in answers if answer.goal == goal]
    if not of_goal:
        return
    yield _errors(goal, "all", of_goal, _times(GOALS[goal], slack))
    families: dict[str, list[Answer]] = defaultdict(list)
    for answer in of_goal:
        families[answer.curve.family].append(answer)
    for family, of_family in sorted(families.items()):
        limits = _FAMILIES.get(family) if goal == "G7" else None
        limits_of_family = _times(limits, slack) if limits else None
        yield _errors(goal, family, of_family, limits_of_family, against_best=goal == "G1")


def _times(limits: tuple[float, float], slack: float) -> tuple[float, float]:
    return limits[0] * slack, limits[1] * slack


def _errors(
    goal: str,
    part: str,
    answers: Sequence[Answer],
    limits: tuple[float, float] | None,
    *,
    against_best: bool = False,
) -> Row:
    median, tail = _quantiles([answer.error for answer in answers])
    errors_of_peers = {name: _quantiles([a.baselines[name] for a in answers]) for name in NAMES}
    best = min(errors[0] for errors in errors_of_peers.values())
    met = median <= limits[0] and tail <= limits[1] if limits else None
    if against_best:
        met = median <= _TENTH * best
    limit_text = f"<= {limits[0]:.2f} / {limits[1]:.1f}" if limits else ""
    return Row(
        goal=goal,
        part=part,
        count=len(answers),
        value=f"{median:.2f} / {tail:.1f}",
        baselines=", ".join(
            f"{name} {m:.1f} / {t:.0f}" for name, (m, t) in errors_of_peers.items()
        ),
        wanted=f"<= 1.1 x {best:.2f}" if against_best else limit_text,
        met=met,
    )


def _quantiles(errors: Sequence[float]) -> tuple[float, float]:
    """Median and 90th percentile of absolute errors, per cent."""
    median, tail = np.quantile(100 * np.abs(errors), (0.5, 0.9)).tolist()
    return median, tail


def _coverage(answers: Sequence[Answer]) -> Iterator[Row]:
    classes: dict[Extrapolation, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.goal != "G6":
            classes[answer.reach].append(answer)
    for reach, of_class in sorted(classes.items()):
        inside = 100 * float(np.mean([answer.inside for answer in of_class]))
        width = float(np.median([answer.high_s / answer.low_s for answer in of_class]))
        met = _INSIDE[0] <= inside <= _INSIDE[1] and width <= _WIDTHS.get(reach, np.inf)
        limit = f", width <= {_WIDTHS[reach]}" if reach in _WIDTHS else ""
        yield Row(
            goal="G11",
            part=reach.value,
            count=len(of_class),
            value=f"{inside:.0f} % inside, width {width:.3f}",
            wanted=f"75 to 88 %{limit}" if len(of_class) >= _CLASS else "",
            met=bool(met) if len(of_class) >= _CLASS else None,
        )


def _order(answers: Sequence[Answer]) -> Iterator[Row]:
    of_models = [answer for answer in answers if answer.goal == "G6"]
    main = [answer for answer in of_models if answer.curve.family not in _UNORDERED]
    if main:
        yield _ordered("without dle, csc, rossum", main, _ORDERED)
        yield _ordered("all", of_models, None)


def _ordered(part: str, answers: Sequence[Answer], least: float | None) -> Row:
    places: dict[tuple[str, int, int], list[Answer]] = defaultdict(list)
    for answer in answers:
        point = answer.point
        places[answer.curve.system, point.accelerators, point.hosts].append(answer)
    right, claimed, claimed_right, count = 0, 0, 0, 0
    for answer, other in (p for at in places.values() for p in itertools.combinations(at, 2)):
        if by_model(answer.curve) == by_model(other.curve):
            continue
        apart = answer.efficiency(answer.point.step_s) - other.efficiency(other.point.step_s)
        if abs(apart) <= _APART:
            continue
        count += 1
        correct = apart * (answer.efficiency(answer.step_s) - other.efficiency(other.step_s)) > 0
        right += correct
        if _disjoint(answer, other):
            claimed, claimed_right = claimed + 1, claimed_right + correct
    share = 100 * right / max(1, count)
    of_claimed = f"{100 * claimed_right / max(1, claimed):.0f} % of the {claimed} claimed"
    return Row(
        goal="G12",
        part=part,
        count=count,
        value=f"{share:.0f} % of pairs in order; {of_claimed}",
        wanted=f">= {least:.0f} %" if least else "",
        met=share >= least if least else None,
    )


def _disjoint(a: Answer, b: Answer) -> bool:
    ends = [(x.efficiency(x.high_s), x.efficiency(x.low_s)) for x in (a, b)]
    return ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]


def _describe(answer: Answer) -> str:
    curve, point = answer.curve, answer.point
    measured, predicted = (answer.efficiency(s) for s in (point.step_s, answer.step_s))
    return (
        f"{answer.goal} {100 * answer.error:+.0f} % {curve.name} "
        f"{answer.base.accelerators} -> {point.accelerators}: efficiency {measured:.2f}, "
        f"predicted {predicted:.2f} ({_why(answer)})"
    )


def _why(answer: Answer) -> str:
    """What the row is known to be limited by, as far as its table tells."""
    curve, point = answer.curve, answer.point
    if answer.error < 0:
        return "quicker than such links and hosts mostly are"
    if curve.family == "rossum":
        return "a box of consumer GPUs whose code copies through the host"
    if point.batch < answer.base.batch:
        return "the batch of an accelerator shrinks until a step is all overhead"
    if point.hosts > answer.base.hosts:
        return "the stack uses a small part of the network"
    if curve.training.data == "real":
        return "the host cannot feed its accelerators"
    return "loss inside the host"
