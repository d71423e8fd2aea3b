import pytest

from trainshed.model.study import Algorithm
from trainshed.model.study_start import PointRow
from trainshed.model.trials import TrialOrigin, TrialState
from trainshed.tuning.first_points import (
    FAULTS_MAX,
    check_points,
    origin_of,
    points_of_trials,
    position_of,
)
from trainshed.tuning.space import space_of
from trainshed.tuning.suggest import suggest
from tuning.spaces import double, integer, study, trial, when, words

SPACE = (
    integer("n", 1.0, 8.0, default=2.0),
    words("adam", "sgd", conditions=(when(integer("m", 1.0, 5.0), "sgd"),)),
)


def rows(*points):
    return [PointRow(name=f"p{n}", parameters=one) for n, one in enumerate(points, 1)]


def faults(*points):
    return [tuple(fault) for fault in check_points(study(*SPACE), rows(*points))[1]]


def test_points_are_in_the_order_of_the_study_and_take_defaults():
    points, point_faults = check_points(
        study(*SPACE), rows({"opt": "adam", "n": "4"}, {"opt": "sgd", "m": 3})
    )
    assert point_faults == ()
    assert points == ((("n", 4), ("opt", "adam")), (("n", 2), ("opt", "sgd"), ("m", 3)))


def test_each_point_and_parameter_at_fault_is_named():
    assert faults(
        {"opt": "adam"},
        {"opt": "adam", "n": 9},
        {"n": 3},
        {"opt": "adam", "lr": 1},
        {"opt": "adam", "m": 3},
        {"opt": "adam", "n": 2},
    ) == [
        (1, "n", "n is not a whole number from 1 to 8, got 9"),
        (2, "opt", "opt is missing and has no defaultValue"),
        (3, "lr", "lr is not a parameter of the study (n, opt, m)"),
        (4, "m", "m has no effect at this value of opt; leave it out"),
        (5, "", "it is the same point as p1"),
    ]


def test_all_faults_of_a_point_are_named_at_once():
    names = {"nn": 1, "opt": "rms", "m": 3}
    assert faults(names, {"n": 9, "loss": 1, "s": 2}) == [
        (0, "nn", "nn is not a parameter of the study (n, opt, m); did you mean n?"),
        (0, "opt", "opt is not one of adam, sgd, got rms"),
        (1, "loss", "loss, s are not parameters of the study (n, opt, m)"),
        (1, "n", "n is not a whole number from 1 to 8, got 9"),
        (1, "opt", "opt is missing and has no defaultValue"),
    ]


def test_missing_parameters_of_a_point_are_listed_in_one_sentence():
    space = study(double(), *SPACE)
    [fault] = check_points(space, rows({"n": 3}))[1]
    assert fault == (0, "lr", "lr, opt are missing and have no defaultValue")


def test_a_sentence_lists_the_first_unknown_names():
    [(_, _, message)] = faults({"opt": "adam", **{f"x{n}": 1 for n in range(20)}})
    assert message.startswith("x0, x1, x2, x3, x4, x5, x6, x7 and 12 more are not parameters")


@pytest.mark.parametrize("algorithm", Algorithm)
def test_first_points_come_before_every_search_and_each_once(algorithm):
    spec = study(*SPACE, algorithm=algorithm, trial_count_max=20)
    points = ((("n", 7), ("opt", "adam")), (("n", 1), ("opt", "sgd"), ("m", 5)))
    batch = suggest(spec, (), 4, 9, first_points=points).values
    assert batch[:2] == points
    assert len(set(batch)) == 4
    running = [trial(1, points[0], state=TrialState.ACTIVE)]
    assert suggest(spec, running, 3, 9, first_points=points).values == batch[1:4]
    space = space_of(spec)
    assert [
        origin_of(space, values, points, is_first=n == 0) for n, values in enumerate(batch)
    ] == [
        *[TrialOrigin.FIRST_POINT] * 2,
        *[TrialOrigin.SEARCH] * 2,
    ]
    assert [position_of(values, points) for values in batch] == [1, 2, None, None]


@pytest.mark.parametrize("algorithm", Algorithm)
def test_the_first_trial_has_the_default_values_and_says_so(algorithm):
    spec = study(*SPACE, algorithm=algorithm, trial_count_max=20)
    space, batch = space_of(spec), suggest(spec, (), 3, 9).values
    assert dict(batch[0])["n"] == 2
    origins = [origin_of(space, values, (), is_first=n == 0) for n, values in enumerate(batch)]
    assert origins == [TrialOrigin.DEFAULTS, TrialOrigin.SEARCH, TrialOrigin.SEARCH]
    other = (("n", 3), ("opt", "adam"))
    assert origin_of(space, other, (), is_first=True) is TrialOrigin.SEARCH
    plain = space_of(study(double()))
    assert origin_of(plain, (("lr", 0.5),), (), is_first=True) is TrialOrigin.SEARCH


def test_values_of_another_study_are_points_in_the_order_of_this_one():
    space = space_of(study(*SPACE))
    values = [(("opt", "adam"), ("n", 4)), (("n", 99), ("opt", "adam"))]
    assert [*points_of_trials(space, values)] == [(("n", 4), ("opt", "adam"))]


def test_a_point_with_a_known_result_is_not_tried_again():
    point = (("lr", 0.5),)
    earlier = [trial(0, point, loss=0.1)]
    assert suggest(study(double()), (), 1, 9, prior=earlier, first_points=[point]).values != (
        point,
    )


def test_a_point_of_another_space_is_passed_over():
    odd = ((("gone", 1.0),), (("lr", 0.25),))
    assert suggest(study(double()), (), 1, 9, first_points=odd).values == (odd[1],)


def test_the_faults_of_many_points_are_limited():
    assert len(faults(*({"lr": n} for n in range(FAULTS_MAX)))) == FAULTS_MAX
