"""The objects of attempts by their attempt: what the index keeps, and what it forgets."""

import pytest

from trainshed.engines.kubernetes import names
from trainshed.engines.kubernetes.api.objects import ObjectChange
from trainshed.engines.kubernetes.objects import EVENT, JOBSET, ObjectIndex
from trainshed.model.attempt import AttemptKey

INSTALLATION = "inst"


def make_jobset(key):
    labels = names.labels_of(INSTALLATION, key)
    return {"metadata": {"name": names.name_of(INSTALLATION, key), "labels": labels}}


@pytest.fixture
def index():
    return ObjectIndex(INSTALLATION)


def test_nothing_is_kept_of_an_attempt_without_objects(index):
    sizes = []
    for uid in range(3):
        key = AttemptKey(uid, 1)
        event = {"involvedObject": {"name": names.name_of(INSTALLATION, key)}}
        objects = ((JOBSET, make_jobset(key)), (EVENT, event))
        for is_deleted in (False, True):
            for kind, value in objects:
                assert index.update(kind, [ObjectChange(kind, value, is_deleted)]) == {key}
        assert index.version(key) == 0
        sizes.append(len(index._versions))
    assert sizes == [0, 0, 0]


def test_a_version_does_not_return(index):
    key = AttemptKey(7, 1)
    versions = [index.version(key)]
    for is_deleted in (False, False, True, False):
        index.update(JOBSET, [ObjectChange("uid-7", make_jobset(key), is_deleted)])
        versions.append(index.version(key))
    assert versions[3] == versions[0] == 0
    assert len({*versions}) == len(versions) - 1
