"""JSON that anybody may send: a value as JSON has it, or a sentence, and never anything else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model import json_reader
from trainshed.model.json_reader import (
    DEPTH_MAX,
    NAME_LENGTH_MAX,
    NUMBER_LENGTH_MAX,
    VALUES_MAX,
    BadJson,
    check_document,
    read_json,
    read_object,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**250), 10**250)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_what_json_can_say_is_read_as_it_was_meant(value, ascii_only):
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(
    st.binary(max_size=60) | st.text('[]{}",:\\u d8019eE+-.NaInf\n', max_size=40).map(str.encode)
)
def test_any_bytes_are_read_or_refused_in_a_sentence(data):
    message = None
    try:
        read_json(data)
    except BadJson as error:
        message = str(error)
    assert message != ""  # None is no message at all


def deep(levels):
    return b"[" * levels + b"]" * levels


#: name: (text, a part of the message)
WRONG = {
    "101 levels": (deep(DEPTH_MAX + 1), "nested more than 100 deep"),
    "5,000 levels": (deep(5000), "nested more than 100 deep"),
    "5,000 open levels": (b'{"a":' * 5000, "nested more than 100 deep"),
    "levels of both kinds": (b'{"a":[' * 60 + b"1" + b"]}" * 60, "nested more than 100 deep"),
    "too many numbers": (b"[" + b"1," * VALUES_MAX + b"1]", "more than 20000 values"),
    "too many empty lists": (b"[" + b"[]," * VALUES_MAX + b"[]]", "more than 20000 values"),
    "too many texts with commas": (b"[" + b'",",' * VALUES_MAX + b"1]", "more than 20000 values"),
    "texts without end": (b'"",,' + b'"[["' * 3 * VALUES_MAX, "more than 20000 values"),
    "a long name": (b'{"' + b"a" * (NAME_LENGTH_MAX + 1) + b'":1}', "has more than 1024 char"),
    "a long number": (b"1" * (NUMBER_LENGTH_MAX + 1), "has over 300 digits"),
    "a long fraction": (b"0." + b"1" * NUMBER_LENGTH_MAX, "has over 300 digits"),
    "a number beyond all": (b"1e400", "1e400 is too large for a number"),
    "NaN": (b"[NaN]", "NaN is not a JSON number"),
    "Infinity": (b"-Infinity", "-Infinity is not a JSON number"),
    "a name twice": (b'{"a":1,"b":2,"a":3}', "'a' is given twice"),
    "half a character": (b'"\\ud800"', "unpaired surrogate"),
    "the other half": (b'"\\udc00\\ud800"', "unpaired surrogate"),
    "half a character in a name": (b'{"\\ud83d":1}', "unpaired surrogate"),
    "U+0000": (b'["\\u0000"]', "the character U.0000"),
    "no UTF-8": (b'"\xff"', "not UTF-8 at byte 1"),
    "a surrogate as bytes": (b'"\xed\xa0\x80"', "not UTF-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "nothing": (b"", "Expecting value at line 1 column 1"),
    "two values": (b"1\n2", "Extra data at line 2 column 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name):
    text, message = WRONG[name]
    with pytest.raises(BadJson, match=message):
        read_json(text)


#: As much as is read, and not one more.
MOST = {
    "levels": deep(DEPTH_MAX),
    "values": b"[" + b"1," * (VALUES_MAX - 2) + b"1]",
    "values with names": b'{"a":0' + b"".join(b',"k%d":"x"' % i for i in range(19_990)) + b"}",
    "commas in a text": b'["' + b",[{" * VALUES_MAX + b'"]',
    "a name": b'{"' + b"a" * NAME_LENGTH_MAX + b'":1}',
    "a number": b"9" * NUMBER_LENGTH_MAX,
    "a pair of surrogates": b'"\\ud83d\\ude00"',
    "a surrogate that is written out": b'"\\\\ud800"',
    "a mark of UTF-8": b"\xef\xbb\xbf{}",
}


@pytest.mark.parametrize("name", MOST)
def test_as_much_as_is_allowed_is_read(name):
    assert read_json(MOST[name]) == json.loads(MOST[name].decode("utf-8-sig"))


def test_a_number_of_the_greatest_length_is_finite():
    assert float(read_json(b"9" * NUMBER_LENGTH_MAX)) < float("inf")


def test_nothing_is_an_empty_object_and_a_list_is_none():
    assert read_object(b" \n") == {}
    with pytest.raises(BadJson, match="must be an object"):
        read_object(b"[]")


@pytest.mark.parametrize("document", [{"a": ["\ud800"]}, {"a\0": 1}])
def test_what_another_reader_made_is_looked_through(document):
    with pytest.raises(BadJson):
        check_document(document)


def test_the_limits_are_counted_before_a_value_is_made(monkeypatch):
    """Eight megabytes of empty lists would be two hundred in memory."""
    monkeypatch.setattr(json_reader, "_parsed", None)
    with pytest.raises(BadJson, match="more than"):
        read_json(b"[" + b"[]," * 2_600_000 + b"[]]")
