"""No field of a training message is passed over in silence."""

import importlib.util
from pathlib import Path

import pytest
from coverage_rows import EVERY, FieldStatus, Row, coverage, row_of

from golden import check_golden
from trainshed.wire.detect import parse
from trainshed.wire.fields import table
from trainshed.wire.jsonmap import read

ROOT = Path(__file__).parent.parent.parent
DIALECTS = ("ml_v1", "aiplatform_v1")
FIELDS = [
    (dialect, message, field)
    for dialect in DIALECTS
    for message in table(dialect).messages.values()
    for field in message.fields
]
#: A value of each kind that a refused field of a whole message may have.
VALUE = {
    "message": {},
    "struct": {},
    "string": "x",
    "int64": 1,
    "double": 1,
    "enum": 1,
    "bool": True,
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_field_has_a_row(dialect):
    rows = coverage(dialect)
    gaps = [
        f"{m.name}.{f.json_name}"
        for d, m, f in FIELDS
        if d == dialect and row_of(rows, m.name, f.json_name) is None
    ]
    assert gaps == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_row_has_its_field(dialect):
    messages = table(dialect).messages
    stale = [
        f"{message}.{name}"
        for message, rows in coverage(dialect).items()
        for name in rows
        if message not in messages
        or (name != EVERY and name not in {f.json_name for f in messages[message].fields})
    ]
    assert stale == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_not_honoured_says_why(dialect):
    for message, rows in coverage(dialect).items():
        for name, row in rows.items():
            assert row.status is FieldStatus.HONOURED or row.sentence.endswith("."), (message, name)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_message_is_passed_over_only_behind_a_field_that_is(dialect):
    """A ``*`` row never hides a message that something else looks into."""
    rows, messages = coverage(dialect), table(dialect).messages
    whole = {name for name, row_names in rows.items() if EVERY in row_names}
    for message in messages.values():
        for field in message.fields:
            if field.type in whole:
                row = row_of(rows, message.name, field.json_name)
                assert row.status is not FieldStatus.HONOURED, f"{message.name}.{field.json_name}"


@pytest.mark.parametrize(
    ("dialect", "message", "field"),
    [case for case in FIELDS if case[2].refused],
    ids=lambda value: getattr(value, "json_name", getattr(value, "name", value)),
)
def test_a_refused_field_is_refused(dialect, message, field):
    value = VALUE[field.kind]
    document = {field.json_name: [value] if field.is_repeated else value}
    [violation] = read(table(dialect), message.name, document).violations
    assert (violation.rule, violation.field) == ("unsupported-field", field.json_name)
    row = row_of(coverage(dialect), message.name, field.json_name)
    assert row.status is FieldStatus.REFUSED
    assert violation.message == row.sentence


def test_the_refusals_that_matter_are_made():
    violations = [
        *parse({"jobId": "p", "predictionInput": {}, "explanationInput": {}}).violations,
        *parse({"trainingInput": {"nasJobSpec": {"a": 1}}}).violations,
        *parse({"trainingTaskInputs": {}, "inputDataConfig": {"datasetId": "1"}}).violations,
    ]
    assert [v.field for v in violations] == [
        "predictionInput",
        "explanationInput",
        "trainingInput.nasJobSpec",
        "inputDataConfig",
    ]
    assert {v.rule for v in violations} == {"unsupported-field"}


def test_a_row_of_another_form_is_an_error():
    for text in ("ignored: It is not.", "noted twice: It is not.", ""):
        with pytest.raises(ValueError, match=r"status|Status|row"):
            Row.read(text)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_page_of_a_dialect_is_current(dialect):
    path = ROOT / "scripts/gen_compatibility.py"
    spec = importlib.util.spec_from_file_location("gen_compatibility", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check_golden(ROOT / f"docs/compatibility/{dialect}.md", module.page(dialect))
