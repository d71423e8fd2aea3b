"""What a job costs: split as its time is, never in two currencies, and never 0 for no price."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.planning.job_cost import split_cost, sum_costs
from trainshed.planning.prices import Machines, OwnPrices, PriceList

CPU = Machines(count=2, machine_type="n1-standard-8")
UNPRICED = Machines(count=1, machine_type="my-own")
EURO = PriceList(
    own=OwnPrices(source="own.toml", currency="EUR", date="2026-11-01", per_hour={"my-own": 6.0})
)
HOUR = {"productive": 2700.0, "starting": 900.0}


def test_an_amount_is_split_as_the_time_is():
    cost = split_cost([UNPRICED], EURO, HOUR)
    assert cost.parts == {"productive": 4.5, "starting": 1.5}
    assert (cost.amount, cost.currency, cost.is_at_least) == (6.0, "EUR", False)
    assert (cost.source, cost.date) == ("own.toml", "2026-11-01")


def test_a_type_without_a_price_makes_the_sum_at_least_and_is_named():
    cost = split_cost([CPU, UNPRICED], PriceList(), HOUR)
    assert cost.amount == pytest.approx(PriceList().of([CPU]).amount)
    assert (cost.is_at_least, cost.lacking) == (True, ("no price of my-own is known",))


def test_without_any_price_there_is_no_amount():
    cost = split_cost([UNPRICED], PriceList(), HOUR)
    assert (cost.amount, cost.currency, cost.parts) == (None, None, {})
    assert cost.is_at_least
    assert cost.document["amount"] is None


def test_a_cluster_in_two_currencies_has_the_amount_of_one():
    cost = split_cost([CPU, UNPRICED], EURO, HOUR)
    assert (cost.amount, cost.currency, cost.is_at_least) == (6.0, "EUR", True)


def test_sums_of_two_currencies_stay_apart():
    euro, dollar = split_cost([UNPRICED], EURO, HOUR), split_cost([CPU], PriceList(), HOUR)
    sums = sum_costs([euro, dollar, euro])
    assert [(cost.currency, cost.is_at_least) for cost in sums] == [("EUR", False), ("USD", False)]
    assert sums[0].amount == 12.0
    assert sums[0].parts == {"productive": 9.0, "starting": 3.0}


def test_a_cost_without_an_amount_makes_every_sum_at_least():
    unpriced = split_cost([UNPRICED], PriceList(), HOUR)
    [dollars] = sum_costs([split_cost([CPU], PriceList(), HOUR), unpriced])
    assert (dollars.currency, dollars.is_at_least) == ("USD", True)
    assert dollars.lacking == ("no price of my-own is known",)
    assert [cost.amount for cost in sum_costs([unpriced])] == [None]
    assert sum_costs([]) == []


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e9), max_size=6))
def test_the_parts_add_up_to_the_amount(seconds):
    cost = split_cost([CPU], PriceList(), seconds)
    assert cost.amount == pytest.approx(sum(cost.parts.values()))
    assert cost.parts.keys() == seconds.keys()
