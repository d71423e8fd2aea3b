"""Any document that a message of a dialect's table allows, as a Hypothesis strategy."""

from hypothesis import strategies as st

from trainshed.wire.fields import table

WORDS = st.text("abcdefgh-_./:0123456789", max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
VALUES = {
    "string": WORDS,
    "loose text": WORDS,
    "bytes": st.sampled_from(["", "AAAA", "eHl6"]),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1).map(str) | st.integers(0, 9),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "duration": st.sampled_from(["0s", "3600s", "3.5s", "0.000000001s"]),
    "timestamp": st.sampled_from(["2026-11-21T00:02:39Z", "2026-11-21T00:02:39.123+01:00"]),
    "struct": st.dictionaries(WORDS, JSON, max_size=2),
    "list": st.lists(JSON, max_size=2),
    "value": JSON.filter(lambda value: value is not None),
}


def documents(dialect, message, depth=4):
    """Documents of a message: every usable field is there or not, one member of each oneof."""
    info = table(dialect).messages[message]
    fields = [f for f in info.fields if not f.refused and not f.is_output]
    if depth == 0:
        fields = [f for f in fields if f.kind not in ("message", "map")]
    optional = {f.json_name: values(dialect, f, depth) for f in fields}
    return st.fixed_dictionaries({}, optional=optional).map(lambda d: one_of_each(info, d))


def one_of_each(info, document):
    for members in info.oneofs.values():
        for other in [name for name in members if name in document][1:]:
            del document[other]
    return document


def values(dialect, field, depth):
    one = single(dialect, field, depth)
    return st.lists(one, max_size=3) if field.is_repeated else one


def single(dialect, field, depth):
    if field.kind in ("enum", "open enum"):
        return st.sampled_from(table(dialect).enums[field.type].names)
    if field.kind == "map":
        inner = single(dialect, field.value, depth)
        return st.dictionaries(WORDS, inner, max_size=2)
    if field.kind == "message":
        return st.deferred(lambda: documents(dialect, field.type, depth - 1))
    return VALUES[field.kind]
