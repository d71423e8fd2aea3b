"""Edits of a text: whatever its style, the edited text is the document with that one change."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.service.texts.document_paths import like, value_at, with_value
from trainshed.service.texts.edits import rename_key, set_value, set_values, wrap_spec
from trainshed.wire.documents import read_documents
from wire.test_text_nodes import DOCUMENTS, WRITERS, paths


def read(text):
    [document] = read_documents(text, "job")
    return document


def edited(text, path, value):
    document = read(text)
    edit = set_value(document, document.make_node(), path, value)
    return edit.apply(text) if edit else None


@settings(max_examples=60)
@given(content=DOCUMENTS, data=st.data())
def test_a_set_value_is_the_only_change_and_needs_no_certain_style(content, data):
    text = WRITERS[data.draw(st.sampled_from(sorted(WRITERS)))](content)
    path, old = data.draw(st.sampled_from(list(paths(content))))
    value = data.draw(st.sampled_from(["4", "NVIDIA_TESLA_T4", "yes", "a b: c", 7]))
    new = edited(text, path, value)
    if new is None:
        is_plain = "!!" not in text and "\n" not in str(old) and old is not None
        assert not is_plain or isinstance(old, dict | list) or path.endswith("]")
    else:
        assert read(new).content == with_value(content, path, value)
        assert value_at(read(new).content, path) == like(old, value)


@pytest.mark.parametrize(
    ("text", "path", "new"),
    [
        ("a:\n- b: x  # why\n  n: 3\n", "a[0].n", "a:\n- b: x  # why\n  n: 4\n"),
        ("a: '3'\n", "a", "a: '4'\n"),
        ("a: {count: 3, b: 1}\n", "a.count", "a: {count: 4, b: 1}\n"),
        ("# first\na: 1\n", "job", "# first\njob: 4\na: 1\n"),
        ("a:\n  - b: 1\n", "a[0].c.d", "a:\n  - c:\n      d: 4\n    b: 1\n"),
        ("a: {b: 1}\n", "a.c", "a: {c: 4, b: 1}\n"),
        ('{"a": 1}', "c", '{"c": 4, "a": 1}'),
        ('{\n  "a": 1\n}', "c.d", '{\n  "c": {"d": 4},\n  "a": 1\n}'),
    ],
)  # fmt: skip
def test_comments_quotes_and_indentation_stay(text, path, new):
    assert edited(text, path, "4") == new


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("x: &x {count: 3}\na: *x\n", "a.count"),
        ("x: &x {count: 3}\na: {<<: *x}\n", "a.count"),
        ("a: |\n  3\n", "a"),
        ("a: []\n", "a[0]"),
        ("a: [1, 2]\n", "a[1]"),
        ("a: &x 3\nb: *x\n", "b"),
        ("a: {}\n", "a.b"),
    ],
)
def test_what_is_not_certain_has_no_edit(text, path):
    assert edited(text, path, "4") is None


@pytest.mark.parametrize(
    ("text", "path", "new"),
    [
        ("a:\n  wrkCount: 1\n", "a.wrkCount", "a:\n  workerCount: 1\n"),
        ('{"a": {"wrkCount": 1}}', "a.wrkCount", '{"a": {"workerCount": 1}}'),
        ("a: {'wrkCount': 1}\n", "a.wrkCount", "a: {'workerCount': 1}\n"),
    ],
)
def test_a_key_is_renamed_where_it_is(text, path, new):
    document = read(text)
    assert rename_key(document, document.make_node(), path, "workerCount").apply(text) == new


def test_a_key_gets_no_name_that_is_taken():
    document = read("wrkCount: 1\nworkerCount: 2\n")
    assert rename_key(document, document.make_node(), "wrkCount", "workerCount") is None


@pytest.mark.parametrize("write", [yaml.safe_dump, json.dumps, lambda v: json.dumps(v, indent=1)])
def test_a_spec_becomes_a_job(write):
    spec = {"workerPoolSpecs": [{"replicaCount": 1, "containerSpec": {"args": ["a\n\nb"]}}]}
    text = write(spec)
    wrapped = read(wrap_spec(read(text), "my-job").apply(text)).content
    assert wrapped == {"displayName": "my-job", "jobSpec": spec}


def test_several_values_are_one_edit():
    text = "a: 1\nm:\n  t: x\n  n: 3\nz: 1\n"
    edit = set_values(read(text), {"m.t": "NVIDIA_L4", "m.c": "2"})
    assert read(edit.apply(text)).content["m"] == {"c": 2, "t": "NVIDIA_L4", "n": 3}
    assert "z" not in edit.text
    assert set_values(read(text), {"m.t": "x", "m[0]": "2"}) is None
