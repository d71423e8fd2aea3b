"""Tensors go where they are faster, by measurement, and everywhere alike."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_route import (
    BUDGET_S,
    LARGE,
    SIZES,
    TIE,
    Route,
    RouteSample,
    choose_route,
    measure_route,
    route_setting,
)

KB = 1024
ROUTE = "TRAINSHED_REDUCTION_ROUTE"
times = st.floats(min_value=1e-5, max_value=10)


class Ranks:
    """All ranks in one: the slowest is this one."""

    def __init__(self):
        self.agreements = 0

    def maxima(self, values):
        self.agreements += 1
        return list(values)


class Clock:
    """A clock that only the all-reduces advance."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("trainshed_trainer.reduction.torch_route.time.monotonic", self.read)

    def read(self):
        return self.now

    def taking(self, seconds_of):
        """An all-reduce that takes ``seconds_of(bytes)``; it keeps the sizes that it was given."""

        def reduce(tensor):
            reduce.sizes.append(tensor.numel() * 4)
            self.now += seconds_of(tensor.numel() * 4)

        reduce.sizes = []
        return reduce


def samples(*winners):
    """Samples in which these sizes are twice as fast by reducers, and the others half."""
    return [RouteSample(size, 2.0, 1.0 if size in winners else 4.0) for size in SIZES]


def test_each_class_of_sizes_goes_its_own_way():
    route = choose_route(samples(4 * KB, 64 * KB, 4 << 20))
    assert [route.to_reducers(size) for size in SIZES] == [True, True, False, False, True]
    assert route.to_reducers(1)
    assert route.to_reducers(1 << 40)
    assert (
        str(route) == "up to 128 KB by reducers, up to 2048 KB by gloo or nccl, above by reducers"
    )


def test_a_size_between_two_goes_with_the_nearer():
    route = choose_route(samples(64 * KB))
    assert not route.to_reducers(15 * KB)
    assert route.to_reducers(17 * KB)
    assert route.to_reducers(127 * KB)
    assert not route.to_reducers(129 * KB)


@pytest.mark.parametrize(("size", "to_reducers"), [(256 * KB, False), (LARGE, True)])
def test_a_tie_is_won_by_the_inner_group_where_small_and_by_reducers_where_large(size, to_reducers):
    for reducers in (1 / TIE + 0.001, 1.0, TIE - 0.001):
        assert choose_route([RouteSample(size, 1.0, reducers)]).to_reducers(size) is to_reducers


def test_what_was_not_measured_goes_to_the_reducers_if_it_is_large():
    route = choose_route([RouteSample(4 * KB, 1.0, 4.0), RouteSample(64 * KB, 1.0, 4.0)])
    assert not route.to_reducers(LARGE - 1)
    assert route.to_reducers(LARGE)
    assert choose_route([]) == Route()
    assert choose_route([]).to_reducers(1)


def test_beyond_the_largest_that_was_measured_its_choice_holds():
    assert not choose_route(samples()).to_reducers(1 << 40)
    assert str(choose_route(samples())) == "all by gloo or nccl"
    assert str(Route()) == "all by reducers"


@given(st.lists(st.tuples(times, times), min_size=len(SIZES), max_size=len(SIZES)))
def test_reducers_are_chosen_only_where_they_do_not_lose(pairs):
    measurements = [RouteSample(size, *pair) for size, pair in zip(SIZES, pairs, strict=True)]
    route = choose_route(measurements)
    for sample in measurements:
        if route.to_reducers(sample.nbytes):
            assert sample.reducers <= sample.inner * TIE
        else:
            assert sample.inner <= sample.reducers * TIE


def test_both_ways_are_measured_in_turn_and_the_faster_is_chosen(monkeypatch):
    clock = Clock(monkeypatch)
    inner = clock.taking(lambda size: size * 2e-9)
    reducers = clock.taking(lambda size: size * 1e-9)
    route = measure_route(Ranks(), inner, reducers, torch.device("cpu"))
    assert all(route.to_reducers(size) for size in SIZES)
    assert sorted(set(inner.sizes)) == sorted(set(reducers.sizes)) == list(SIZES)
    assert len(inner.sizes) == len(reducers.sizes)


@pytest.mark.parametrize("seconds", [0.5, 1.0, 30.0])
def test_slow_links_are_not_measured_for_long(monkeypatch, seconds):
    """The budget is overrun by one pair at most, which nobody could foresee."""
    clock = Clock(monkeypatch)
    slow = clock.taking(lambda size: seconds * size / LARGE)
    route = measure_route(Ranks(), slow, slow, torch.device("cpu"))
    largest = max(slow.sizes)
    assert clock.now <= BUDGET_S + 2 * seconds * largest / LARGE
    assert not route.to_reducers(4 * KB)
    assert route.to_reducers(4 << 20)


def test_noise_in_single_rounds_changes_nothing(monkeypatch):
    clock = Clock(monkeypatch)
    turns = iter(range(10**6))
    inner = clock.taking(lambda size: size * 2e-9)
    reducers = clock.taking(lambda size: size * 1e-9 * (1 if next(turns) % 3 else 20))
    route = measure_route(Ranks(), inner, reducers, torch.device("cpu"))
    assert route == Route(tuple((limit, True) for limit, _ in route.classes))


def test_the_setting_is_one_of_two():
    assert route_setting({}) == route_setting({ROUTE: "measured"}) == "measured"
    assert route_setting({ROUTE: "always"}) == "always"
    with pytest.raises(
        ReductionError, match=f"{ROUTE} must be measured or always, got 'sometimes'"
    ):
        route_setting({ROUTE: "sometimes"})
