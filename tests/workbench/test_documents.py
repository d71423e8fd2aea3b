import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.catalog.open import read_overlay
from trainshed.model.faults import UsageFault
from trainshed.wire.yaml_documents import load_all
from trainshed.workbench.documents import BYTES_MAX, read, read_one
from trainshed.workbench.results import metrics_of

ALIASES_BELOW_EACH_OTHER = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 5000)
)
#: Merging copies: the last of these would be a billion keys while it is built.
MERGES_OF_MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 30)
)


def written(tmp_path, text, name="job.yaml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\n  b: 2\n", "line 2, column 4"),
        ("a:\n  - x\n - y\n", "line 3, column 2"),
        ("a: [1, 2\nb: 3\n", "line 2, column 2"),
        ("a:\n\tb: 1\n", "line 2, column 1"),
        ('a: "never closed\n', "line 2, column 1"),
    ],
)
def test_broken_yaml_is_told_with_line_and_column(tmp_path, text, place):
    with pytest.raises(UsageFault, match=rf"job\.yaml: {place}: broken YAML"):
        read(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a: b\n\u00a0\u00a0c: d\n", "has a no-break space: write plain spaces"),
        ("a: {{ region }}\n", "is a template: put the value in its place"),
        ('{\n// a job\n"a": {}}', "a comment begins with #"),
        ("a: *b\n", "put a value that begins with \\* or & in quotes"),
        ("a:\n  region:eu\n  tier: x\n", "write a space after region:"),
    ],
)
def test_a_common_mistake_is_told_with_what_to_write_instead(tmp_path, text, advice):
    with pytest.raises(UsageFault, match=advice):
        read(written(tmp_path, text))


def test_json_that_is_nested_without_end_is_refused(tmp_path):
    with pytest.raises(UsageFault, match="nested too deeply"):
        read(written(tmp_path, '{"a":' + "[" * 200_000, "job.json"))


def test_what_is_as_deep_as_may_be_is_read(tmp_path):
    text = '{"a":' + "[" * 99 + "]" * 99 + "}"
    [content] = load_all(text, "x")
    assert read_one(written(tmp_path, text, "job.json")).content == content


@pytest.mark.parametrize("levels", [100, 101, 500, 5000, 200_000])
def test_whatever_its_format_a_deep_file_is_refused_in_a_sentence(tmp_path, levels):
    path = Path(written(tmp_path, '{"a":' + "[" * levels + "]" * levels + "}", "result.json"))
    with pytest.raises(UsageFault, match="nested too deeply, over 100 levels"):
        read(str(path))
    assert metrics_of(tmp_path, since=0) == {}
    path.write_text("a = " + "[" * levels + "]" * levels)
    with suppress(UsageFault):
        assert read_overlay(path)


def test_broken_json_is_told_with_line_and_column(tmp_path):
    with pytest.raises(UsageFault, match="line 2, column 10: broken JSON"):
        read(written(tmp_path, '{\n  "a": 1,,\n}', "job.json"))


@pytest.mark.parametrize("name", ["job.yaml", "job.json"])
def test_a_key_that_is_there_twice_is_an_error(tmp_path, name):
    with pytest.raises(UsageFault, match="'a' is given twice"):
        read(written(tmp_path, '{"a": 1, "a": 2}', name))


def test_one_file_may_hold_several_documents_and_empty_ones_do_not_count(tmp_path):
    documents = read(written(tmp_path, "a: 1\n---\n---\nb: 2\n"))
    assert [d.content for d in documents] == [{"a": 1}, {"b": 2}]
    with pytest.raises(UsageFault, match="must have one document, got 2"):
        read_one(written(tmp_path, "a: 1\n---\nb: 2\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("- a\n- b\n", "must be a mapping of fields, got a list"),
        ("just words\n", "must be a mapping of fields, got a single value"),
        (b"a: \xff\xfe\n", "not UTF-8"),
        ("? [a, b]\n: 1\n", "a key must be a single word"),
        ("a: &x [*x]\n", "an anchor contains itself"),
        ("a: \x01\n", "broken YAML"),
        ("a: !!python/object/apply:os.system [ls]\n", "line 1, column 4: broken YAML"),
        ("a: " + "[" * 200_000, "line 1, column 103: broken YAML: nested deeper than 100"),
        ("- " * 200_000, "nested deeper than 100"),
        ("a: 0b_\n", "broken YAML"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested deeper than 100"),
        ("a: " + "{b: " * 5000 + "1" + "}" * 5000, "nested deeper than 100"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "nested deeper than 100"),
        ("\n".join(" " * level + "a:" for level in range(500)), "nested deeper than 100"),
        (ALIASES_BELOW_EACH_OTHER, "nested deeper than 100"),
        (MERGES_OF_MERGES, "aliases expand to over"),
        ("a: &a {<<: *a, b: 1}\n", "an anchor contains itself"),
        (" " * (BYTES_MAX + 1), "larger than 8388608 bytes"),
    ],
)
def test_what_is_no_job_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(UsageFault, match=message) as caught:
        read(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_folder_and_a_broken_link_are_told_apart(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    for name, reason in [("absent", "No such file"), ("", "Is a dir"), ("link", "No such file")]:
        with pytest.raises(UsageFault, match=rf"cannot read .*: {reason}"):
            read(str(tmp_path / name))


def test_a_file_that_may_not_be_read_is_told_so(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(UsageFault, match=r"cannot read .*job\.yaml: no permission"):
        read(str(tmp_path / "job.yaml"))


def test_yaml_is_read_as_the_json_it_stands_for(tmp_path):
    content = read_one(written(tmp_path, "day: 2020-01-02\n1: one\non: off\nv: 2.5\n")).content
    assert content == {"day": "2020-01-02", "1": "one", "on": False, "v": 2.5}


def test_merge_keys_of_yaml_work(tmp_path):
    text = "base: &b {type: x, count: 1}\nown:\n  <<: *b\n  count: 2\n"
    assert read_one(written(tmp_path, text)).content["own"] == {"type": "x", "count": 2}


def test_json_in_a_yaml_file_and_a_byte_order_mark_are_read(tmp_path):
    assert read_one(written(tmp_path, b'\xef\xbb\xbf{"a": [1]}')).content == {"a": [1]}
    assert read_one(written(tmp_path, "{a: [1]}")).content == {"a": [1]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc -_", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcd", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abcd", min_size=1), JSON, min_size=1))
def test_any_json_object_reads_the_same_as_yaml(content):
    assert list(load_all(json.dumps(content), "x")) == [content]


@given(st.text())
def test_any_text_is_read_or_refused_as_a_usage_fault(text):
    with suppress(UsageFault):
        list(load_all(text, "x"))


def test_aliases_that_expand_to_a_flood_are_refused_at_once(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(UsageFault, match="aliases expand to over"):
        read(str(path))


def test_aliases_as_people_use_them_are_fine(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("workerPoolSpecs: [&pool {replicaCount: 1}, *pool, *pool]\n")
    pool = {"replicaCount": 1}
    assert read(str(path))[0].content == {"workerPoolSpecs": [pool, pool, pool]}
