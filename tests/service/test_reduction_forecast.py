"""What a submitted job is told of its reducers: whether they are enough, and what they gain."""

import pytest

from admission.asking import ask, gpus, group, vertex
from service.submitting import PLACE, PROJECT, custom_job, pool
from service.test_pipelines import child_of, pipeline
from store.builders import add, go, place
from trainshed.model.reduction_report import PLANNED
from trainshed.model.resources import Node, Seat
from trainshed.model.roles import Role
from trainshed.model.status import JobState
from trainshed.model.trials import TrialRecord
from trainshed.planning.reduction_forecast import ONE_MACHINE, one_machine_advice
from trainshed.service.jobs.judging import predicted
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.studies import TrialJobs
from trainshed.service.log.stream import line_of
from trainshed.service.starts.placing import placing_notes
from trainshed.store.records.steps import NewEvent

IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
V100 = {"machineType": "n1-highmem-96", "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 8}  # fmt: skip
EIGHT = (
    "8 reducers of n1-highcpu-16 carry 256 Gbit/s, the workers 500: 16 would match them; with 8 "
    "the exchange is predicted at 1.31 times a ring, with 16 at 1.60, if the hosts have the "
    "network of the catalog."
)
SIXTEEN = (
    "16 reducers of n1-highcpu-16 carry 512 Gbit/s, the workers 500: the exchange is predicted at "
    "1.60 times a ring, if the hosts have the network of the catalog."
)
SEVEN = (
    "7 reducers of n1-highcpu-16 carry 224 Gbit/s, the workers 200; two worker hosts exchange as "
    "fast by a ring: reducers help from 3 on."
)
ONE = (
    "1 reducer of n1-highcpu-16 carries 32 Gbit/s, the workers 100; a single worker host "
    "exchanges no gradients: reducers cannot help it."
)


def reducing(reducers, workers=4):
    pools = [pool(**V100), pool(**V100, count=workers) if workers else {}]
    return custom_job(*pools, pool((), IMAGE, count=reducers, machineType="n1-highcpu-16"))


def planned(desk, record):
    return [event for event in desk.store.events(record.uid) if event.kind == PLANNED]


@pytest.mark.parametrize(
    ("reducers", "workers", "sentence", "severity"),
    [
        (8, 4, EIGHT, "WARNING"),
        (16, 4, SIXTEEN, "INFO"),
        (7, 1, SEVEN, "WARNING"),
        (1, 0, ONE, "WARNING"),
    ],
)
def test_the_story_begins_with_what_the_reducers_are_worth(
    desk, reducers, workers, sentence, severity
):
    record = desk.custom(reducing(reducers, workers))
    accepted, event, *_ = desk.store.events(record.uid)
    assert (accepted.kind, event.kind, event.message) == ("ACCEPTED", PLANNED, sentence)
    assert accepted.stamp_ns < event.stamp_ns
    line = line_of(event)
    assert (line.task_name, line.text, line.severity) == ("service", sentence, severity)
    assert not any("Gbit/s" in note for note in desk.store.notes(record.uid))


def test_programs_find_the_numbers_beside_the_sentence(desk):
    (event,) = planned(desk, desk.custom(reducing(8)))
    assert dict(event.data) == {
        "gain": 1.307, "reducers": 8, "sufficient": 16, "severity": "WARNING",
    }  # fmt: skip


def test_the_job_of_a_pipeline_is_told_too(desk):
    document = pipeline(trainingTaskInputs=reducing(8)["jobSpec"])
    view = desk.pipelines.create(PROJECT, PLACE, document, creator="ann")
    assert [event.message for event in planned(desk, child_of(desk, view))] == [EIGHT]


def test_the_trials_of_a_study_are_told_too(desk):
    study = desk.custom(reducing(8))
    trial = desk.store.add_job(TrialJobs(desk.store)(study, TrialRecord(number=1)))[0]
    (event,) = planned(desk, trial)
    assert event.message == EIGHT
    assert event.data == planned(desk, study)[0].data


def test_a_job_without_reducers_is_told_nothing(desk):
    assert planned(desk, desk.custom(custom_job(pool(**V100), pool(**V100, count=4)))) == []


def test_what_happens_next_comes_behind_what_was_told(desk):
    record = desk.custom(reducing(8))
    go(desk.store, record.uid, JobState.CANCELLED, events=(NewEvent(kind="X", message="x"),))
    stamps = [event.stamp_ns for event in desk.store.events(record.uid)]
    assert stamps == sorted(set(stamps))
    assert len(stamps) == 3


def test_nothing_is_predicted_where_a_bandwidth_is_not_known():
    v100 = gpus(8, "NVIDIA_TESLA_V100")
    spec = vertex(group("n1-highmem-96", accelerator=v100), group("mine", Role.REDUCER, count=2))
    assert predicted(ask(spec)) is None
    assert predicted(ask(vertex(group("mine"), group("n1-highcpu-16", Role.REDUCER)))) is None
    assert one_machine_advice(spec, None) == (ONE_MACHINE,)


def test_on_one_machine_reducers_never_help_and_the_job_hears_it():
    v100 = gpus(8, "NVIDIA_TESLA_V100")
    workers = (
        group("n1-highmem-96", accelerator=v100),
        group("n1-highmem-96", Role.WORKER, count=4, accelerator=v100),
    )
    enough = vertex(*workers, group("n1-highcpu-16", Role.REDUCER, count=16))
    few = vertex(*workers, group("n1-highcpu-16", Role.REDUCER, count=8))
    assert one_machine_advice(vertex(*workers), None) == ()
    assert one_machine_advice(enough, predicted(ask(enough))) == (ONE_MACHINE,)
    assert one_machine_advice(few, predicted(ask(few))) == (EIGHT, ONE_MACHINE)


def seat(role, node, index=0):
    return Seat(role=role, index=index, node=node)


def notes_at(*seats):
    nodes = {(seat.role, seat.index): Node(name=seat.node) for seat in seats}
    return placing_notes(vertex(), seats, nodes)


def test_places_that_spoil_the_gain_are_told():
    at_a, at_b = seat(Role.PRIMARY, "a"), seat(Role.WORKER, "b")
    assert notes_at(at_a, at_b) == ()
    assert notes_at(at_a, seat(Role.REDUCER, "a")) == (ONE_MACHINE,)
    assert notes_at(at_a, at_b, seat(Role.REDUCER, "c"), seat(Role.EVALUATOR, "c")) == ()
    (note,) = notes_at(at_a, at_b, seat(Role.REDUCER, "b"), seat(Role.REDUCER, "c", 1))
    assert note.startswith("Reducers share the links of workers on b: ")
    many = [seat(Role.WORKER, f"n{i}", i) for i in range(9)]
    (note,) = notes_at(at_a, *many, *(seat(Role.REDUCER, f"n{i}", i) for i in range(9)))
    assert "on n0, n1, n2, n3, n4, n5, n6, n7 and others: " in note


def test_a_job_explains_what_its_reducers_are_to_come_to_and_then_what_they_did(store):
    reducers = group("n1-highcpu-16", Role.REDUCER, count=8)
    plan_events = (NewEvent(kind=PLANNED, message=EIGHT),)
    record = add(store, project=PROJECT, groups=(group(), reducers), events=plan_events)
    assert explained(store, record).reduction == EIGHT
    place(store, record.uid)
    go(store, record.uid, JobState.RUNNING)
    came = NewEvent(kind="REDUCTION", message="Reduction: 1.43 times a ring.")
    go(store, record.uid, JobState.SUCCEEDED, events=(came,))
    explanation = explained(store, record)
    assert explanation.message == "It completed successfully."
    assert explanation.reduction == came.message


def test_a_job_without_reducers_explains_nothing_of_them(store):
    record = add(store, project=PROJECT)
    assert explained(store, record).reduction is None


def explained(store, record):
    return Stories(store).explain(PROJECT, record.job.job_id)
