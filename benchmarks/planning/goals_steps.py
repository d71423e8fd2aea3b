"""Goals G1 to G7, G11 and G12 of docs/sources/planner.md 11: how well steps are predicted.

The steps of a system (G6, G12: a model) are predicted by a fit without it.  Rows of other tables,
which are not in the repository, are predicted with the parameters of the release.  Models and
systems that only such rows name are described in ``models.toml`` and ``systems.toml`` in the folder
of these tables.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness import at_least, at_most
from benchmarks.planning.answers import Answer, from_nothing, on_models, on_systems
from benchmarks.planning.baselines import NAMES
from benchmarks.planning.frame import NO_LIMITS, Line, errors_line, spread
from benchmarks.planning.left_out import fit_without_each
from benchmarks.planning.questions import GOALS, questions
from benchmarks.planning.rows import by_model, by_system, curves
from trainshed.planning.scaling.parameters import parameters
from trainshed.planning.scaling.reach import Extrapolation

#: G7 by family: median and 90th percentile.
_FAMILIES = {"tf2017": (3.5, 11.0), "torch-ddp": (3.0, 5.0), "horovod2017": (13.0, 50.0)}
_INSIDE = (75.0, 88.0)
_CLASS = 40
_WIDTHS = {Extrapolation.FROM_HOST: 1.12, Extrapolation.FROM_INSIDE: 1.12, Extrapolation.REAL: 1.6}
_ORDERED, _APART = 88.0, 0.10
_UNORDERED = frozenset({"dle", "csc", "rossum"})
_TENTH = 1.1


def lines_of(answers: Sequence[Answer]) -> Iterator[tuple[str, Line]]:
    """Yield (goal, line) for all goals that the answers cover."""
    for goal in GOALS:
        for line in _accuracy(goal, answers):
            yield goal, line
    for line in _coverage(answers):
        yield "G11", line
    for line in _order(answers):
        yield "G12", line


def answers_of(tables: Path | None = None) -> list[Answer]:
    """Predict all steps; ``tables`` is a folder with tables outside the repository."""
    return _kept_back(tables) if tables else _left_out()


def worst(answers: Sequence[Answer], count: int = 10) -> list[str]:
    """Return the rows with the largest errors, one of each curve, with their facts."""
    by_curve: dict[str, Answer] = {}
    for answer in sorted(answers, key=lambda answer: -abs(answer.error)):
        by_curve.setdefault(answer.curve.name, answer)
    return [_describe(answer) for answer in itertools.islice(by_curve.values(), count)]


def _left_out() -> list[Answer]:
    every = curves()
    selected = questions(every)
    fits = fit_without_each(every, by_system)
    of_models = [question for question in selected if question.goal == "G7"]
    return [
        *on_systems(every, selected, fits),
        *from_nothing(every, fits),
        *on_models(every, of_models, fit_without_each(every, by_model)),
    ]


def _kept_back(tables: Path) -> list[Answer]:
    held_back, ours, constants = curves(tables), curves(), parameters()
    selected = questions(held_back)
    of_release = {by_system(c): constants for c in held_back}
    answers = list(on_systems(held_back, selected, of_release, ours))
    answers += from_nothing(held_back, of_release, ours)
    of_models = [question for question in selected if question.goal == "G7"]
    fits = {by_model(c): constants for c in held_back}
    return [*answers, *on_models([*held_back, *ours], of_models, fits, ours)]


def _accuracy(goal: str, answers: Sequence[Answer]) -> Iterator[Line]:
    of_goal = [answer for answer in answers if answer.goal == goal]
    if not of_goal:
        return
    yield _errors_line("all", of_goal, GOALS[goal])
    families: dict[str, list[Answer]] = defaultdict(list)
    for answer in of_goal:
        families[answer.curve.family].append(answer)
    for family, of_family in sorted(families.items()):
        limits = _FAMILIES.get(family, NO_LIMITS) if goal == "G7" else NO_LIMITS
        yield _errors_line(family, of_family, limits, against_best=goal == "G1")


def _errors_line(
    name: str,
    answers: Sequence[Answer],
    limits: tuple[float | None, float | None],
    *,
    against_best: bool = False,
) -> Line:
    peers = {name: [abs(answer.baselines[name]) for answer in answers] for name in NAMES}
    if against_best:
        limits = _TENTH * min(spread(errors)[0] for errors in peers.values()), limits[1]
    return errors_line(name, [abs(answer.error) for answer in answers], limits, peers)


def _coverage(answers: Sequence[Answer]) -> Iterator[Line]:
    classes: dict[Extrapolation, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.goal != "G6":
            classes[answer.reach].append(answer)
    for reach, of_class in sorted(classes.items()):
        inside = 100 * float(np.mean([answer.inside for answer in of_class]))
        width = float(np.median([answer.step_s.high / answer.step_s.low for answer in of_class]))
        is_judged = len(of_class) >= _CLASS
        least, most = _INSIDE if is_judged else (None, None)
        widest = _WIDTHS.get(reach) if is_judged else None
        yield Line(
            name=reach.value,
            count=len(of_class),
            goals=(
                at_least("inside", inside, least, "%"),
                at_most("inside", inside, most, "%"),
                at_most("width", width, widest, ""),
            ),
        )


def _order(answers: Sequence[Answer]) -> Iterator[Line]:
    of_models = [answer for answer in answers if answer.goal == "G6"]
    main = [answer for answer in of_models if answer.curve.family not in _UNORDERED]
    if main:
        yield _ordered("without dle, csc, rossum", main, _ORDERED)
        yield _ordered("all", of_models, None)


def _ordered(name: str, answers: Sequence[Answer], least: float | None) -> Line:
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
        predicted = [one.efficiency(one.step_s.point) for one in (answer, other)]
        correct = apart * (predicted[0] - predicted[1]) > 0
        right += correct
        if _disjoint(answer, other):
            claimed, claimed_right = claimed + 1, claimed_right + correct
    in_order = at_least("pairs in order", 100 * right / max(1, count), least, "%")
    if not claimed:
        return Line(name=f"{name}: none claimed", count=count, goals=(in_order,))
    of_claimed = at_least("of the claimed", 100 * claimed_right / claimed, _ORDERED, "%")
    return Line(name=name, count=count, goals=(in_order, of_claimed))


def _disjoint(a: Answer, b: Answer) -> bool:
    ends = [(x.efficiency(x.step_s.high), x.efficiency(x.step_s.low)) for x in (a, b)]
    return ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]


def _describe(answer: Answer) -> str:
    curve, point = answer.curve, answer.point
    measured, predicted = (answer.efficiency(s) for s in (point.step_s, answer.step_s.point))
    return (
        f"{answer.goal} {100 * answer.error:+.0f} % {curve.name} "
        f"{answer.base.accelerators} -> {point.accelerators}: efficiency {measured:.2f}, "
        f"predicted {predicted:.2f}"
    )
