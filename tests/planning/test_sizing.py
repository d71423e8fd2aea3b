"""How many reducers a job needs: both worked examples, and what holds for all hosts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed import catalog
from trainshed.catalog.machines import price_of
from trainshed.catalog.rows import rows
from trainshed.planning.exchange import reducers_alone, ring
from trainshed.planning.sizing import Hosts, plan

EXAMPLES = {row["id"]: row for row in rows("reduction_server", "example")}
VERTEX = catalog.load("2026-08")
HOSTS = st.builds(
    lambda workers, worker, reducer: Hosts(
        workers=workers, worker_gbps=worker, total_gbps=workers * worker, reducer_gbps=reducer
    ),
    st.integers(1, 300),
    st.floats(0.1, 400),
    st.floats(0.1, 400),
)


def hosts(workers=5, gbps=100.0, reducer=32.0, price=None):
    return Hosts(
        workers=workers,
        worker_gbps=gbps,
        total_gbps=workers * gbps,
        reducer_gbps=reducer,
        reducer_usd_hour=price,
    )


@pytest.mark.parametrize(
    ("example", "machine", "device", "workers", "gain"),
    [
        ("v100", "n1-highmem-96", ("NVIDIA_TESLA_V100", 8), 5, 1.6),
        ("a100", "a2-megagpu-16g", ("NVIDIA_TESLA_A100", 16), 8, 1.75),
    ],
)
def test_the_printed_number_of_reducers_suffices(example, machine, device, workers, gain):
    printed = EXAMPLES[example]
    worker = VERTEX.egress_gbps(VERTEX.machines[machine], *device)
    reducer = VERTEX.egress_gbps(VERTEX.machines[printed["reducer"]], None, 0)
    sizing = plan(hosts(workers, worker, reducer), 0, 64e6)
    assert sizing.sufficient.reducers == printed["reducers"]
    assert sizing.sufficient.total_gbps == printed["total_reducer_gbps"]
    assert sizing.sufficient.gain == pytest.approx(gain)
    assert sizing.requested is None


def test_a_plan_weighs_what_was_asked_among_others():
    sizing = plan(hosts(price=0.5), 10, 64e6)
    assert [option.reducers for option in sizing.options] == [0, 4, 8, 10, 12, 16]
    assert sizing.requested.reducers == 10
    assert sizing.requested.total_gbps == 320
    assert sizing.requested.usd_hour == 5
    assert sizing.requested.gain == pytest.approx(1 + 0.6 * 320 / 500)
    assert sizing.options[0].gain == 1
    assert sizing.options[0].reducers_share == 0
    assert sizing.sufficient.reducers_share == 1


def test_what_reducers_cost_is_left_out_where_nobody_knows():
    assert {option.usd_hour for option in plan(hosts(), 4, 64e6).options} == {None}


def test_the_slowest_worker_sets_the_pace_and_all_of_them_the_number():
    mixed = Hosts(workers=4, worker_gbps=10, total_gbps=100, reducer_gbps=10)
    sizing = plan(mixed, 4, 1e9)
    assert sizing.sufficient.reducers == 10
    assert sizing.requested.seconds == pytest.approx(0.8)


@given(HOSTS, st.integers(0, 500))
def test_gains_grow_with_the_reducers_and_end_at_enough(hosts, requested):
    sizing = plan(hosts, requested, 64e6)
    gains = [option.gain for option in sizing.options]
    assert all(fewer <= more + 1e-9 for fewer, more in pairwise(gains))
    most = max(1.0, 2 * (hosts.workers - 1) / hosts.workers)
    assert sizing.sufficient.gain == pytest.approx(most)
    assert hosts.helps == (most > 1)


@given(HOSTS)
def test_as_many_as_break_even_are_as_fast_as_a_ring_without_the_workers_and_fewer_are_not(hosts):
    if hosts.workers == 1:
        assert hosts.break_even == 0
        return
    limit = ring(hosts.links(0)).seconds_per_gbit
    least = hosts.break_even
    assert 1 <= least <= hosts.sufficient
    assert alone(hosts, least) <= limit * (1 + 1e-9)
    assert least == 1 or alone(hosts, least - 1) >= limit * (1 - 1e-9)


def alone(hosts, reducers):
    return reducers_alone(hosts.links(reducers)).seconds_per_gbit


def test_no_count_of_a_caller_is_too_large():
    sizing = plan(hosts(workers=2**63, gbps=100.0, reducer=0.001), 2**63, 64e6)
    assert sizing.sufficient.reducers > 2**63
    assert sizing.break_even > 2**62


def test_the_price_of_a_region_or_of_the_list_s_own():
    price = price_of("n1-highcpu-16", "europe-west4")
    assert (price.usd_hour, price.region, price.date) == (0.624, "europe-west4", "2026-07-30")
    for region in (None, "us-central1", "southamerica-west1"):
        assert price_of("n1-highcpu-16", region).region == "us-central1"
    assert price_of("my-own-machine", None) is None
