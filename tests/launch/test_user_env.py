"""The user's own variables: last, expanded, checked (docs/sources/vertex.md 8)."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.builders import container, plan_of, replica_of, vertex_spec
from trainshed.launch.user_env import expand_references
from trainshed.model.faults import Fault, Field, FieldPath
from trainshed.model.roles import Role

NAMES = st.from_regex(re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,5}", re.ASCII), fullmatch=True)
#: Text that is rich in the characters that matter here.
TEXTS = st.lists(st.one_of(st.sampled_from(["$", "(", ")", "A", "B", "$(A)"]), NAMES)).map("".join)


def env_of(*variables, **changes):
    return plan_of(vertex_spec(program=container(env=variables)), **changes).primary.env


def test_variables_are_set_in_their_order_after_the_services():
    env = env_of(("B", "1"), ("A", "2"))
    assert list(env)[-2:] == ["B", "A"]


def test_a_reference_is_to_an_earlier_variable_of_the_user():
    env = env_of(("A", "x"), ("B", "$(A)/$(A)"), ("C", "$(B)!"))
    assert env["B"] == "x/x"
    assert env["C"] == "x/x!"


def test_a_reference_to_a_later_variable_is_left_as_it_is():
    assert env_of(("A", "$(B)"), ("B", "x"))["A"] == "$(B)"


def test_a_reference_is_to_a_variable_of_the_service_too():
    env = env_of(("OUT", "$(AIP_MODEL_DIR)best"), ("ME", "$(CLOUD_ML_JOB_ID)"))
    assert env["OUT"] == "gs://bkt/out/digits/model/best"
    assert env["ME"] == "digits_7"


def test_a_doubled_dollar_escapes():
    assert env_of(("A", "x"), ("B", "$$(A) $(A)"))["B"] == "$(A) x"


def test_a_variable_may_add_to_its_own_earlier_value():
    assert env_of(("A", "x"), ("A", "$(A):y"))["A"] == "x:y"


def test_a_user_may_replace_what_the_service_set():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1}, container(env=[("RANK", "7")]))
    plan = plan_of(spec)
    assert plan.primary.env["RANK"] == "7"
    assert plan.notes == ()


def test_an_aip_name_that_the_service_sets_stays_the_services_and_is_noted():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1}, container(env=[("AIP_MODEL_DIR", "/x")]))
    plan = plan_of(spec)
    assert replica_of(plan, Role.WORKER).env["AIP_MODEL_DIR"] == "gs://bkt/out/digits/model/"
    assert plan.notes == ("AIP_MODEL_DIR in the job's env is ignored: the service sets it.",)


def test_an_aip_name_that_the_service_does_not_set_is_the_users():
    assert env_of(("AIP_HTTP_PORT", "80"))["AIP_HTTP_PORT"] == "80"


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "Ä", "A\n"])
def test_a_name_that_is_no_c_identifier_is_refused(name):
    with pytest.raises(Fault) as caught:
        env_of((name, "x"), ("GOOD", "y"))
    (violation,) = caught.value.violations
    assert violation.rule == "env-name"
    assert violation.field == FieldPath(Field.ENV, Role.PRIMARY)


def test_a_name_in_a_reducers_unused_env_keeps_no_job_from_starting():
    spec = vertex_spec({Role.PRIMARY: 1, Role.REDUCER: 1})
    primary, reducer = spec.groups
    bad = replace(reducer, program=container(env=[("A-B", "x")]))
    plan = plan_of(replace(spec, groups=(primary, bad)))
    assert "A-B" not in replica_of(plan, Role.REDUCER).env


@given(TEXTS)
def test_what_refers_to_nothing_known_is_left_untouched_unless_escaped(text):
    if "$$(" not in text:
        assert expand_references(text, {}) == text


@given(TEXTS, st.dictionaries(NAMES, TEXTS))
def test_any_text_survives_when_its_references_are_escaped(text, variables):
    escaped = re.sub(r"(?=\$\([A-Za-z_][A-Za-z0-9_]*\))", "$", text)
    assert expand_references(escaped, variables) == text


@given(NAMES, TEXTS)
def test_what_is_put_in_is_not_read_again(name, value):
    assert expand_references(f"<$({name})>", {"A": "again", name: value}) == f"<{value}>"
