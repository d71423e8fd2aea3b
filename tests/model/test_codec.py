"""Values come back as they were, also from an older or a newer release."""

import enum
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from trainshed.model.codec import decode, encode


class Color(enum.Enum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    name: str
    pairs: tuple[tuple[str, int], ...] = ()
    extra: float | None = None


class Outer(NamedTuple):
    color: Color
    inner: Inner
    env: Mapping[str, str] = {}
    limits: tuple[float | None, ...] = ()
    anything: Any = None
    is_on: bool = False


@dataclass(frozen=True)
class Later:
    color: Color
    inner: Inner
    added: str = "new"
    more: dict[str, Inner] = field(default_factory=dict)


FULL = Outer(
    Color.RED,
    Inner(name="a", pairs=(("x", 1),), extra=0.5),
    {"k": "v"},
    (1.0, None, math.inf),
    {"free": [1]},
    is_on=True,
)


def through_json(value):
    return json.loads(json.dumps(encode(value)))


@pytest.mark.parametrize("value", [FULL, Outer(Color.RED, Inner(name="")), Inner(name="\ud800\0")])
def test_a_value_comes_back_as_it_was(value):
    assert decode(type(value), through_json(value)) == value


def test_a_newer_release_reads_an_older_one_s_file_and_the_other_way_round():
    newer = decode(Later, through_json(FULL))
    assert (newer.added, newer.more, newer.inner) == ("new", {}, FULL.inner)
    assert decode(Outer, through_json(newer)) == Outer(Color.RED, FULL.inner)


def test_a_mapping_of_another_kind_is_written_as_an_object(monkeypatch):
    import os  # noqa: PLC0415

    monkeypatch.setenv("SOME_NAME", "1")
    assert encode(os.environ)["SOME_NAME"] == "1"


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"color": "red"},
        {"color": "blue", "inner": {"name": "a"}},
        {"color": "red", "inner": {"name": 1}},
        {"color": "red", "inner": {"name": "a", "pairs": "xy"}},
        {"color": "red", "inner": {"name": "a", "pairs": [["x"]]}},
        {"color": "red", "inner": {"name": "a"}, "env": []},
        {"color": "red", "inner": {"name": "a"}, "limits": ["1"]},
    ],
)
def test_what_is_no_such_value_is_refused(document):
    with pytest.raises(ValueError, match=r"valid Outer|is not a valid|argument"):
        decode(Outer, document)


def test_a_whole_number_does_for_a_float():
    assert decode(Outer, {"color": "red", "inner": {"name": "a"}, "limits": [1]}).limits == (1.0,)
