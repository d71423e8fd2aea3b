"""Where the caller expects the best values: from the words of a label to the next points."""

from dataclasses import replace

import numpy as np
import pytest

from trainshed.model.study import SEARCH_RULE, Goal, Metric, ParameterPrior, PriorWidth
from trainshed.tuning.bayesian import Bayesian
from trainshed.tuning.cube import CubeAxis
from trainshed.tuning.expectation import AxisExpectation, ExpectationScore, expect_in_rows
from trainshed.tuning.gaussian import cube_of
from trainshed.tuning.history import History, pending_at
from trainshed.tuning.space import space_of
from trainshed.tuning.suggest import suggest
from tuning.spaces import LOSS, discrete, double, integer, loss_of, study, trial, when, words

SIZE = Metric(metric_id="size", goal=Goal.MINIMIZE)
SQUARE = (double("x"), double("y"))
TREE = words("line", "tree", name="kind", conditions=(when(double("depth"), "tree"),))
AXES = (
    CubeAxis(),
    CubeAxis(positions=(0.25, 0.75), is_category=True),
    CubeAxis(parent=1, parent_positions=frozenset({0.75})),
    CubeAxis(positions=(0.125, 0.375, 0.625, 0.875)),
    CubeAxis(parent=3, parent_positions=frozenset({0.375})),
)
EXPECTED = tuple(
    AxisExpectation(index=index, position=position, width=PriorWidth.USUAL)
    for index, position in enumerate((0.3, 0.75, 0.6, 0.375, 0.9))
)


def prior(name, value, width=PriorWidth.USUAL):
    return ParameterPrior(parameter_id=name, value=value, width=width)


def expecting(*parameters, priors, **fields):
    settings = {"trial_count_max": 30, "search_rule": SEARCH_RULE} | fields
    return study(*parameters, priors=tuple(priors), **settings)


def searched(spec, count, measure=loss_of, seed=3, parallel=1):
    """The trials of a study whose results are known at once."""
    trials = []
    while len(trials) < count:
        for values in suggest(spec, trials, parallel, seed).values:
            trials.append(trial(len(trials) + 1, values, measure(values), size=loss_of(values)))
    return trials


def peak(values):
    """A loss that is flat but for a narrow hole at 0.81, 0.23."""
    x, y = dict(values)["x"], dict(values)["y"]
    return -float(np.exp(-((x - 0.81) ** 2 + (y - 0.23) ** 2) / 0.005))


def best(trials):
    return min(one.final.value("loss") for one in trials)


def test_the_first_trial_has_the_defaults_then_the_expected_values_then_the_middle():
    parameters = (double("x", default=0.1), double("y"), double("z"), integer("n", 1, 9), TREE)
    said = (prior("x", "9e-1"), prior("y", "2e-1"), prior("n", "7"), prior("kind", "tree"))
    [point] = suggest(expecting(*parameters, priors=said), [], 1, 1).values
    assert dict(point) == {"x": 0.1, "y": 0.2, "z": 0.5, "n": 7, "kind": "tree", "depth": 0.5}


@pytest.mark.untraced
def test_a_good_expectation_finds_a_narrow_optimum_sooner():
    said = (prior("x", "8e-1"), prior("y", "2e-1"))
    plain, expectant = (
        [best(searched(expecting(*SQUARE, priors=one), 10, peak, seed)) for seed in range(4)]
        for one in ((), said)
    )
    assert max(expectant) < -0.8
    assert np.median(plain) > -0.1


@pytest.mark.untraced
def test_a_wrong_expectation_is_overcome():
    def bowl(values):
        return sum((value - 0.85) ** 2 for _, value in values)

    said = [prior(name, "1e-1") for name in ("x", "y")]
    for seed in range(3):
        trials = searched(expecting(*SQUARE, priors=said), 25, bowl, seed)
        assert best(trials[:3]) > 0.5
        assert best(trials) < 0.001


def test_the_filling_trials_are_drawn_as_expected():
    said = (prior("x", "8e-1", PriorWidth.NARROW), prior("opt", "b"), prior("n", "2"))
    parameters = (double("x"), words("a", "b", "c"), integer("n", 1, 9), double("y"))
    spec = expecting(*parameters, priors=said, trial_count_parallel=12)
    rows = [dict(values) for seed in (1, 2, 3) for values in suggest(spec, [], 12, seed).values[1:]]
    assert all(0.6 < row["x"] < 1 for row in rows)
    assert 20 < sum(row["opt"] == "b" for row in rows) < 33
    assert np.mean([row["n"] for row in rows]) < 3.5
    assert np.std([row["y"] for row in rows]) > 0.2


@pytest.mark.parametrize("rule", [1, SEARCH_RULE])
@pytest.mark.parametrize("metrics", [(LOSS,), (LOSS, SIZE)])
def test_an_expectation_without_a_place_changes_nothing(rule, metrics):
    """One of rule 1, and one of another parameter: the search is that of no expectation."""
    name = "x" if rule == 1 else "z"
    plain = study(*SQUARE, metrics=metrics, search_rule=rule, trial_count_max=30)
    expectant = replace(plain, priors=(prior(name, "2e-1"),))
    assert searched(expectant, 14, parallel=2) == searched(plain, 14, parallel=2)


