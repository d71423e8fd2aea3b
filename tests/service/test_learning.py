"""Jobs that are over teach the planner, each once, and are held against what it had said."""

import itertools
from dataclasses import replace
from functools import partial

import pytest

from planning.test_steps_achieved import TIMES
from service.submitting import PROJECT
from store.builders import SERVER, add, go
from trainshed.catalog.open import catalog_for
from trainshed.model.job import Accelerator, JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.refusals import Refusal
from trainshed.model.resources import Seat
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.model.step_times import STEPS
from trainshed.planning.attempt_steps import StepsMade
from trainshed.planning.scaling.calibration import RunKind
from trainshed.planning.scaling.calibration_file import read
from trainshed.planning.steps_achieved import steps_achieved
from trainshed.service.goodput.facts import goodput_facts
from trainshed.service.jobs.paging import parts_of, token_of
from trainshed.service.jobs.story import Stories
from trainshed.service.learning import calibrations as learned
from trainshed.service.learning.from_jobs import Learning
from trainshed.service.learning.turns import CpuBudget
from trainshed.store.records.learned import Learned
from trainshed.store.records.steps import NewEvent
from trainshed.wire.native_v1 import document

DATA = dict(steps_achieved(TIMES).numbers)
PROGRAM = Program(kind=ProgramKind.CONTAINER, image_uri="registry.test/train", args=("--lr", "1"))


CATALOG = catalog_for(Dialect.AIPLATFORM_V1, None, (), None)


@pytest.fixture
def learning(store):
    return make_learning(store)


def make_learning(store, turns=None, read_steps=lambda _: None):
    return Learning(
        store=store,
        catalog=CATALOG,
        turns=turns or CpuBudget(share=1, work_clock=lambda: 0.0),
        read_times=partial(goodput_facts, store, read_steps=read_steps),
    )


def spec(count=1, program=PROGRAM, **more):
    gpu = Accelerator(type="NVIDIA_TESLA_T4", count=2)
    pool = ReplicaGroup(
        role=Role.PRIMARY, machine_type="n1-standard-8", accelerator=gpu, program=program
    )
    more_hosts = [] if count == 1 else [_workers(pool, count - 1)]
    return JobSpec(dialect=Dialect.AIPLATFORM_V1, groups=(pool, *more_hosts, *more.get("also", ())))


def _workers(pool, count):
    return ReplicaGroup(
        role=Role.WORKER,
        count=count,
        machine_type=pool.machine_type,
        accelerator=pool.accelerator,
        program=pool.program,
    )


def ended(store, job_id, job_spec=None, *, nodes=("n1", "n2", "n3"), **data):
    """A job whose steps came to this; its replicas ran on the nodes, in order."""
    job_spec = job_spec or spec()
    uid = add(store, project=PROJECT, job_id=job_id, spec=job_spec, expanded=job_spec).uid
    roles = [(group.role, index) for group in job_spec.groups for index in range(group.count)]
    seats = tuple(
        Seat(role=role, index=index, node=node)
        for (role, index), node in zip(roles, nodes, strict=False)
    )
    placed = NewEvent(kind="PREPARING", message="Preparing.")
    go(store, uid, JobState.PREPARING, seats=seats, owner=SERVER, events=(placed,))
    go(store, uid, JobState.RUNNING)
    event = NewEvent(kind=STEPS, message="Steps.", data={**DATA, **data})
    go(store, uid, JobState.SUCCEEDED, events=(event,))
    return uid


def jobs_known(store):
    """The runs of jobs in the only calibration of the project."""
    (head,) = store.calibrations(PROJECT, 9)
    return read(store.calibration(PROJECT, head.key).document).of(RunKind.JOB)


def test_the_first_job_teaches_and_the_next_one_is_held_against_it(store, learning):
    first = ended(store, "first")
    learning.learn()
    assert store.events(first)[-1].kind == STEPS, "nothing could be said of it before"
    (run,) = jobs_known(store)
    assert (run.accelerators, run.hosts, run.batch_per_accelerator) == (2, 1, 16)
    second = ended(store, "second")
    learning.learn()
    event = store.events(second)[-1]
    assert event.kind == "OUTCOME"
    assert event.message.startswith("40 steps: predicted 2.0 s [")
    assert "inside" in event.message
    assert "USD" in event.message
    assert store.calibrations(PROJECT, 9)[0].jobs == 2


