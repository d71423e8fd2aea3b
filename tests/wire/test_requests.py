"""Recorded requests, and the shapes that they come in, as golden files of what they become.

The files of ``requests`` are named after a page of docs/sources and the section that describes the
request; those named ``shape`` are ours.  Parts that a recording lacks are ours too.
"""

import dataclasses
import enum
import json
from pathlib import Path

import pytest

from golden import check_golden
from trainshed.wire import detect

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden/wire"
REQUESTS = sorted((HERE / "requests").glob("*.json"))

#: Requests that only a server can refuse (docs/sources/gcloud.md 3.2, 5.3), and our faulty ones.
FAULTY = {
    "gcloud-3.2-hyperparameters-misspelled": ["unknown-value", "unknown-field"],
    "gcloud-5.3-config-misspelled": ["unknown-field"],
    "shape-ml-prediction": ["unsupported-field"],
    "shape-vertex-automl-pipeline": ["unsupported-field", "unsupported-field"],
    "shape-vertex-many-faults": [
        "wrong-type",
        "wrong-type",
        "container-xor-python",
        "wrong-type",
        "duplicate-field",
        "unknown-field",
        "wrong-type",
        "unknown-value",
        "wrong-type",
        "wrong-type",
        "unknown-field",
    ],
}


def as_json(parsed):
    spec = None if parsed.spec is None else dataclasses.asdict(parsed.spec)
    for name in ("request", "envelope") if spec else ():
        spec[name] = json.loads(spec[name])
    document = {"violations": [dataclasses.asdict(v) for v in parsed.violations], "spec": spec}
    return json.dumps(document, indent=1, default=word) + "\n"


def word(value):
    assert isinstance(value, enum.Enum)
    return value.value


@pytest.mark.parametrize("path", REQUESTS, ids=lambda p: p.stem)
def test_a_request_becomes_the_spec_of_its_golden_file(path):
    parsed = detect.parse(json.loads(path.read_text()))
    assert [v.rule for v in parsed.violations] == FAULTY.get(path.stem, [])
    check_golden(GOLDEN / path.name, as_json(parsed))


@pytest.mark.parametrize("path", REQUESTS, ids=lambda p: p.stem)
def test_a_refusal_says_where_what_and_what_would_be_accepted(path):
    for violation in detect.parse(json.loads(path.read_text())).violations:
        assert violation.field
        assert violation.message
        assert violation.accepted


def test_the_request_travels_as_compact_json_in_one_order():
    document = {"trainingInput": {"workerCount": 3, "region": "r"}, "jobId": "j"}
    request = '{"jobId":"j","trainingInput":{"region":"r","workerCount":"3"}}'
    assert detect.parse(document).spec.request == request


def test_every_golden_file_has_its_request():
    assert {p.name for p in GOLDEN.glob("*.json")} == {p.name for p in REQUESTS}
