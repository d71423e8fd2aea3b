"""Text of strangers is shown, and nothing in it is obeyed, hidden or turned around."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.visible import hidden, visible, visible_json, visible_line

#: Every character there is, lone surrogates too.
ANY = st.text(st.characters(codec=None))
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, größer, 東京, Ünïcödé, 👍", None),
        ("a\tb\nc", None),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m\x7f\r\x00", "\\x9b31m\\x7f\\r\\x00"),
        ("a\u202eb\u2066c\u200f", "a\\u202eb\\u2066c\\u200f"),
        ("x\u2028y\ufeff\u200b", "x\\u2028y\\ufeff\\u200b"),
        ("\ud800 \U000e0041", "\\ud800 \\U000e0041"),
        ("\u06cc\u200c\u0647, \U0001f468\u200d\U0001f469", None),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text, expected):
    assert visible(text) == (text if expected is None else expected)


def test_in_one_line_nobody_makes_another():
    assert visible_line("a\nb\tc\rd") == r"a\nb\tc\rd"


@given(ANY)
def test_nothing_hidden_is_left_and_the_rest_is_as_it_was(text):
    printable = visible(text)
    assert not [
        c for c in printable if unicodedata.category(c) in HIDDEN and c not in "\n\t\u200c\u200d"
    ]
    assert visible(printable) == printable
    printable.encode()
    assert (hidden(text.replace("\n", "").replace("\t", "")) is None) == (printable == text)


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
def test_json_means_what_it_meant(value):
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=2))
    # two escapes of halves are one character to a reader of JSON
    assert json.loads(text) == json.loads(json.dumps(value))
    assert visible(text) == text
