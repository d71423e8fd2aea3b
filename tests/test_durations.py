"""Durations as gcloud takes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.durations import duration_of, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120s", 120), ("2m", 120), ("1h30m", 5400), ("1d", 86_400), ("90", 90), ("0.5s", 0.5),
     ("1h1", 3601), (" 5m ", 300), ("0", 0)],
)  # fmt: skip
def test_what_gcloud_takes_is_taken(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "s", "-1s", "1.5h", "m5", "30m1h", "1s1s", "1 m", "nan", "inf", "1e3", "٣s",
             "9" * 400],
)  # fmt: skip
def test_anything_else_is_refused_with_what_is_accepted(text):
    with pytest.raises(ValueError, match="120s, 2m or 1h30m"):
        seconds_of(text)


@given(st.integers(0, 10**14))
def test_what_is_written_is_read_back(nanoseconds):
    seconds = nanoseconds / 1e9
    assert seconds_of(duration_of(seconds)) == pytest.approx(seconds, abs=1e-8)
