"""Where values are in a text: each path leads to the characters that were written for it."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.wire.documents import read_documents
from trainshed.wire.text_nodes import Lines, locate
from trainshed.wire.yaml_text import yaml_of

KEYS = st.from_regex(r"[a-z][a-zA-Z_]{0,8}", fullmatch=True)
SCALARS = st.one_of(
    st.booleans(), st.none(), st.integers(-(10**9), 10**9), st.text(max_size=20), KEYS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)
#: What a key such as ``yes`` is as a value.
WORDS = (True, False, None)
DOCUMENTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)

WRITERS = {
    "json": json.dumps,
    "indented": lambda value: json.dumps(value, indent="\t"),
    "unicode": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    "block": lambda value: yaml.safe_dump(value, allow_unicode=True),
    "narrow": lambda value: yaml.safe_dump(value, width=10, indent=4),
    "flow": lambda value: yaml.safe_dump(value, default_flow_style=True),
    "quoted": lambda value: yaml.safe_dump(value, default_style="'"),
    "ours": yaml_of,
}


def paths(value, path=""):
    """(path, value) of everything in a document."""
    if isinstance(value, dict):
        members = [(f"{path}.{key}" if path else key, inner) for key, inner in value.items()]
    else:
        members = [(f"{path}[{i}]", inner) for i, inner in enumerate(value)]
    for name, inner in members:
        yield name, inner
        if isinstance(inner, dict | list):
            yield from paths(inner, name)


def read(text, source="job"):
    [document] = read_documents(text, source)
    return document


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=40)
@given(content=DOCUMENTS)
def test_each_path_leads_to_the_text_of_its_value(writer, content):
    text = WRITERS[writer](content)
    parse = json.loads if text.startswith("{") and writer != "flow" else yaml.safe_load
    document = read(text)
    assert document.content == content
    root = document.make_node()
    for path, value in paths(content):
        located = locate(root, path)
        assert not located.rest, path
        span = located.entry.value.span
        column = span.start - (text.rfind("\n", 0, span.start) + 1)
        written = " " * column + text[span.start : span.end]
        assert parse(written) == value, path
        if located.entry.key_span:
            key = text[located.entry.key_span.start : located.entry.key_span.end]
            assert parse(key) in {located.entry.key, *WORDS}


def test_a_path_that_the_document_does_not_have_leads_to_the_nearest_one_above():
    root = read("a:\n  b:\n  - c: 1\n").make_node()
    for path, key, rest in [
        ("a.b[0].c", "c", ""),
        ("a.b[0].d.e", 0, "d.e"),
        ("a.b[1].c", "b", "[1].c"),
        ("a.x", "a", "x"),
    ]:
        located = locate(root, path)
        assert (located.entry.key, located.rest) == (key, rest)
    assert locate(root, "nothing").entry is None


def test_a_name_with_dots_is_one_step():
    root = read("labels: {a.b: 1, a: {b: 2}}\nlabels.a: 3\n").make_node()
    assert locate(root, "labels.a.b").entry.key == "a.b"
    assert locate(root, "labels.a").entry.key == "labels.a"


def test_a_merged_value_is_where_its_anchor_is():
    text = "base: &base {count: 3, type: T4}\nworker:\n  <<: *base\n  type: V100\n"
    root = read(text).make_node()
    for path, written in [("worker.count", "3"), ("worker.type", "V100"), ("base.type", "T4")]:
        span = locate(root, path).entry.value.span
        assert text[span.start : span.end] == written


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_in_every_editor(end):
    """YAML counts U+0085 and U+2028 as line ends too, and no page does."""
    text = end.join(['b: "one \u2028 still \u0085 one"', "a: 2", "", "c: 3"])
    lines = Lines(text)
    span = locate(read(text).make_node(), "c").entry.value.span
    assert lines.position(span.start) == (4, 4)
    assert lines.offset(lines.position(span.start)) == span.start