@pytest.mark.parametrize("has_usage", [True, False])
def test_a_score_has_the_goodput_of_steps_that_only_the_usage_has(store, has_usage):
    now_s = store.now().timestamp()
    steps = StepsMade(first_s=now_s, last_s=now_s, first_step=1, last_step=9)
    learning = make_learning(store, read_steps=lambda _: steps if has_usage else None)
    ended(store, "first")
    learning.learn()
    second = ended(store, "second")
    learning.learn()
    outcome = store.events(second)[-1]
    assert outcome.kind == "OUTCOME"
    assert outcome.data["goodput"] == (1 if has_usage else 0)


def test_a_job_counts_once_whoever_looks(store, learning):
    ended(store, "first")
    ended(store, "second")
    for _ in range(3):
        learning.learn()
    assert store.calibrations(PROJECT, 9)[0].jobs == 2
    assert [outcome.content["job"] for outcome in store.outcomes(PROJECT, 9)] == ["second"]


def test_jobs_that_teach_take_their_share_of_a_processor(store):
    work = itertools.count(0.0, 0.06)
    turns = CpuBudget(share=0.05, clock=lambda: 100.0, work_clock=lambda: next(work))
    for name in ("first", "second", "third"):
        ended(store, name)
    make_learning(store, turns).learn()
    assert store.calibrations(PROJECT, 9)[0].jobs == 1, "more would be longer than a turn"
    assert turns.is_resting
    assert len(store.unscored(9)) == 2, "they are looked at later"


def test_of_two_servers_one_writes(store, learning):
    ended(store, "first")
    [(uid, event)] = store.unscored(9)
    score = learning._score_attempt(store.job_by_uid(uid), event)
    assert store.learn(uid, event.attempt, score)
    assert not store.learn(uid, event.attempt, score)
    ended(store, "second")
    [(uid, event)] = store.unscored(9)
    assert not store.learn(uid, event.attempt, score), "another has taught it meanwhile"
    assert [job_uid for job_uid, _ in store.unscored(9)] == [uid], "it is looked at again"


def test_a_slow_job_is_a_miss_and_is_told_everywhere(store, learning):
    ended(store, "first")
    uid = ended(store, "slow", step_s=0.5, step_s_p10=0.5, step_s_p90=0.5, samples_per_s=64)
    assert Stories(store).job(PROJECT, "slow").is_unscored
    learning.learn()
    assert Stories(store).job(PROJECT, "slow").is_unscored is None
    (outcome,) = learned.outcomes(store, PROJECT, 9).outcomes
    assert outcome.inside is False
    assert outcome.took_s == 20
    assert store.events(uid)[-1].data["severity"] == "WARNING"
    explained = Stories(store).explain(PROJECT, "slow")
    assert explained.outcome == store.events(uid)[-1].message
    assert Stories(store).job(PROJECT, "slow").outcome == outcome


def test_outcomes_come_page_by_page(store, learning):
    for name in ("first", "second", "third", "fourth"):
        ended(store, name)
    learning.learn()
    page = learned.outcomes(store, PROJECT, 2)
    rest = learned.outcomes(store, PROJECT, 2, page.next_page_token)
    assert [outcome.job for outcome in page.outcomes + rest.outcomes] == [
        "fourth",
        "third",
        "second",
    ]
    assert rest.next_page_token is None
    odd = [token_of(parts_of(page.next_page_token)[0], *place) for place in ((1, 2), (1, True, 1))]
    for project, token in (
        ("p2", page.next_page_token),
        *((PROJECT, page_token) for page_token in (*odd, "x")),
    ):
        with pytest.raises(Refusal, match="pageToken"):
            learned.outcomes(store, project, 2, token)


def test_jobs_of_another_kind_teach_apart(store, learning):
    other = Program(kind=ProgramKind.CONTAINER, image_uri="registry.test/another")
    arguments = Program(kind=ProgramKind.CONTAINER, image_uri="registry.test/train", args=("2",))
    for name, program in (("a", PROGRAM), ("b", other), ("c", arguments)):
        ended(store, name, spec(program=program))
    ended(store, "d", parameters=1e6)
    learning.learn()
    assert sorted(calibration.jobs for calibration in store.calibrations(PROJECT, 9)) == [1, 1, 2]


