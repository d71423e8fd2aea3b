"""The owner's prices win over the catalog's, and are read again when their file changes."""

import os

import pytest

from trainshed.model.faults import UsageFault
from trainshed.planning.prices import Machines
from trainshed.service.costs.prices import PriceSource, open_prices

MINE = Machines(count=1, machine_type="my-own")
GOOD = 'currency = "EUR"\n[[machine]]\nname = "my-own"\nper_hour = 2.0\n'


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(GOOD)
    return path


def hourly(prices):
    price = prices.list_for(None).of([MINE])
    return price and (price.amount, price.currency)


def test_without_a_file_prices_are_those_of_the_catalog():
    machine = Machines(count=1, machine_type="n1-standard-4")
    assert open_prices(None).list_for("us-central1").of([machine]).currency == "USD"
    assert hourly(PriceSource()) is None


def test_a_changed_file_is_read_again(file, caplog):
    prices = open_prices(file)
    assert hourly(prices) == (2.0, "EUR")
    file.write_text(GOOD.replace("2.0", "3.25"))
    assert hourly(prices) == (3.25, "EUR")
    assert "read the prices of" in caplog.text or not caplog.records


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD.replace("2.0", "0"), "per_hour must be a number above 0, got 0"),
        (GOOD.replace("2.0", "-1"), "per_hour must be a number above 0, got -1"),
        (GOOD.replace("2.0", "nan"), "per_hour must be a number above 0, got nan"),
        (GOOD + 'currency = "USD"\n', "currency must be EUR, as in the whole file, got USD"),
        (GOOD.replace('currency = "EUR"\n', ""), "currency is missing"),
        ('currency = "EUR"\n', "[[machine]] is missing"),
        ("currency =", "is not valid TOML"),
        (GOOD.replace("2.0", "1" * 5000), "is not valid TOML: a number has too many digits"),
        (GOOD.replace("EUR", "E" * 17), "currency must be a name such as USD or EUR, got 'E"),
        (b"\xff", "byte 0 is not UTF-8 text"),
        (b"#" * (2 << 20), "must have at most"),
        (None, "cannot be read: No such file"),
        ("a pipe", "prices.file must be a file"),
    ],
)
def test_a_wrong_file_is_named_and_the_old_prices_stay(file, caplog, text, reason):
    prices = open_prices(file)
    if text is None:
        file.unlink()
    elif text == "a pipe":
        file.unlink()
        os.mkfifo(file)
    else:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert hourly(prices) == hourly(prices) == (2.0, "EUR")
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert reason in record.getMessage()
    assert "the server keeps the old ones" in record.getMessage()
    with pytest.raises(UsageFault) as raised:
        open_prices(file)
    assert reason in str(raised.value), "a server does not start with it"
    assert str(file) in str(raised.value)
    file.unlink(missing_ok=True)
    file.write_text(GOOD.replace("2.0", "5"))
    assert hourly(prices) == (5.0, "EUR")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/dev/null/prices.toml"])
def test_a_path_of_no_file_is_a_wrong_setting(tmp_path, name):
    with pytest.raises(UsageFault, match=r"prices\.file .* cannot be read: "):
        open_prices(tmp_path / name)
