"""What a patch of an ml v1 job may say (docs/sources/vertex.md 7)."""

import base64

import pytest

from trainshed.model.faults import Fault
from trainshed.model.refusals import Refusal
from trainshed.wire.ml_v1.parse import Patch, patch_of

ETAG = base64.b64encode(b"etag").decode()


@pytest.mark.parametrize(
    ("document", "mask", "patch"),
    [
        ({"labels": {"a": "b"}}, "labels", Patch(labels={"a": "b"})),
        ({"labels": {"a": "b"}, "etag": ETAG}, "", Patch(labels={"a": "b"}, etag=b"etag")),
        ({"labels": {"a": "b"}}, "etag", Patch()),
        ({"labels": None}, "labels", Patch(labels={})),
        ({"etag": ""}, "", Patch()),
    ],
)
def test_a_patch_is_labels_and_the_etag_that_they_depend_on(document, mask, patch):
    assert patch_of(document, mask) == patch


@pytest.mark.parametrize(
    ("document", "mask", "words"),
    [
        ([], "", "the body must be a JSON object"),
        ({"state": "FAILED"}, "", "state cannot be changed"),
        ({}, "labels,jobId", "jobId cannot be changed"),
    ],
)
def test_what_is_no_patch_is_refused(document, mask, words):
    with pytest.raises(Refusal, match=words):
        patch_of(document, mask)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"labels": "a"}, "labels must be an object"),
        ({"labels": {"a": 1}}, "a label must be a text"),
        ({"labels": {"A": "b"}}, "labels"),
        ({"etag": 1}, "etag"),
        ({"etag": "no base 64"}, "etag"),
    ],
)
def test_a_value_that_is_wrong_is_named(document, words):
    with pytest.raises(Fault) as caught:
        patch_of(document, "")
    assert words in str(caught.value.violations)
