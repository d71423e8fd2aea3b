"""Names and labels of an attempt's objects lead back to the attempt, and to no other."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.kubernetes import names
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.roles import Role

DNS_1035 = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
KEYS = st.builds(AttemptKey, st.integers(0, 2**62), st.integers(1, 99))
INSTALLATIONS = st.from_regex(re.compile(r"[a-z0-9]{1,8}"), fullmatch=True)
ROLES = st.sampled_from(list(Role))


@given(INSTALLATIONS, KEYS)
def test_a_name_is_accepted_by_kubernetes_and_leads_back_to_its_attempt(installation, key):
    name = names.name_of(installation, key)
    assert DNS_1035.fullmatch(name)
    assert len(name) <= names.NAME_MAX
    assert names.key_of_name(name, installation) == key


@given(INSTALLATIONS, KEYS, ROLES, st.integers(0, 9))
def test_the_names_of_jobs_and_pods_lead_to_the_attempt(installation, key, role, index):
    name = names.name_of(installation, key)
    host = names.host_of(name, role, index)
    assert len(f"{host}-x2q6m") <= 63
    assert names.key_of_name(f"{name}-{names.JOB_NAMES[role]}-0", installation) == key
    assert names.key_of_name(f"{host}-x2q6m", installation) == key
    assert names.dns_name_of(name, role, index) == f"{host}.{name}"


@given(INSTALLATIONS, KEYS, INSTALLATIONS, KEYS)
def test_different_attempts_have_different_names(installation, key, other, other_key):
    is_same = names.name_of(installation, key) == names.name_of(other, other_key)
    assert is_same == ((installation, key) == (other, other_key))


@given(INSTALLATIONS, KEYS, st.none() | ROLES)
def test_labels_lead_back_to_the_attempt_and_its_role(installation, key, role):
    labels = names.labels_of(installation, key, role)
    assert all(LABEL_VALUE.fullmatch(value) for value in labels.values())
    assert names.key_of(labels, installation) == key
    assert names.role_of(labels) is role
    assert labels["app.kubernetes.io/managed-by"] == "trainshed"


@given(INSTALLATIONS, INSTALLATIONS, KEYS)
def test_objects_of_another_installation_are_of_no_attempt(installation, other, key):
    labels = names.labels_of(installation, key)
    expected = key if installation == other else None
    assert names.key_of(labels, other) == expected
    assert names.key_of_name(names.name_of(installation, key), other) == expected


@given(st.text(max_size=60), INSTALLATIONS)
def test_any_text_may_be_the_name_of_an_object(name, installation):
    key = names.key_of_name(name, installation)
    assert key is None or name.startswith(f"ts-{installation}-")


@given(st.dictionaries(st.sampled_from([names.JOB, names.ATTEMPT]), st.text(max_size=25)))
def test_labels_that_others_wrote_are_read_or_ignored(labels):
    key = names.key_of({**labels, names.INSTALLATION: "abc"}, "abc")
    if key is not None:
        assert names.labels_of("abc", key).items() >= labels.items()


@pytest.mark.parametrize(
    "name",
    [
        "ts-abc-7",
        "ts-abc-7-",
        "ts-abc-07-1",
        "ts-abc-7-01",
        "xts-abc-7-1",
        "ts-abc-7-1x",
        "ts-abc-\u0667-1",
    ],
)
def test_other_names_are_of_no_attempt(name):
    assert names.key_of_name(name, "abc") is None


def test_every_role_has_a_job_of_its_own():
    assert set(names.JOB_NAMES) == set(Role)
    assert len(set(names.JOB_NAMES.values())) == len(Role)


def test_the_selector_of_an_installation_and_of_an_attempt():
    assert names.selector_of("abc") == "trainshed.dev/installation=abc"
    assert names.selector_of("abc", AttemptKey(7, 2)) == (
        "trainshed.dev/installation=abc,trainshed.dev/job=7,trainshed.dev/attempt=2"
    )


@pytest.mark.parametrize("installation", ["", "A", "a-b", "a" * 33, "ä"])
def test_an_installation_that_names_cannot_contain_is_refused(installation):
    with pytest.raises(UsageFault, match="must be 1 to 32 characters of a-z and 0-9"):
        names.name_of(installation, AttemptKey(7, 1))


def test_a_name_that_is_too_long_is_refused_and_says_by_how_much():
    key = AttemptKey(4611686018427387904, 1)
    assert len(names.name_of("a" * 18, key)) == names.NAME_MAX
    with pytest.raises(EngineFault) as caught:
        names.name_of("a" * 32, key)
    assert "at most 43 characters, got 57" in str(caught.value)
    assert "shorter by 14" in str(caught.value)


@pytest.mark.parametrize(
    ("role", "count_max"),
    [(Role.WORKER, 10_000), (Role.REDUCER, 1000), (Role.EVALUATOR, 10)],
)
def test_a_role_has_as_many_replicas_as_names_of_pods_have_digits(role, count_max):
    name = "x" * names.NAME_MAX
    names.check_replica_names(name, role, count_max)
    with pytest.raises(EngineFault, match=f"at most {count_max} replicas of the role {role.value}"):
        names.check_replica_names(name, role, count_max + 1)
