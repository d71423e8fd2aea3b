"""Where a job may write, and what its variables may be called (docs/sources/vertex.md 8)."""

import pytest

from admission.asking import ask, group, ml, rules, vertex
from trainshed.admission import check
from trainshed.admission.context import Scope
from trainshed.admission.rules import directories
from trainshed.model.faults import Field, FieldPath
from trainshed.model.job import Program, ProgramKind
from trainshed.model.roles import Role

SCOPES = pytest.mark.parametrize("scope", Scope)
ACCEPTED_PLACES = [
    "gs://b/j",
    "gs://my-bucket",
    "gs://my-bucket/",
    "gs://my.bucket_1/a b//c/",
    "gs://bucket/a..b/...",
    "out",
    "./out",
    "../out",
    "/data/out",
    "~/out",
    "C:/out",
    "out:1/x",
]
REFUSED_PLACES = [
    "",
    "  ",
    "s3://bucket/out",
    "http://host/out",
    "file:///out",
    "GS://bucket/out",
    "gs:/bucket/out",
    "gs://",
    "gs:///out",
    "gs://B/out",
    "gs://bucket/../other",
    "gs://bucket/a/..",
    "gs://bucket/./a",
    "gs://bucket/a\0b",
    "out\0",
    "out\n",
    "gs://bucket/\x7f",
    "gs://bucket/\x85",
]


def both(place):
    return ml(group(), job_dir=place), vertex(group(), base_output_dir=place)


@pytest.mark.parametrize("place", ACCEPTED_PLACES)
def test_a_bucket_or_a_local_path_is_a_directory(place):
    assert [rules(spec) for spec in both(place)] == [[], []]


@SCOPES
@pytest.mark.parametrize("place", REFUSED_PLACES)
def test_any_other_place_is_refused_in_either_dialect(place, scope):
    for spec in both(place):
        [violation] = [v for v in check(ask(spec, scope=scope)) if v.rule == "job-dir"]
        assert violation.field == FieldPath(Field.JOB_DIR)
        assert violation.accepted == "gs://BUCKET/PATH, or a path on this machine"
        assert "\0" not in violation.message
        assert [v.rule for v in directories.violations(spec)] == ["job-dir"]


def test_no_directory_is_no_fault():
    assert [rules(spec) for spec in both(None)] == [[], []]


def with_env(*names, kind=ProgramKind.CONTAINER):
    program = Program(kind=kind, image_uri="i", env=tuple((name, "v") for name in names))
    if kind is ProgramKind.PYTHON_PACKAGE:
        program = Program(
            kind=kind, image_uri="i", module="m", package_uris=("gs://b/p",), env=program.env
        )
    workers = group(role=Role.WORKER, program=program)
    primary = group(program=Program(kind=ProgramKind.CONTAINER, image_uri="i"))
    return vertex(primary, workers)


@SCOPES
@pytest.mark.parametrize("kind", ProgramKind)
@pytest.mark.parametrize("name", ["", "1A", "A-B", "A.B", "A B", "A=B", "É", "A\n"])
def test_a_variable_has_the_name_of_a_c_identifier(name, kind, scope):
    [violation] = check(ask(with_env("GOOD_1", "_", name, kind=kind), scope=scope))
    assert violation.rule == "env-name"
    assert violation.field == FieldPath(Field.ENV, Role.WORKER)
    assert repr(name) in violation.message


@SCOPES
def test_a_pool_has_at_most_100_variables(scope):
    names = [f"V{number}" for number in range(101)]
    assert rules(with_env(*names[:100]), scope=scope) == []
    assert rules(with_env(*names), scope=scope) == ["env-count"]
