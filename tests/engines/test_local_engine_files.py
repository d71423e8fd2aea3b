"""What the engine and its runners write for each other: nothing is lost on the way."""

import math
import os

from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.base import Outcome, ReplicaExit
from trainshed.engines.local import plan_file, records
from trainshed.engines.local.attempt_folder import AttemptFolder, StopOrder
from trainshed.engines.local.plan_file import Errand
from trainshed.engines.local.records import Began, Decided, Ended, Known, Ready
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.roles import Role

WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
TEXTS = st.lists(WORDS, max_size=3).map(tuple)
COUNTS = st.integers(0, 1000)
MAYBE = st.none() | WORDS

REPLICAS = st.builds(
    ReplicaPlan,
    role=st.sampled_from(Role),
    index=COUNTS,
    task_name=WORDS,
    argv=TEXTS,
    env=st.dictionaries(WORDS, WORDS, max_size=3),
    gpu_count=COUNTS,
    gpu_type=MAYBE,
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
)
RECORDS = st.one_of(
    st.builds(Began, pid=COUNTS, start_ticks=COUNTS, boot_id=WORDS),
    st.builds(Ready, task_names=TEXTS),
    st.builds(Decided, exit_code=COUNTS, message=WORDS),
    st.builds(
        Ended,
        outcome=st.builds(
            Outcome,
            exit_code=COUNTS,
            replicas=st.lists(EXITS, max_size=3).map(tuple),
            message=WORDS,
        ),
        fault=MAYBE,
    ),
)


@given(st.builds(Errand, plan=PLANS, cache_dir=MAYBE, uses_gpus=st.booleans()))
def test_a_plan_comes_back_as_it_was(tmp_path_factory, errand):
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    plan_file.write(path, errand)
    assert plan_file.read(path) == errand
    assert list(path.parent.iterdir()) == [path]


@given(st.lists(RECORDS, max_size=6), st.data())
def test_records_are_read_on_from_anywhere_and_torn_ones_do_not_count(
    tmp_path_factory, written, data
):
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    known, expected = Known(), Known()
    for record in written:
        if data.draw(st.booleans()):
            with path.open("ab") as file:
                file.write(b'\n{"is": "Ended", "outc')
        records.append(path, record, durably=False)
        setattr(expected, type(record).__name__.lower(), record)
        if data.draw(st.booleans()):
            known.read(path)
    known.read(path)
    expected.offset = known.offset
    assert known == expected


def test_the_order_to_stop_never_gets_milder(tmp_path):
    folder = AttemptFolder(tmp_path / "7" / "1")
    assert folder.stop_order() is None
    for grace_s, kept in ((10.0, 10.0), (math.pi, math.pi), (10.0, math.pi), (0.0, 0.0)):
        folder.give_order(StopOrder(grace_s=grace_s))
        assert folder.stop_order().grace_s == kept


def test_looking_at_the_lock_takes_it_from_nobody(tmp_path):
    folder = AttemptFolder(tmp_path)
    assert not folder.is_held()
    descriptor = folder.hold()
    assert folder.is_held()
    assert folder.hold() is None
    os.close(descriptor)
    assert not folder.is_held()
