"""Who sums what: every element once, the same cut on all ranks, as fast as the rates allow."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainshed_trainer.reduction.shares import (
    GRAIN,
    NOISE,
    SHARE_MIN,
    Rates,
    compute_shares,
    split_elements,
)

#: From a modem to memory, in bytes a second.
RATES = st.floats(1e3, 1e12)
POOLS = st.lists(RATES, max_size=6).map(tuple)
WORLDS = st.integers(1, 64)


def seconds(world, rates, shares):
    """How long a tensor of one byte takes: the time of the busiest link."""
    reducers, workers = shares[: len(rates.reducers)], shares[len(rates.reducers) :]
    portion = workers[0] if workers else 0.0
    worker = (1 + (world - 2) * portion if workers else 1.0) / rates.worker
    times = [world * share / rate for share, rate in zip(reducers, rates.reducers, strict=True)]
    return max([worker, *times])


@given(WORLDS, RATES, POOLS)
def test_shares_are_of_one_whole(world, worker, pool):
    shares = compute_shares(world, Rates(worker, pool), workers_reduce=True)
    assert len(shares) == len(pool) + world
    assert all(share >= 0 for share in shares)
    assert math.isclose(sum(shares), 1.0, rel_tol=1e-9)
    assert len(set(shares[len(pool) :])) == 1


@given(st.integers(2, 64), st.integers(0, 64), RATES)
def test_equal_links_have_the_shares_of_byteps(world, pool, rate):
    """docs/sources/reduction.md 1; without reducers the ring's, and from N reducers on all."""
    shares = compute_shares(world, Rates(rate, (rate,) * pool), workers_reduce=True)
    if pool >= world:
        right = [1 / pool] * pool + [0.0] * world
    elif world > 2:
        below = world**2 + pool * world - 2 * pool
        right = [2 * (world - 1) / below] * pool + [(world - pool) / below] * world
    else:
        right = [1 / world] * pool + [(world - pool) / world / world] * world
    assert shares == pytest.approx(right, abs=1e-9)


@given(st.integers(1, 8), RATES, st.lists(RATES, min_size=1, max_size=8).map(tuple))
def test_reducers_that_suffice_have_equal_parts(world, worker, pool):
    assert compute_shares(world, Rates(worker, pool), workers_reduce=False) == [
        1 / len(pool)
    ] * len(pool)


@given(st.integers(2, 16), RATES, POOLS)
def test_no_other_shares_are_faster(world, worker, pool):
    """All that take part end together; a bit moved from reducers to workers or back is no gain."""
    rates = Rates(worker, pool)
    assume(max(worker, *pool, 0.0) > NOISE * min(worker, *pool, 1e13))  # else taken for one rate
    shares = compute_shares(world, rates, workers_reduce=True)
    best = seconds(world, rates, shares)
    ring = seconds(world, rates, [0.0] * len(pool) + [1 / world] * world)
    assert best <= ring * (1 + 1e-9)
    for change in (0.99, 1.01):
        moved = [share * change for share in shares[: len(pool)]]
        if pool and sum(moved) <= 1:
            other = moved + [(1 - sum(moved)) / world] * world
            assert seconds(world, rates, other) >= best * (1 - 1e-9)


@given(st.lists(st.floats(1.01 / NOISE, 1.0), min_size=2, max_size=6))
def test_noise_is_no_difference(factors):
    worker, *pool = factors
    shares = compute_shares(8, Rates(worker, tuple(pool)), workers_reduce=True)
    assert len(set(shares[: len(pool)])) == 1


@given(
    st.integers(0, 1 << 22),
    st.sampled_from([2, 4]),
    st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda weights: max(weights) > 1e-6),
    st.integers(0, 1000),
)
def test_parts_cover_every_element_once(count, itemsize, weights, turn):
    shares = [weight / sum(weights) for weight in weights]
    cut = split_elements(count, itemsize, shares, turn)
    at = 0
    for reducer, start, end in cut:
        assert start == at < end
        assert start % GRAIN == 0
        assert shares[reducer] > 0
        at = end
    assert at == count
    assert len({reducer for reducer, _, _ in cut}) == len(cut)
    assert cut == split_elements(count, itemsize, list(shares), turn)


@given(st.integers(1, 8), st.integers(1, 1 << 22))
def test_parts_are_as_long_as_their_shares(places, count):
    cut = split_elements(count, 4, [1 / places] * places, 0)
    if count * 4 >= places * SHARE_MIN:
        assert len(cut) == places
        assert all(abs(end - start - count / places) <= GRAIN for _, start, end in cut)
    else:
        assert len(cut) == max(1, count * 4 // SHARE_MIN)


def test_short_tensors_take_turns():
    shares = [0.25] * 4
    assert [split_elements(10, 4, shares, turn)[0][0] for turn in range(8)] == [0, 1, 2, 3] * 2
    assert [part[0] for part in split_elements(SHARE_MIN // 2, 4, shares, 3)] == [3, 0]
