"""Values of the model survive the way into the database and back, whatever is in them."""

import json
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.gpus import GpuState, NodeGpu
from trainshed.model.job import JobSpec, Program, ReplicaGroup, Scheduling
from trainshed.model.resources import Demand, GroupDemand, JobDemand, Node, Seat
from trainshed.model.roles import Role
from trainshed.model.status import JobError
from trainshed.model.study import (
    AshaRule,
    ConvexRule,
    DecayCurveRule,
    EndingRules,
    MedianRule,
    Metric,
    ParameterKind,
    ParameterSpec,
    Safety,
    StudySpec,
    TimeLimit,
    TrialSpec,
)
from trainshed.store import codec
from trainshed.wire import detect

REQUESTS = sorted((Path(__file__).parents[1] / "wire/requests").glob("*.json"))

#: Any text at all: also zero bytes and lone surrogates.
TEXT = st.text(st.characters(codec=None), max_size=5)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
NUMBER = st.floats(allow_nan=False)
LABELS = st.dictionaries(TEXT, TEXT, max_size=2)
DEMAND = st.builds(Demand, memory_gb=NUMBER, gpu_type=st.none() | TEXT, vcpus=st.integers())
PROGRAM = st.builds(Program, args=TEXTS, env=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple))
GROUP = st.builds(ReplicaGroup, program=st.none() | PROGRAM, machine_type=st.none() | TEXT)
PARAMETER = st.builds(
    ParameterSpec,
    parameter_id=TEXT,
    kind=st.sampled_from(ParameterKind),
    bounds=st.none() | st.tuples(NUMBER, NUMBER),
    values=st.lists(TEXT | NUMBER, max_size=2).map(tuple),
    conditions=st.just(()),
)
SAFETY = st.none() | st.builds(Safety, threshold=NUMBER)
LIMIT = st.none() | st.builds(TimeLimit, seconds=st.none() | NUMBER, until=st.none() | TEXT)
TRIAL = st.builds(TrialSpec, trial_id=TEXT, parameters=st.lists(st.tuples(TEXT, TEXT)).map(tuple))
STUDY = st.builds(
    StudySpec,
    metrics=st.lists(st.builds(Metric, metric_id=TEXT, safety=SAFETY), max_size=2).map(tuple),
    parameters=st.lists(PARAMETER, max_size=2).map(tuple),
    stopping=st.none()
    | st.builds(MedianRule)
    | st.builds(DecayCurveRule)
    | st.builds(ConvexRule)
    | st.builds(AshaRule),
    ending=st.builds(EndingRules, runtime_max=LIMIT),
)
VALUES = {
    "spec": (
        codec.SPEC,
        st.builds(
            JobSpec,
            display_name=TEXT,
            labels=LABELS,
            groups=st.lists(GROUP, max_size=2).map(tuple),
            scheduling=st.builds(Scheduling, running_s_max=st.none() | NUMBER),
            study=st.none() | STUDY,
            trial=st.none() | TRIAL,
            request=TEXT,
        ),
    ),
    "demand": (
        codec.DEMAND,
        st.builds(
            JobDemand,
            region=st.none() | TEXT,
            groups=st.lists(st.builds(GroupDemand, each=DEMAND), max_size=3).map(tuple),
        ),
    ),
    "node": (
        codec.NODE,
        st.builds(
            Node,
            name=TEXT,
            gpus=st.dictionaries(TEXT, st.integers(), max_size=2),
            gpu_alias=LABELS,
            memory_gb=NUMBER,
            devices=st.lists(
                st.builds(
                    NodeGpu,
                    uuid=TEXT,
                    memory_bytes=st.none() | st.integers(),
                    state=st.sampled_from(GpuState),
                    problem=TEXT,
                ),
                max_size=2,
            ).map(tuple),
        ),
    ),
    "explanation": (
        codec.EXPLANATION,
        st.builds(
            Explanation,
            reason=st.sampled_from(Reason),
            message=TEXT,
            blockers=TEXTS,
            change=st.none() | st.builds(Change, text=TEXT),
        ),
    ),
    "error": (codec.ERROR, st.builds(JobError, message=TEXT)),
    "seats": (
        codec.SEATS,
        st.lists(st.builds(Seat, role=st.sampled_from(Role), node=TEXT), max_size=3).map(tuple),
    ),
    "texts": (codec.TEXTS, TEXTS),
    "labels": (codec.LABELS, LABELS),
}


@pytest.mark.parametrize("path", REQUESTS, ids=lambda p: p.stem)
def test_specs_of_recorded_requests_come_back(path):
    spec = detect.parse(json.loads(path.read_text())).spec
    if spec is None:
        assert path.stem == "shape-ml-prediction", "all others are of jobs"
        return
    assert codec.SPEC.decode(codec.SPEC.encode(spec)) == spec


@pytest.mark.parametrize("name", VALUES)
def test_any_value_comes_back(name):
    coder, values = VALUES[name]

    @given(values)
    def comes_back(value):
        text = coder.encode(value)
        assert text.isascii()
        assert "\x00" not in text
        assert coder.decode(text) == value

    comes_back()


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_come_back_to_the_microsecond(time):
    assert codec.to_time(codec.to_ns(time)) == time
