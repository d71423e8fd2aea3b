"""Names of enums: ml v1 reads them whatever their case, as Google did; Vertex AI does not."""

import pytest

from trainshed.wire.fields import table
from trainshed.wire.jsonmap import read

ML, VERTEX = table("ml_v1"), table("aiplatform_v1")

#: Every field of an enum that a request of the dialect may have: its message, key and the enum.
FIELDS = {
    name: [
        (message.name, field.json_name, field.type)
        for message in fields_table.messages.values()
        for field in message.fields
        if field.kind in ("enum", "open enum") and not field.refused and not field.is_output
    ]
    for name, fields_table in (("ml", ML), ("vertex", VERTEX))
}
SPELLINGS = [str.lower, str.title, lambda name: name.lower().replace("_", "-")]


def test_the_fields_that_public_files_write_in_lower_case_are_among_them():
    names = {name for _, name, _ in FIELDS["ml"]}
    assert {"scaleTier", "type", "goal", "algorithm", "scaleType"} <= names


@pytest.mark.parametrize(("message", "field", "enum"), FIELDS["ml"])
@pytest.mark.parametrize("spell", SPELLINGS)
def test_ml_v1_reads_every_name_of_every_enum_in_any_case(message, field, enum, spell):
    for name in ML.enums[enum].names:
        reading = read(ML, message, {field: spell(name)})
        assert reading.violations == ()
        assert reading.value == {field: name}
        written = spell(name)
        notes = [(note.field, note.message) for note in reading.notes]
        assert notes == ([] if written == name else [(field, f"{written!r} was read as {name}")])


@pytest.mark.parametrize(("message", "field", "enum"), FIELDS["vertex"])
def test_vertex_refuses_a_name_in_lower_case_with_the_right_one(message, field, enum):
    info = next(f for f in VERTEX.messages[message].fields if f.json_name == field)
    for name in VERTEX.enums[enum].names:
        reading = read(VERTEX, message, {field: name.lower()})
        assert reading.notes == ()
        if info.kind == "enum":
            assert [v.rule for v in reading.violations] == ["unknown-value"]
            assert name.endswith("UNSPECIFIED") or name in reading.violations[0].message
        else:
            assert reading.value == {field: name.lower()}  # the catalog refuses it


@pytest.mark.parametrize("text", ["basic gpu", "BASICGPU", "custom_", "", "STANDARD 1"])
def test_another_word_than_a_name_stays_refused(text):
    [violation] = read(ML, "TrainingInput", {"scaleTier": text}).violations
    assert violation.rule == "unknown-value"


def test_an_accelerator_of_the_users_own_keeps_its_name():
    reading = read(ML, "AcceleratorConfig", {"type": "our_card"})
    assert (reading.value, reading.notes) == ({"type": "our_card"}, ())


@pytest.mark.parametrize(
    ("message", "field", "text", "meant"),
    [
        ("ParameterSpec", "scaleType", "log", "UNIT_LOG_SCALE"),
        ("ParameterSpec", "scaleType", "LINEAR", "UNIT_LINEAR_SCALE"),
        ("ParameterSpec", "type", "INT", "INTEGER"),
        ("HyperparameterSpec", "goal", "max", "MAXIMIZE"),
        ("HyperparameterSpec", "goal", "MINIMISE", "MINIMIZE"),
        ("HyperparameterSpec", "algorithm", "random", "RANDOM_SEARCH"),
        ("TrainingInput", "scaleTier", "gpu", "BASIC_GPU"),
        ("TrainingInput", "scaleTier", "STANDARD1", "STANDARD_1"),
    ],
)
def test_a_near_miss_is_answered_with_the_name(message, field, text, meant):
    [violation] = read(ML, message, {field: text}).violations
    assert violation.message.endswith(f"; did you mean {meant}?")
