"""What the engine and its supervisors write for each other: nothing is lost on the way."""

import json
import math
import os

from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.container_runtime import Runtime
from trainshed.engines.local.attempts import plan_file
from trainshed.engines.local.attempts.plan_file import Preparation
from trainshed.engines.supervise.kernel.limits import ReplicaLimits
from trainshed.engines.supervise.record import records, spec
from trainshed.engines.supervise.record.folder import AttemptFolder, Order
from trainshed.engines.supervise.record.observe import AttemptRecords
from trainshed.engines.supervise.record.records import Began, Decided, Ended, Ready, Recovered
from trainshed.engines.supervise.record.spec import (
    AttemptSpec,
    HangRule,
    RemoteRule,
    ReplicaMarks,
    ReplicaSpec,
    StepRule,
)
from trainshed.model.attempt import Hang, MetricsPlan, Outcome, ReplicaExit
from trainshed.model.launch_plan import ContainerPlan, Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
TEXTS = st.lists(WORDS, max_size=3).map(tuple)
COUNTS = st.integers(0, 1000)
MAYBE = st.none() | WORDS

PAIRS = st.lists(st.tuples(WORDS, WORDS), max_size=2).map(tuple)
VARIABLES = st.dictionaries(WORDS, WORDS, max_size=3)
REPLICAS = st.builds(
    ReplicaPlan,
    role=st.sampled_from(Role),
    index=COUNTS,
    task_name=WORDS,
    argv=TEXTS,
    env=VARIABLES,
    gpu_count=COUNTS,
    gpu_type=MAYBE,
    memory_bytes_max=st.none() | COUNTS,
    cpus_max=st.none() | st.floats(0, 64),
    container=st.none()
    | st.builds(ContainerPlan, image=WORDS, command=st.none() | TEXTS, args=st.none() | TEXTS),
)
PLANS = st.builds(
    LaunchPlan,
    job_id=WORDS,
    attempt=COUNTS,
    replicas=st.lists(REPLICAS, min_size=1, max_size=3).map(tuple),
    environment=st.builds(
        Environment, python=WORDS, packages=TEXTS, requirements=TEXTS, ignored=TEXTS
    ),
    cwd=MAYBE,
    unset_env=TEXTS,
    notes=TEXTS,
    hosts=PAIRS,
    binds=PAIRS,
    checkpoints=TEXTS,
)
RUNTIMES = st.builds(Runtime, name=WORDS, program=WORDS, version=WORDS, user=MAYBE)
SPECS = st.builds(
    AttemptSpec,
    uid=COUNTS,
    attempt=COUNTS,
    job_id=WORDS,
    grace_s=st.floats(0, 1e6),
    settle_s=st.floats(0, 1e6),
    replicas=st.lists(
        st.builds(
            ReplicaSpec,
            task_name=WORDS,
            role=st.sampled_from(Role),
            index=COUNTS,
            argv=TEXTS,
            env=VARIABLES,
            cwd=WORDS,
            trial=WORDS,
            limits=st.builds(
                ReplicaLimits, memory_bytes=st.none() | COUNTS, cpus=st.none() | COUNTS
            ),
            hosts=PAIRS,
            binds=PAIRS,
            cleanup=st.lists(TEXTS, max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    notes=TEXTS,
    prepare=st.none() | TEXTS,
    after=st.none() | TEXTS,
    hang=st.builds(HangRule, after_s=st.none() | st.floats(0, 1e6), stacks=st.booleans()),
    checkpoints=TEXTS,
    metrics=st.none() | st.builds(MetricsPlan, files=TEXTS, tags=TEXTS, summaries=TEXTS),
    usage_s=st.floats(0, 3600),
    remote=st.none()
    | st.builds(
        RemoteRule,
        steps=st.lists(st.builds(StepRule, argv=TEXTS), max_size=2).map(tuple),
        marks=st.lists(st.builds(ReplicaMarks, host=WORDS), max_size=2).map(tuple),
        packages=VARIABLES,
        keeps=TEXTS,
        start_timeout_s=st.floats(0, 1e6),
        ends_s=st.none() | st.floats(0, 1e6),
        hold_s=st.floats(0, 1e6),
    ),
)
EXITS = st.builds(
    ReplicaExit,
    role=st.sampled_from(Role),
    index=COUNTS,
    task_name=WORDS,
    exit_code=st.none() | COUNTS,
    signal=st.none() | COUNTS,
    seconds=st.floats(0, 1e6),
    stopped_by_us=st.booleans(),
    killed=st.booleans(),
    notice_s=st.none() | st.floats(0, 1e6),
    oom=st.booleans(),
    peak_memory_bytes=st.none() | COUNTS,
)
ENDS = st.builds(
    Outcome,
    exit_code=COUNTS,
    message=WORDS,
    replicas=st.lists(EXITS, max_size=3).map(tuple),
    last_words=WORDS,
    interrupted=st.booleans(),
)
RECORDS = st.one_of(
    st.builds(Began, pid=COUNTS, start_ticks=COUNTS, boot_id=WORDS, places=VARIABLES),
    st.builds(Ready, task_names=TEXTS),
    st.builds(Hang, task_name=WORDS, seconds=st.floats(0, 1e6), stacks=WORDS),
    st.builds(Recovered, task_name=WORDS),
    st.builds(Decided, exit_code=COUNTS, message=WORDS, interrupted=st.booleans()),
    st.builds(Ended, outcome=ENDS, fault=MAYBE, lost=st.booleans()),
)


@given(
    SPECS,
    st.builds(
        Preparation,
        plan=PLANS,
        cache_dir=MAYBE,
        uses_gpus=st.booleans(),
        gpu_wait_s=st.floats(0, 1e6),
        gpu_alias=VARIABLES,
        runtime=st.none() | RUNTIMES,
    ),
)
def test_both_parts_of_a_plan_file_come_back_as_they_were(tmp_path_factory, expected, preparation):
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    plan_file.write(str(path), expected, preparation)
    assert plan_file.read(str(path)) == preparation
    assert spec.read(str(path)) == expected
    assert list(path.parent.iterdir()) == [path]


@given(st.lists(RECORDS, max_size=6), st.data())
def test_records_are_read_on_from_anywhere_and_torn_ones_do_not_count(
    tmp_path_factory, written, data
):
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    attempt_records, expected = AttemptRecords(), AttemptRecords()
    for record in written:
        if data.draw(st.booleans()):
            with path.open("ab") as file:
                file.write(b'\n{"is": "Ended", "outc')
        records.append(str(path), record, durably=False)
        expected.learn(record)
        if data.draw(st.booleans()):
            attempt_records.read(str(path))
    attempt_records.read(str(path))
    expected.offset = attempt_records.offset
    assert attempt_records == expected


def test_the_order_to_stop_never_gets_milder(tmp_path):
    folder = AttemptFolder(tmp_path / "7" / "1")
    assert folder.stop_order() is None
    for grace_s, expected_s in ((10.0, 10.0), (math.pi, math.pi), (10.0, math.pi), (0.0, 0.0)):
        folder.give_order(Order(grace_s=grace_s))
        assert folder.stop_order().grace_s == expected_s


def test_looking_at_the_lock_takes_it_from_nobody(tmp_path):
    folder = AttemptFolder(tmp_path)
    assert not folder.is_held()
    descriptor = folder.hold()
    assert folder.is_held()
    assert folder.hold() is None
    os.close(descriptor)
    assert not folder.is_held()


#: As the release before wrote them; its supervisors still run.
OLD_PLAN = {
    "plan": {
        "job_id": "j",
        "attempt": 1,
        "replicas": [
            {
                "role": "primary",
                "index": 0,
                "task_name": "workerpool0-0",
                "argv": ["python"],
                "env": {"A": "1"},
                "gpu_count": 0,
                "gpu_type": None,
                "memory_bytes_max": None,
                "cpus_max": None,
                "container": {"image": "i", "command": None, "args": ["x"]},
            }
        ],
        "environment": {"python": "/p", "packages": [], "requirements": [], "ignored": []},
        "cwd": None,
        "unset_env": [],
        "notes": [],
        "hosts": [["127.0.0.1", "a"]],
        "binds": [],
        "checkpoints": [],
        "metrics": {"files": ["f"], "tags": ["loss"], "summaries": []},
    },
    "cache_dir": None,
    "uses_gpus": True,
    "runtime": {"name": "docker", "program": "/d", "version": "1", "user": None},
    "gpu_alias": {},
    "gpu_wait_s": 60.0,
    "fake_gpus": 0,
}
OLD_RECORDS = b"""
{"is": "Began", "pid": 5, "start_ticks": 6, "boot_id": "b", "places": {"cgroup": ["/x"]}}
{"is": "Ready", "task_names": ["workerpool0-0"]}
{"is": "Hung", "task_name": "workerpool0-0", "seconds": 7.5, "stacks": ""}
{"is": "Decided", "exit_code": 3, "message": "m", "last_words": "w", "interrupted": false}
{"is": "Ended", "outcome": {"exit_code": 3, "message": "m", "replicas": [{"role": "primary",\
 "index": 0, "task_name": "workerpool0-0", "exit_code": 3, "signal": null, "seconds": 1.5,\
 "stopped_by_us": false, "killed": false, "notice_s": null, "oom": false,\
 "peak_memory_bytes": 1}], "last_words": "w", "interrupted": false}, "fault": null, "lost": false}
"""


def test_a_plan_file_of_the_release_before_is_read(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(OLD_PLAN))
    preparation = plan_file.read(str(path))
    assert preparation.plan.primary.container == ContainerPlan(image="i", args=("x",))
    assert preparation.plan.hosts == (("127.0.0.1", "a"),)
    assert preparation.plan.metrics == MetricsPlan(files=("f",), tags=("loss",))
    assert preparation.runtime.name == "docker"


def test_records_of_the_release_before_are_read(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(OLD_RECORDS)
    attempt_records = AttemptRecords()
    attempt_records.read(str(path))
    assert attempt_records.began.places == {"cgroup": ["/x"]}
    assert attempt_records.hung == {"workerpool0-0": Hang("workerpool0-0", 7.5)}
    (ended,) = attempt_records.ended.outcome.replicas
    assert (ended.role, ended.status) == (Role.PRIMARY, 3)
    assert attempt_records.decided.last_words == "w"
