"""Fields of ours that an API's answer lacks are named; fields that others add are not."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.kubernetes_requests import N1_STANDARD_8_T4, make_request
from trainshed.engines.kubernetes.manifest import compose_jobset
from trainshed.engines.kubernetes.options import PodScheduling
from trainshed.engines.kubernetes.read_back import list_missing_fields
from trainshed.model.roles import Role

QUEUED = PodScheduling(queue="gpus")


def make_jobset():
    roles = ((Role.PRIMARY, 1, N1_STANDARD_8_T4), (Role.WORKER, 3, N1_STANDARD_8_T4))
    settings = {"tolerations": [{"key": "pool", "value": "a"}, {"key": "pool", "value": "b"}]}
    return compose_jobset(make_request(*roles, settings=settings, scheduling=QUEUED))


def list_paths(value, path=()):
    """The paths of all values in a tree, the tree itself left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        yield (*path, key)
        if isinstance(below, dict | list):
            yield from list_paths(below, (*path, key))


def add_fields_of_others(jobset):
    """What the API, JobSet's webhook and Kueue add, as recorded (and an injected container)."""
    answer = copy.deepcopy(jobset)
    answer["metadata"] |= {"uid": "u", "resourceVersion": "406", "generation": 1}
    answer["metadata"]["labels"]["kueue.x-k8s.io/multikueue"] = "no"
    answer["spec"]["startupPolicy"] = {"startupPolicyOrder": "AnyOrder"}
    answer["spec"]["failurePolicy"]["restartStrategy"] = "Recreate"
    for job in answer["spec"]["replicatedJobs"]:
        job["groupName"] = "default"
        pod = job["template"]["spec"]["template"]["spec"]
        pod["nodeSelector"]["cloud.google.com/gke-spot"] = "true"
        pod["tolerations"].insert(0, {"key": "spot", "operator": "Exists"})
        pod["containers"].insert(0, {"name": "injected", "image": "i"})
        pod["volumes"].append({"name": "certificates", "emptyDir": {}})
    return answer


def test_an_unchanged_answer_lacks_nothing():
    assert list_missing_fields(make_jobset(), make_jobset()) == ()


def test_fields_that_others_add_are_no_difference():
    jobset = make_jobset()
    assert list_missing_fields(jobset, add_fields_of_others(jobset)) == ()


def test_quantities_are_compared_by_value():
    jobset = make_jobset()
    answer = copy.deepcopy(jobset)
    for job in answer["spec"]["replicatedJobs"]:
        main = job["template"]["spec"]["template"]["spec"]["containers"][0]
        main["resources"]["limits"] = {"nvidia.com/gpu": 2, "memory": "30Gi"}
        main["resources"]["requests"]["cpu"] = "8000m"
    assert list_missing_fields(jobset, answer) == ()
    main["resources"]["limits"]["memory"] = "29Gi"
    [missing] = list_missing_fields(jobset, answer)
    assert missing.text == (
        "spec.replicatedJobs[worker].template.spec.template.spec.containers[main].resources"
        ".limits.memory: sent '30720Mi', got '29Gi'"
    )


def test_other_texts_that_look_like_quantities_are_compared_as_texts():
    assert list_missing_fields({"labels": {"a": "1k"}}, {"labels": {"a": "1000"}})


A1, A2 = {"name": "A", "value": "1"}, {"name": "A", "value": "2"}
ALL = {"operator": "Exists"}


@pytest.mark.parametrize(
    ("sent", "answered", "text"),
    [
        ({"spec": {"suspend": True}}, {"spec": {}}, "spec.suspend: sent True, got nothing"),
        ({"suspend": True}, {"suspend": False}, "suspend: sent True, got False"),
        ({"n": 0}, {"n": False}, "n: sent 0, got False"),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}, "args: sent ['a', 'b'], got ['b', 'a']"),
        ({"env": [A1]}, {"env": []}, f"env[A]: sent {A1}, got nothing"),
        ({"env": [A1]}, {"env": [A2]}, "env[A].value: sent '1', got '2'"),
        ({"labels": {"a.b/c": "1"}}, {"labels": {}}, "labels['a.b/c']: sent '1', got nothing"),
        ({"rows": [ALL]}, {"rows": []}, f"rows[0]: sent {ALL}, got nothing"),
        ({"spec": {"a": {}}}, {"spec": None}, "spec: sent {'a': {}}, got nothing"),
    ],
)
def test_a_missing_field_is_named_with_its_values(sent, answered, text):
    assert [missing.text for missing in list_missing_fields(sent, answered)] == [text]


def test_long_values_are_shortened():
    [missing] = list_missing_fields({"a": "x" * 1000}, {})
    assert len(missing.text) < 130


@given(st.sampled_from(list(list_paths(make_jobset()))))
def test_every_field_that_an_api_drops_is_noticed(path):
    jobset = make_jobset()
    answer = copy.deepcopy(jobset)
    value = answer
    for key in path[:-1]:
        value = value[key]
    del value[path[-1]]
    assert list_missing_fields(jobset, answer)
