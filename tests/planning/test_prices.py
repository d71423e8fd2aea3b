"""What an hour costs: by the catalog, by an owner's figures, and never in two currencies."""

import math

import pytest

from trainshed.catalog import machines
from trainshed.catalog import rows as catalog_rows
from trainshed.model.faults import UsageFault
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.prices import Machines, PriceList, delay_factor, own_prices

V100 = Machines(count=2, machine_type="n1-standard-32", accelerator="NVIDIA_TESLA_V100",
                accelerators=8)  # fmt: skip


def own(rows, head='currency = "EUR"\ndate = "2026-11-01"\n'):
    return own_prices(f"{head}{rows}", "own.toml")


def test_attached_accelerators_are_paid_beside_their_machines():
    price = PriceList().of([V100])
    assert price.amount == pytest.approx(2 * (1.52 + 8 * 2.48))
    assert price.currency == "USD"
    assert price.dates == ("2021-06-21", "2026-07-30")


def test_accelerators_that_a_machine_brings_are_in_its_price():
    machine = Machines(count=1, machine_type="a2-highgpu-1g", accelerator="NVIDIA_TESLA_A100",
                       accelerators=1)  # fmt: skip
    assert PriceList().of([machine]).amount == pytest.approx(3.6734)
    assert PriceList(spot=True).of([machine]).amount == pytest.approx(1.928)
    assert PriceList(region="asia-northeast1").of([machine]).amount == pytest.approx(4.0496)


def test_one_machine_without_a_price_leaves_the_cluster_without():
    assert PriceList().of([V100, Machines(count=1, machine_type="my-own")]) is None
    assert PriceList().of([]) is None


def test_hosts_without_a_name_have_no_price_and_read_no_table(monkeypatch):
    monkeypatch.setattr(catalog_rows, "table", lambda name: pytest.fail(f"read {name}"))
    machines._prices_by_place.cache_clear()
    assert PriceList().of([Machines(count=2, machine_type=""), V100]) is None


def test_own_prices_win_and_another_currency_leaves_the_catalog_out():
    rows = '[[machine]]\nname = "n1-standard-32"\nper_hour = 9.5\n'
    price = PriceList(own=own(rows)).of([V100])
    assert (price.amount, price.currency, price.dates) == (19.0, "EUR", ("2026-11-01",))
    with_reducers = [V100, Machines(count=4, machine_type="n1-highcpu-16")]
    assert PriceList(own=own(rows)).of(with_reducers) is None
    in_dollars = own(rows, 'currency = "USD"\n')
    assert PriceList(own=in_dollars).of(with_reducers).amount == pytest.approx(
        19 + 4 * 0.5668, 0.01
    )


def test_energy_and_what_a_machine_loses_of_its_value():
    prices = own(
        '[[machine]]\nname = "box"\nwatts = 900\nper_kwh = 0.32\n'
        "bought_for = 18000\nyears = 4\nuse = 0.5\n"
    )
    assert prices.per_hour["box"] == pytest.approx(0.9 * 0.32 + 18000 / (4 * 8766 * 0.5))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ('[[machine]]\nname = "a"\nper_hour = 0\n', "a: per_hour must be a number above 0, got 0"),
        (
            '[[machine]]\nname = "a"\nper_hour = -3\n',
            "a: per_hour must be a number above 0, got -3",
        ),
        (
            '[[machine]]\nname = "a"\nper_hour = nan\n',
            "a: per_hour must be a number above 0, got nan",
        ),
        (
            '[[machine]]\nname = "a"\nper_hour = 1\ncurrency = "USD"\n',
            "currency must be EUR, as in the whole file, got USD",
        ),
        ('[[machine]]\nname = "a"\nper_hour = 1\nwatts = 3\n', "must have per_hour, or watts"),
        ('[[machine]]\nname = "a"\nwatts = 3\n', "must have per_hour, or watts"),
        ('[[machine]]\nname = "a"\n', "no price"),
        ('[[machine]]\nname = "a"\nper_hor = 1\n', "unknown key 'per_hor'"),
        ("[[machine]]\nper_hour = 1\n", "machine 1 has no name"),
        (
            '[[machine]]\nname = "a"\nbought_for = 1\nyears = 1\nuse = 2\n',
            "use must be a share of hours up to 1, got 2",
        ),
        ('[[machine]]\nname = "a"\nper_hour = 1\n' * 2, "a is given twice"),
        (
            '[[machine]]\nname = "a"\nbought_for = 1\nyears = 1e-308\n',
            "got 1e-308",
        ),
        ('[[machine]]\nname = "a"\nper_hour = 1' + "0" * 400 + "\n", "got infinity"),
        ('[[machine]]\nname = "a"\nper_hour = inf\n', "got infinity"),
        ("", "[[machine]] is missing"),
        ("machine = 3", "[[machine]] is missing"),
        ("[[machine", "is not valid TOML"),
    ],
)
def test_a_file_of_prices_is_refused_in_a_sentence(rows, sentence):
    with pytest.raises(UsageFault, match=r"own\.toml") as refused:
        own(rows)
    assert sentence in str(refused.value)


def test_a_file_without_a_currency_is_refused():
    with pytest.raises(UsageFault, match="currency is missing"):
        own('[[machine]]\nname = "a"\nper_hour = 1\n', "")


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (
            'currency = ["EUR", "USD"]',
            "currency must be a name such as USD or EUR, got ['EUR', 'USD']",
        ),
        (
            'currency = "euros and cents"',
            "currency must be a name such as USD or EUR, got 'euros and cents'",
        ),
        (
            'currency = "EUR"\ndate = "yesterday"',
            "date must be a day such as 2026-11-01, got 'yesterday'",
        ),
        ('currency = "EUR"\ndate = nan', "date must be a day such as 2026-11-01, got nan"),
    ],
)
def test_a_wrong_currency_or_day_is_not_said_to_be_missing(head, sentence):
    with pytest.raises(UsageFault) as refused:
        own('[[machine]]\nname = "a"\nper_hour = 1\n', f"{head}\n")
    assert sentence in str(refused.value)


def test_a_day_may_be_a_date_of_toml_or_a_text():
    rows = '[[machine]]\nname = "a"\nper_hour = 1\n'
    for day in ("2026-11-01", '"2026-11-01"', "2026-11-01T12:00:00Z"):
        assert own(rows, f'currency = "EUR"\ndate = {day}\n').date == "2026-11-01"


def test_interruptions_cost_half_of_what_lies_between_checkpoints_and_the_restart():
    spot = PlanRequest(spot=0.1, checkpoint_every=1800.0, restart=300.0)
    assert delay_factor(spot, 1) == pytest.approx(1 / (1 - 0.1 * 1200 / 3600))
    assert delay_factor(spot, 30) == math.inf
    assert delay_factor(PlanRequest(), 30) == 1
