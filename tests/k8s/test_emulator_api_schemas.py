"""Schemas: of custom kinds always, of core kinds where kubernetes-validate is installed."""

import pytest

from k8s.emulator.api import start_api
from k8s.emulator.core_schemas import explain_absence, load_core_schema
from k8s.emulator.kinds import RESOURCES
from k8s.emulator.schemas import load_schema, prune, set_defaults, validate
from k8s.http_calls import Caller, make_job

JOBS = "/apis/batch/v1/namespaces/default/jobs"
SCHEMA = {
    "properties": {
        "spec": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$"},
                "count": {"type": "integer", "minimum": 1, "default": 2},
                "size": {"x-kubernetes-int-or-string": True},
                "rows": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    }
}
needs_core_schemas = pytest.mark.skipif(bool(explain_absence()), reason=explain_absence())


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({}, "spec.name", "FieldValueRequired"),
        ({"name": "abcd"}, "spec.name", "FieldValueTooLong"),
        ({"name": "A"}, "spec.name", "FieldValueInvalid"),
        ({"name": "a", "count": 0}, "spec.count", "FieldValueInvalid"),
        ({"name": "a", "count": "1"}, "spec.count", "FieldValueTypeInvalid"),
        ({"name": "a", "count": True}, "spec.count", "FieldValueTypeInvalid"),
        ({"name": "a", "size": []}, "spec.size", "FieldValueTypeInvalid"),
        ({"name": "a", "rows": ["x", "x"]}, "spec.rows[1]", "FieldValueDuplicate"),
        ({"name": "a", "labels": {"x": 1}}, "spec.labels.x", "FieldValueTypeInvalid"),
    ],
)
def test_values_that_a_schema_refuses_are_named(spec, field, reason):
    error = validate(SCHEMA, {"spec": spec})[0]
    assert (error.field, error.reason) == (field, reason)


def test_values_that_a_schema_accepts_have_no_errors():
    for size in (1, "1Gi"):
        assert not validate(SCHEMA, {"spec": {"name": "a", "size": size, "rows": ["x", "y"]}})


def test_unknown_fields_go_and_defaults_come():
    obj = {"spec": {"name": "a", "x": {"y": 1}, "labels": {"free": "z"}}}
    assert list(prune(SCHEMA, obj)) == ["spec.x"]
    set_defaults(SCHEMA, obj)
    assert obj == {"spec": {"name": "a", "count": 2, "labels": {"free": "z"}}}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda row: row.kind)
def test_every_custom_kind_has_a_schema_of_each_version(resource):
    schemas = [load_schema(resource, version) for version in resource.versions]
    assert all(schemas) if resource.is_custom else not any(schemas)


@needs_core_schemas
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda row: row.kind)
def test_every_core_kind_has_a_schema(resource):
    assert resource.is_custom or load_core_schema(resource)


@needs_core_schemas
def test_core_bodies_are_read_as_strictly_as_the_server_reads_them():
    with start_api() as api:
        caller = Caller(api)
        wrong = make_job(parallelism="two")
        reply = caller.call("POST", JOBS, wrong)
        assert reply.status == 400
        assert "cannot unmarshal string into Go struct field Job.spec.parallelism" in reply.text
        unknown = make_job(bogus=1)
        unknown["spec"]["template"]["spec"]["containers"][0]["img"] = "x"
        reply = caller.call("POST", JOBS, unknown, fieldValidation="Strict")
        assert reply.body["message"] == (
            'Job in version "v1" cannot be handled as a Job: strict decoding error: '
            'unknown field "spec.template.spec.containers[0].img", unknown field "spec.bogus"'
        )
        reply = caller.call("POST", JOBS, unknown)
        assert reply.status == 201
        assert "bogus" not in reply.body["spec"]
        container = {"name": "main", "image": "i:1", "resources": {"limits": {"cpu": 1}}}
        job = make_job("sized")
        job["spec"]["template"]["spec"]["containers"] = [container]
        assert caller.call("POST", JOBS, job, fieldValidation="Strict").status == 201
