"""The planner's defaults come from the published curves, and from no row that was left out."""

import importlib
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from trainshed.planning.scaling.parameters import parameters
from trainshed.planning.scaling.prediction import Interval

ROOT = Path(__file__).parents[3]
FILE = ROOT / "src/trainshed/planning/data/scaling_fit.toml"


@pytest.fixture
def benchmark():
    return lambda name: importlib.import_module(f"benchmarks.planning.{name}")


def flat(tables):
    return {
        f"{table}.{name}": value
        for table, values in tables.items()
        if isinstance(values, dict)
        for name, value in values.items()
    }


def wrong(curve):
    points = [replace(p, step_s=p.step_s * 1e6**i) for i, p in enumerate(curve.points)]
    return replace(curve, points=tuple(points))


def curves_of(benchmark, families):
    return [curve for curve in benchmark("rows").curves() if curve.family in families]


def kind_of_curve(curve):
    """What decides which terms of the equations a curve has."""
    training, host = curve.training, curve.host
    return (
        *(training.strategy, training.data, training.precision, curve.unprinted, host.network),
        *(host.inside_bytes > 24e9, 0 < host.network_bytes < 1.5e8),
        *(len({point.batch.samples for point in curve.points}), curve.points[-1].micro_batches),
    )


def nearly_all(differences):
    return sorted(differences)[len(differences) * 97 // 100]


def far_apart(curve):
    """The same with counts so far apart that a fixed part explains its loss."""
    one, *_, last = curve.points
    return replace(curve, points=(one, replace(last, step_s=4 * last.step_s)))


def test_a_fit_sees_no_row_of_what_is_left_out(benchmark, monkeypatch):
    left, rows = benchmark("left_out"), benchmark("rows")
    fitted = []
    monkeypatch.setattr(left, "fit", lambda curves, *_: fitted.append(curves) or len(fitted) - 1)
    monkeypatch.setattr(left, "run_in_processes", map)
    curves = curves_of(benchmark, {"tf2017", "dle", "issues"})
    for key in (rows.by_system, rows.by_model):
        fits = left.fit_without_each(curves, key)
        assert set(fits) == {key(curve) for curve in curves}
        assert all(name not in map(key, fitted[fit]) for name, fit in fits.items())
    poisoned = [wrong(curve) for curve in curves]
    assert left.group_names(curves, rows.by_system) == left.group_names(poisoned, rows.by_system)


def test_points_that_are_asked_change_no_answer(benchmark):
    answers, planning_questions = benchmark("answers"), benchmark("questions")
    curves = curves_of(benchmark, {"torch-ddp"})
    poisoned = [wrong(curve) for curve in curves]
    fits = {curve.system: parameters() for curve in curves}
    steps = [
        [answer.step_s.point for answer in answers.on_systems(measured, first, fits, curves)]
        for measured in (curves, poisoned)
        for first in [[q for q in planning_questions.questions(curves) if q.goal == "G7"]]
    ]
    assert steps[0] == steps[1]


def test_an_order_that_is_never_claimed_is_not_judged(benchmark):
    answers, goals = benchmark("answers"), benchmark("goals_steps")
    curves = [curve for curve in benchmark("rows").curves() if curve.system == "dgx1-p100"]
    fits = {curve.training.model: parameters() for curve in curves}
    firsts = [q for q in benchmark("questions").questions(curves) if q.goal == "G7"]
    of_models = list(answers.on_models(curves, firsts, fits, curves))
    sure, unsure = (
        [
            replace(
                answer,
                step_s=Interval(
                    low=answer.step_s.point / width,
                    point=answer.step_s.point,
                    high=answer.step_s.point * width,
                ),
            )
            for answer in of_models
        ]
        for width in (1, 1e9)
    )
    claimed, unclaimed = (
        [line for goal, line in goals.lines_of(some) if goal == "G12"] for some in (sure, unsure)
    )
    assert {len(line.goals) for line in claimed} == {2}
    assert all(line.name.endswith(": none claimed") for line in unclaimed)
    assert {goal.name for line in unclaimed for goal in line.goals} == {"pairs in order"}


@pytest.mark.full
def test_rows_that_are_left_out_change_nothing(benchmark):
    left, rows = benchmark("left_out"), benchmark("rows")
    few, names = curves_of(benchmark, {"torch-ddp", "issues"}), {"v100-ib-4x100g"}
    poisoned = [wrong(curve) if curve.system in names else curve for curve in few]
    fits = [left.fit_without(curves, rows.by_system, names, (1.5,)) for curves in (few, poisoned)]
    assert poisoned != few
    assert fits[0] == fits[1]


@pytest.mark.untraced
def test_arrays_say_what_the_planner_says(benchmark):
    planning_questions, steps, answers = (
        benchmark("questions"),
        benchmark("step_arrays"),
        benchmark("answers"),
    )
    kinds = {kind_of_curve(curve): curve for curve in benchmark("rows").curves()}
    curves = [*kinds.values(), benchmark("fit").EXAMPLE, far_apart(benchmark("fit").EXAMPLE)]
    questions = [
        question
        for goal in ("G7", "G2", "G3", "G1")
        for question in planning_questions.questions(curves)
        if question.goal == goal
    ]
    tables = flat(tomllib.loads(FILE.read_text()))
    arrays = steps.arrays_of(curves, questions)
    unknowns = steps.solve(arrays, tables, steps.start_of(arrays), 30)
    predictions, spreads = (
        steps.answers(arrays, tables, unknowns),
        steps.spreads(arrays, tables, unknowns),
    )
    fits = {curve.system: parameters() for curve in curves}
    expected = iter(answers.on_systems(curves, questions, fits, curves[:5]))
    off, wider = [], []
    for question, row, spread in zip(questions, predictions, spreads, strict=True):
        for i in question.targets:
            answer = next(expected)
            off.append(abs(math.log1p(answer.error) - row[i]))
            low = parameters().reach.get(answer.reach, (-1.3, 0))[0]
            wider.append(
                abs(math.log(answer.step_s.low / answer.step_s.point) / (low * spread[i]) - 1)
            )
    # an unknown that ends where an equation has a bend has no derivative there: 2 of 214 points
    assert nearly_all(off) < 1e-3
    assert max(off) < 1e-2
    assert nearly_all(wider) < 6e-3
    assert max(wider) < 0.1


def test_the_file_has_the_errors_of_its_parameters(benchmark):
    rows, planning_questions, fit = benchmark("rows"), benchmark("questions"), benchmark("fit")
    document = tomllib.loads(FILE.read_text())
    curves = rows.curves()
    goal_errors = fit.errors_in(curves, planning_questions.questions(curves), flat(document))
    assert goal_errors == {
        goal: pytest.approx(errors, rel=0.02) for goal, errors in document["errors"].items()
    }


def test_a_fit_is_the_mean_of_searches_from_several_starts(benchmark, monkeypatch):
    fit = benchmark("fit")

    class SearchThatStays:
        def __init__(self, *_):
            pass

        def run(self, start, _):
            return start

    monkeypatch.setattr(fit, "Search", SearchThatStays)
    starts = list(fit.starts())
    assert starts[0] == fit.FIRST
    assert len({tuple(start.values()) for start in starts}) == len(starts) > 2
    assert max(start["defaults.network_tcp"] for start in starts) <= 1
    assert starts == list(fit.starts())
    assert fit.search([], []) == {
        name: pytest.approx(math.prod(start[name] for start in starts) ** (1 / len(starts)))
        for name in fit.FIRST
    }


def test_a_search_never_ends_with_more_misses_than_it_began(benchmark):
    fit, planning_questions = benchmark("fit"), benchmark("questions")
    curves = curves_of(benchmark, {"torch-ddp"})
    search = fit.Search(curves, planning_questions.questions(curves))
    for start in list(fit.starts())[:2]:
        ended = search.run(start, (1.5,))
        assert search.missed(ended) < search.missed(start)


@pytest.mark.full
def test_the_file_is_what_the_script_writes(benchmark):
    rows, planning_questions, fit = benchmark("rows"), benchmark("questions"), benchmark("fit")
    document = tomllib.loads(FILE.read_text())
    curves = rows.curves()
    tables = flat(fit.tables_of(curves, planning_questions.questions(curves)))
    assert tables == {
        name: pytest.approx(value, rel=0.02) for name, value in flat(document).items()
    }