@pytest.mark.parametrize("metrics", [(LOSS,), (LOSS, SIZE)])
def test_the_search_is_drawn_to_the_expected_values_and_repeats_itself(metrics):
    def search():
        trials = []
        while len(trials) < 9:
            [values] = suggest(spec, trials, 1, 3).values
            trials.append(trial(len(trials) + 1, values, 0.5, size=0.5))
        return trials

    said = (prior("x", "9e-1", PriorWidth.NARROW), prior("kind", "tree"), prior("depth", "1e-1"))
    spec = expecting(double("x"), TREE, metrics=metrics, priors=said)
    trials = search()  # without an expectation the ends of the range are tried
    assert [dict(one.values)["kind"] for one in trials[:7]].count("tree") >= 5
    assert all(dict(one.values)["x"] > 0.8 for one in trials[:7])
    assert search() == trials


def test_a_space_that_trees_search_is_filled_as_expected():
    wide = integer("n", 1, 5000, conditions=(when(double("y"), 4000.0),))
    spec = expecting(wide, priors=[prior("n", "4000", PriorWidth.NARROW)])
    space = space_of(spec)
    sampler = Bayesian(spec, space, 1)
    finished, numbers = (), []
    for number in range(1, 6):
        history = History(finished=finished, pending=(), number=number, is_first=number == 1)
        point = next(sampler.propose(history))
        numbers.append(dict(point)["n"])
        finished = (*finished, replace(pending_at(space, point), losses=(0.5,)))
    assert numbers[0] == 4000
    assert all(3000 < n <= 5000 for n in numbers)
    assert len({*numbers}) > 3


def test_of_two_parameters_with_one_name_the_one_that_has_the_value_is_meant():
    net = words(
        "a", "b", "c", name="net",
        conditions=(
            when(integer("n", 1, 4), "a"), when(integer("n", 5, 9), "b"),
            when(words("7", "x", name="n"), "c"),
        ),
    )  # fmt: skip
    space = space_of(expecting(net, priors=[prior("n", "7"), prior("net", "b")]))
    values = [one.expected and one.expected.value for one in space.dimensions]
    assert values == ["b", None, 7, "7"]


def test_listed_numbers_near_the_expected_one_are_likelier():
    axes = (CubeAxis(positions=tuple(i / 10 for i in range(11))), CubeAxis())
    expected = AxisExpectation(index=0, position=0.2, width=PriorWidth.NARROW)
    rng = np.random.default_rng(1)
    rows = expect_in_rows(np.full((2000, 2), 0.5), cube_of(axes), [expected], rng)
    counts = [int((rows[:, 0] == position).sum()) for position in axes[0].positions]
    assert counts[2] > counts[1] > 10
    assert counts[2] > counts[3] > 10
    assert sum(counts[:5]) == 2000
    assert (rows[:, 1] == 0.5).all()


def rows_of(cube, count=40):
    return cube.snap(cube.draw(count, np.random.default_rng(5)))


def test_the_slopes_are_the_differences_of_the_score():
    cube = cube_of(AXES)
    score = ExpectationScore(cube=cube, expectations=EXPECTED, weight=2.5)
    points = rows_of(cube)
    features = cube.features(points)
    value, gradient = score.slopes(features)
    assert np.array_equal(value, score.score(features))
    for axis in (0, 2, 4):
        column, active = cube.groups.tolist().index(axis), ~np.isnan(points[:, axis])
        moved = [features + step * (cube.groups == axis) for step in (1e-6, -1e-6)]
        slope = (score.score(moved[0]) - score.score(moved[1])) / 2e-6
        assert active.any()
        assert gradient[active, column] == pytest.approx(slope[active], abs=1e-4)


def test_an_inactive_parameter_counts_as_the_expected_value_does():
    cube = cube_of(AXES)
    point = np.array([[0.3, 0.75, 0.6, 0.375, 0.9]])
    expected = EXPECTED[0], EXPECTED[2], EXPECTED[4]
    score = ExpectationScore(cube=cube, expectations=expected, weight=1.0)
    inactive = cube.snap(np.array([[0.3, 0.25, 0.1, 0.625, 0.1]]))
    far = np.array([[0.3, 0.75, 0.1, 0.375, 0.9]])
    values = [float(score.score(cube.features(rows))[0]) for rows in (point, inactive, far)]
    assert values[0] == values[1] == 0 > values[2]


def test_the_expected_word_is_the_best_one():
    cube = cube_of(AXES)
    score = ExpectationScore(cube=cube, expectations=EXPECTED[1:2], weight=1.0)
    rows = cube.snap(np.array([[0.5, word, 0.5, 0.125, 0.5] for word in (0.25, 0.75)]))
    assert score.score(cube.features(rows)) == pytest.approx([-np.log(10), 0])


def test_values_of_a_list_are_expected_by_their_place():
    spec = expecting(discrete(0.1, 1.0, 10.0), priors=[prior("d", "1")])
    [point] = suggest(spec, [], 1, 1).values
    assert point == (("d", 1.0),)
