"""Texts that several packages put into their messages."""

import pytest

from trainshed.model.bounded import BoundedDict
from trainshed.model.texts import (
    count_noun,
    format_decimal_size,
    format_duration,
    format_size,
    join_names,
    join_or,
    shorten_repr,
)

MIB = 1 << 20


def test_one_is_not_called_several():
    assert count_noun(1, "host") == "1 host"
    assert count_noun(1200, "host") == "1,200 hosts"


@pytest.mark.parametrize(
    ("values", "text"),
    [([], ""), ([1], "1"), ([1, 2], "1 or 2"), ([1, 2, 4], "1, 2 or 4"),
     (range(5), "0, 1, 2 and 2 more")],
)  # fmt: skip
def test_alternatives_are_joined_and_cut(values, text):
    assert join_or(values, limit=3) == text


def test_names_are_cut():
    assert join_names(["a", "b"], 2) == "a, b"
    assert join_names(["a", "b", "c"], 2) == "a, b and 1 more"


def test_a_long_value_is_cut():
    assert shorten_repr("a") == "'a'"
    assert shorten_repr("a" * 100, 4) == "'aaa..."


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(None, "0 MiB"), (310 * MIB, "310 MiB"), (2048 * MIB, "2.0 GiB"), (2600 * MIB, "2.5 GiB")],
)
def test_a_size_in_binary_units(size_bytes, text):
    assert format_size(size_bytes) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (4096, "4.1 kB"), (64e6, "64 MB"), (5.24e10, "52.4 GB"),
     (2.5e15, "2.5e+03 TB")],
)  # fmt: skip
def test_a_size_in_decimal_units(size_bytes, text):
    assert format_decimal_size(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (90, "90 s"), (2700, "45 min"), (3 * 3600, "3 h"), (7 * 86_400, "7 d")],
)
def test_a_duration_is_rounded_up(seconds, text):
    assert format_duration(seconds) == text


def test_a_full_bounded_dict_drops_its_entries_for_a_new_key():
    remembered = BoundedDict[str, int](2)
    remembered["a"] = remembered["b"] = 1
    remembered["a"] = 2
    assert remembered == {"a": 2, "b": 1}
    remembered["c"] = 3
    assert remembered == {"c": 3}
