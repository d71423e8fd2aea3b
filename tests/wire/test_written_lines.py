"""What programs write to Cloud Logging, as lines with their severities; nothing is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.wire.logging_v2.written import UnreadEntries, lines_of, lines_of_json

#: By entry: the lines that it is.
ENTRIES = [
    ({"textPayload": "one\ntwo", "severity": "WARNING"}, [("one", "WARNING"), ("two", "WARNING")]),
    ({"textPayload": "by number", "severity": 500}, [("by number", "ERROR")]),
    ({"textPayload": "beyond all", "severity": 9000}, [("beyond all", "CRITICAL")]),
    ({"textPayload": "below all", "severity": -1}, [("below all", "DEFAULT")]),
    ({"textPayload": "an odd one", "severity": "LOUD"}, [("an odd one", "INFO")]),
    ({"textPayload": "none"}, [("none", "INFO")]),
    ({"jsonPayload": {"message": "of logging"}, "severity": "info"}, [("of logging", "INFO")]),
    ({"jsonPayload": {"message": "m", "loss": 0.5}}, [('{"message": "m", "loss": 0.5}', "INFO")]),
    ({"jsonPayload": {"logging.googleapis.com/diagnostic": {}}}, []),
    ({"textPayload": 7}, []),
    ({"protoPayload": {}}, []),
    ("no entry", []),
]


@pytest.mark.parametrize(("entry", "lines"), ENTRIES)
def test_an_entry_is_the_lines_of_its_text(entry, lines):
    assert lines_of([entry]) == lines
    assert lines_of_json(json.dumps({"entries": [entry]}).encode()) == lines


@pytest.mark.parametrize("body", [b"[]", b'{"entries": {}}', b'{"entries": null}'])
def test_a_body_without_entries_is_no_line(body):
    assert lines_of_json(body) == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff"])
def test_a_body_that_is_no_json_is_refused(body):
    with pytest.raises(UnreadEntries, match="must be JSON"):
        lines_of_json(body)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(st.fixed_dictionaries({"textPayload": ANY, "jsonPayload": ANY, "severity": ANY})))
def test_whatever_comes_is_lines_and_no_error(entries):
    assert all("\n" not in line.text for line in lines_of(entries))
