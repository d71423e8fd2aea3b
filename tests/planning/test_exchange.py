"""The time of an exchange over given links: what is known of it, and what must hold for all."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.planning.exchange import Links, best, gain, reducers_alone, ring
from trainshed_trainer.reduction.shares import NOISE, Rates, compute_shares

RATES = st.floats(0.1, 1000)
WORKERS = st.integers(2, 200)
LINKS = st.builds(
    Links,
    workers=WORKERS,
    worker_gbps=RATES,
    reducers_gbps=st.one_of(st.just(0.0), st.floats(0.01, 500_000)),
)


def alike(workers, reducers, rate=1.0):
    return Links(workers=workers, worker_gbps=rate, reducers_gbps=rate * reducers)


@pytest.mark.parametrize(
    ("workers", "reducers", "expected"),
    # docs/sources/reduction.md 7, with R = N, and with N = 4 and R = 2
    [(2, 2, 1.0), (4, 4, 1.5), (8, 8, 1.75), (16, 16, 1.875), (4, 2, 1.25), (4, 0, 1.0)],
)
def test_the_gains_of_the_contract_come_out(workers, reducers, expected):
    assert gain(alike(workers, reducers)) == pytest.approx(expected)


def test_reducers_that_sum_alone_lose_where_they_are_few():
    links = alike(4, 2)
    assert ring(links).seconds_per_gbit / reducers_alone(links).seconds_per_gbit == (
        pytest.approx(0.75)
    )


@given(workers=WORKERS, share=st.floats(0, 1), rate=RATES)
def test_equal_links_give_the_optimum_of_byteps(workers, share, rate):
    reducers = round(share * workers)
    n, k = workers, reducers
    split = best(alike(n, k, rate))
    whole = n * n + k * n - 2 * k
    assert split.seconds_per_gbit * rate == pytest.approx(2 * n * (n - 1) / whole)
    assert split.worker_share == pytest.approx((n - k) / whole)
    assert split.reducers_share == pytest.approx(k * 2 * (n - 1) / whole)


@given(LINKS)
def test_everything_is_summed_once_and_no_link_carries_more_than_it_can(links):
    n = links.workers
    for split in (best(links), ring(links)):
        assert n * split.worker_share + split.reducers_share == pytest.approx(1)
        carried = 1 + (n - 2) * split.worker_share
        assert carried <= links.worker_gbps * split.seconds_per_gbit * (1 + 1e-9)
        by_reducers = n * split.reducers_share
        assert by_reducers <= links.reducers_gbps * split.seconds_per_gbit * (1 + 1e-9)


@given(LINKS)
def test_it_is_never_slower_than_a_ring_nor_than_reducers_alone(links):
    limit = 2 * (links.workers - 1) / links.workers
    assert 1 - 1e-9 <= gain(links) <= limit + 1e-9
    if links.reducers_gbps:
        assert best(links).seconds_per_gbit <= reducers_alone(links).seconds_per_gbit * (1 + 1e-9)


@given(LINKS, st.floats(0, 100_000))
def test_more_reducers_are_never_slower(links, more):
    wider = Links(
        workers=links.workers,
        worker_gbps=links.worker_gbps,
        reducers_gbps=links.reducers_gbps + more,
    )
    assert best(wider).seconds_per_gbit <= best(links).seconds_per_gbit * (1 + 1e-9)


@given(workers=st.integers(3, 50), worker=RATES, reducers=st.lists(RATES, min_size=1, max_size=20))
def test_the_shares_that_are_predicted_are_those_that_workers_take(workers, worker, reducers):
    rates = [worker, *reducers]
    if max(rates) <= NOISE * min(rates):  # taken for one rate, measured with noise
        reducers = [worker] * len(reducers)
    split = best(Links(workers=workers, worker_gbps=worker, reducers_gbps=math.fsum(reducers)))
    shares = compute_shares(workers, Rates(worker, tuple(reducers)), workers_reduce=True)
    assert sum(shares[: len(reducers)]) == pytest.approx(split.reducers_share)
    assert shares[len(reducers) :] == pytest.approx([split.worker_share] * workers, abs=1e-9)


def test_a_single_worker_has_nothing_to_exchange():
    assert best(alike(1, 8)).seconds(1e9) == 0
    assert gain(alike(1, 8)) == 1


def test_a_gigabit_of_gradient_takes_its_time():
    links = alike(4, 4, rate=0.2)  # 64 MB at 200 Mbit/s, docs/sources/reduction.md 3.3
    assert best(links).seconds(64e6) == pytest.approx(2.56)
    assert ring(links).seconds(64e6) == pytest.approx(3.84)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0, "worker_gbps": 1.0},
        {"workers": 4, "worker_gbps": 0.0},
        {"workers": 4, "worker_gbps": math.nan},
        {"workers": 4, "worker_gbps": math.inf},
        {"workers": 4, "worker_gbps": 1.0, "reducers_gbps": -1.0},
        {"workers": 4, "worker_gbps": 1.0, "reducers_gbps": math.nan},
    ],
)
def test_what_is_no_link_is_refused(wrong):
    with pytest.raises(ValueError, match=r"links above 0|rate of reducers"):
        Links(**wrong)
