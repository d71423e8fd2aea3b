"""How many fields a message has is known before any of them is made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.wire.descriptors import message_class
from trainshed.wire.field_count import holds_more

REQUEST = message_class("google.cloud.aiplatform.v1.CreateCustomJobRequest")
#: A field of each wire type that no message here knows: varint, 8 bytes, text, group, 4 bytes.
UNKNOWN = {
    "varint": b"\xf8\x07\x96\x01",
    "64 bits": b"\xf9\x07" + bytes(8),
    "text": b"\xfa\x07\x03abc",
    "group": b"\xfb\x07\xfc\x07",
    "32 bits": b"\xfd\x07" + bytes(4),
}


def pools(count):
    request = REQUEST()
    for _ in range(count):
        request.custom_job.job_spec.worker_pool_specs.add()
    return request


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_fields_inside_others_count(count):
    data = pools(count).SerializeToString()
    around = 2 if count else 0  # custom_job and job_spec
    assert holds_more(data, REQUEST.DESCRIPTOR, max(count + around - 1, 0)) == bool(count)
    assert not holds_more(data, REQUEST.DESCRIPTOR, count + around)


@pytest.mark.parametrize("data", UNKNOWN.values(), ids=UNKNOWN)
def test_a_field_that_nobody_knows_counts_and_is_not_looked_into(data):
    many = data * 50
    assert holds_more(many, REQUEST.DESCRIPTOR, 49 if len(data) > 4 else 40)
    assert not holds_more(many, REQUEST.DESCRIPTOR, 100)


def test_a_long_text_is_one_field():
    request = REQUEST(parent="p" * 100_000)
    assert not holds_more(request.SerializeToString(), REQUEST.DESCRIPTOR, 1)


def test_numbers_that_are_packed_count():
    kind = message_class("google.cloud.aiplatform.v1.StudySpec.ParameterSpec.DiscreteValueSpec")
    data = kind(values=range(1000)).SerializeToString()
    assert holds_more(data, kind.DESCRIPTOR, 1000)
    assert not holds_more(data, kind.DESCRIPTOR, 1001)


@given(st.binary(max_size=80))
def test_whatever_bytes_come_their_fields_can_be_counted(data):
    holds_more(data * 3, REQUEST.DESCRIPTOR, 3)