def test_more_hosts_are_of_the_same_calibration(store, learning):
    ended(store, "one", parameters=1e6)
    ended(store, "three", spec(3), parameters=1e6)
    learning.learn()
    (outcome,) = learned.outcomes(store, PROJECT, 9).outcomes
    assert (outcome.accelerators, outcome.hosts) == (6, 3)
    assert [(run.hosts, run.machines) for run in jobs_known(store)] == [(1, 1), (3, 3)]
    assert outcome.class_.startswith("hosts from")
    assert learned.calibrations(store, PROJECT, 9).calibrations[0].jobs == 2


@pytest.mark.parametrize(
    "nodes", [("n1", "n1", "n1"), ("n1", "n2", "n1"), ("n1", "n2", "")],
    ids=["one machine", "two of three", "an unknown machine"],
)  # fmt: skip
def test_replicas_that_shared_a_machine_teach_nothing_of_links(store, learning, nodes):
    ended(store, "one", parameters=1e6)
    learning.learn()
    uid = ended(store, "three", spec(3), nodes=nodes, parameters=1e6)
    learning.learn()
    assert not store.unscored(9)
    assert store.outcome(uid) is None, "no prediction for hosts holds for such replicas"
    assert [run.hosts for run in jobs_known(store)] == [1]


@pytest.mark.parametrize(
    ("job_spec", "data"),
    [
        (spec(also=(ReplicaGroup(role=Role.REDUCER, machine_type="n1-highcpu-16"),)), {}),
        (spec(), {"step_s": -1.0}),
        (spec(), {"step_s": "fast"}),
        (spec(), {"steps": 10**12}),
        (spec(), {"step_s": 1e-12, "step_s_p10": 1e-12, "step_s_p90": 1e-12}),
        (spec(), {"parameters": 1e-300}),
    ],
)
def test_what_cannot_be_compared_teaches_nothing(store, learning, job_spec, data):
    ended(store, "odd", job_spec, **data)
    learning.learn()
    assert not store.unscored(9)
    assert not store.calibrations(PROJECT, 9)


def test_numbers_that_no_file_may_hold_spoil_no_calibration(store, learning):
    ended(store, "first")
    learning.learn()
    ended(store, "odd", steps=10**12)
    learning.learn()
    assert not store.unscored(9)
    assert store.calibrations(PROJECT, 9)[0].jobs == 1
    assert len(jobs_known(store)) == 1


def test_a_calibration_that_cannot_be_read_begins_anew_and_is_told(store, learning, caplog):
    ended(store, "first")
    learning.learn()
    spoil(store)
    ended(store, "second")
    learning.learn()
    assert "makes a new one" in caplog.text
    assert len(jobs_known(store)) == 1
    ended(store, "third")
    learning.learn()
    assert [outcome.content["job"] for outcome in store.outcomes(PROJECT, 9)] == ["third"]


def spoil(store):
    """Make the only calibration of the project one that nobody can read."""
    (stored,) = store.calibrations(PROJECT, 9)
    uid = ended(store, "spoils")
    [(_, event)] = store.unscored(9)
    spoiled = Learned(
        project=PROJECT,
        key=stored.key,
        document="a =",
        model=stored.model,
        machine_type=stored.machine_type,
        accelerator=stored.accelerator,
        jobs=stored.jobs,
        content={},
    )
    assert store.learn(uid, event.attempt, spoiled)


def test_calibrations_are_listed_without_a_look_into_them_and_given_one_by_one(store, learning):
    ended(store, "first", spec(program=replace(PROGRAM, module="trainer.task")))
    learning.learn()
    (row,) = learned.calibrations(store, PROJECT, 9).calibrations
    assert (row.model, row.machine_type, row.accelerator, row.jobs) == (
        "trainer.task",
        "n1-standard-8",
        "NVIDIA_TESLA_T4",
        1,
    )
    whole = learned.calibration(store, PROJECT, row.key)
    assert read(whole.document).host.machine_type == "n1-standard-8"
    assert document(whole) == {**document(row), "document": whole.document}
    spoil(store)
    assert learned.calibrations(store, PROJECT, 9).calibrations[0].jobs == 2
    for project, key in ((PROJECT, "none"), ("elsewhere", row.key)):
        with pytest.raises(Refusal, match="no calibration"):
            learned.calibration(store, project, key)


def test_what_was_learned_outlives_the_job(store, learning):
    ended(store, "first")
    second = ended(store, "second")
    learning.learn()
    untaught = ended(store, "third")
    store.forget([second, untaught])
    assert len(store.outcomes(PROJECT, 9)) == 1
    assert not store.unscored(9)
