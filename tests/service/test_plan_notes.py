"""Jobs hear at their start what jobs of their trainer have taught, where that is worth a word."""

from dataclasses import replace

import pytest

from service.submitting import PROJECT
from service.test_learning import ended, learning, spec, spoil  # noqa: F401 - a fixture
from store.builders import add
from trainshed.catalog.open import catalog_for
from trainshed.model.job import Program, ProgramKind
from trainshed.model.roles import Dialect, Role
from trainshed.service.learning.plan_notes import SHARE, PlanNotes
from trainshed.service.learning.submit_notes import KIND, SubmitNotes
from trainshed.service.learning.turns import CpuBudget

#: A trainer that waits for its input in four tenths of a step.
WAITS = {"wait_share": 0.4}


@pytest.fixture
def notes(store):
    catalog = catalog_for(Dialect.AIPLATFORM_V1, None, (), None)
    return PlanNotes(store=store, make=lambda: SubmitNotes(store=store, catalog=catalog).look)


@pytest.fixture
def taught(store, learning):  # noqa: F811 - the fixture
    ended(store, "first", **WAITS)
    learning.learn()


def submitted(store, notes, job_id, job_spec=None, *, project=PROJECT):
    job_spec = job_spec or spec()
    uid = add(store, project=project, job_id=job_id, spec=job_spec, expanded=job_spec).uid
    notes.add(uid, project, job_spec)
    return uid


def plan_notes(store, uid):
    return [event for event in store.events(uid) if event.kind == KIND]


@pytest.mark.usefixtures("taught")
@pytest.mark.parametrize("labels", [{}, {"trainshed-plan": "measure"}], ids=["a job", "measured"])
def test_a_job_that_will_wait_for_its_input_hears_that_and_what_helps(store, notes, labels):
    uid = submitted(store, notes, "second", replace(spec(), labels=labels))
    notes.write()
    (note,) = plan_notes(store, uid)
    assert note.message.startswith("From jobs of this trainer: It is predicted to wait")
    assert "40 % of time" in note.message
    assert "loader workers" in note.message
    assert note.data["severity"] == "WARNING"
    assert note.data["accelerators"] == 2


def test_a_job_that_scales_badly_hears_its_efficiency_and_what_would_cost_less(
    store,
    notes,
    learning,  # noqa: F811 - the fixture
):
    ended(store, "first", parameters=3e8, gradient_bytes=1.2e9)
    learning.learn()
    uid = submitted(store, notes, "many", spec(8))
    notes.write()
    (note,) = plan_notes(store, uid)
    assert "16 GPUs: " in note.message
    assert "% efficiency" in note.message
    assert "times less" in note.message
    assert note.data["cheaper_accelerators"] in {1, 2, 4}, "one host"


def test_a_job_that_is_well_hears_nothing(store, notes, learning):  # noqa: F811 - the fixture
    ended(store, "first")
    learning.learn()
    uid = submitted(store, notes, "second")
    notes.write()
    assert not plan_notes(store, uid)


@pytest.mark.usefixtures("taught")
@pytest.mark.parametrize(
    "job_spec",
    [
        replace(spec(), labels={"trainshed-plan": "off"}),
        spec(program=Program(kind=ProgramKind.CONTAINER, image_uri="registry.test/another")),
        replace(spec(), groups=(replace(spec().groups[0], machine_type="n1-standard-16"),)),
        spec(also=(replace(spec().groups[0], role=Role.WORKER, machine_type="n1-standard-4"),)),
        replace(spec(), groups=()),
    ],
    ids=["silent", "another trainer", "another machine", "machines unlike", "nothing"],
)
def test_these_hear_nothing(store, notes, job_spec):
    uid = submitted(store, notes, "quiet", job_spec)
    notes.write()
    assert [event.message for event in plan_notes(store, uid)] == []


@pytest.mark.usefixtures("taught")
def test_another_project_s_jobs_teach_nothing_here(store, notes):
    uid = submitted(store, notes, "second", project="elsewhere")
    notes.write()
    assert not plan_notes(store, uid)


@pytest.mark.usefixtures("taught")
def test_a_job_that_is_over_hears_nothing_more(store, notes):
    uid = ended(store, "second")
    notes.add(uid, PROJECT, spec())
    notes.write()
    assert not plan_notes(store, uid)


@pytest.mark.usefixtures("taught")
def test_notes_take_a_hundredth_of_a_processor(store, notes):
    now, worked = [100.0], iter([0.0, 0.0, 0.05, 0.05, 0.05, 0.05, 0.06, 0.06])
    turns = CpuBudget(share=SHARE, clock=lambda: now[0], work_clock=lambda: next(worked))
    slow = replace(notes, turns=turns)
    uids = [submitted(store, slow, f"job_{count}") for count in range(2)]
    slow.write()
    assert [len(plan_notes(store, uid)) for uid in uids] == [1, 0], "it has worked for long enough"
    now[0] += 4.9
    slow.write()
    assert not plan_notes(store, uids[1]), "it rests: 50 ms are a hundredth of 5 s"
    now[0] += 0.2
    slow.write()
    assert plan_notes(store, uids[1])


@pytest.mark.usefixtures("taught")
def test_many_alike_are_thought_of_once_and_too_many_go_without(store, notes):
    submit_notes = SubmitNotes(
        store=store, catalog=catalog_for(Dialect.AIPLATFORM_V1, None, (), None)
    )
    turns = CpuBudget(share=SHARE, work_clock=lambda: 0.0)
    quick = replace(notes, make=lambda: submit_notes.look, turns=turns)
    uids = [submitted(store, quick, f"job_{count}") for count in range(5)]
    for _ in range(996):
        quick.add(uids[-1], PROJECT, replace(spec(), groups=()))
    quick.write()
    assert [len(plan_notes(store, uid)) for uid in uids] == [0, 1, 1, 1, 1]
    assert len(submit_notes._notes) == 1


@pytest.mark.usefixtures("taught")
def test_a_note_that_fails_rests_as_well_and_the_others_are_made_later(store, notes):
    now, worked, looked = [100.0], [0.0], []

    def look(request):
        looked.append(request.uid)
        worked[0] += 0.05
        if len(looked) == 1:
            raise ValueError("nobody can read this")

    turns = CpuBudget(share=SHARE, clock=lambda: now[0], work_clock=lambda: worked[0])
    odd = replace(notes, make=lambda: look, turns=turns)
    uids = [submitted(store, odd, f"job_{count}") for count in range(2)]
    with pytest.raises(ValueError, match="nobody"):
        odd.write()
    odd.write()
    assert looked == uids[:1], "it rests"
    now[0] += 5.1
    odd.write()
    assert looked == uids


@pytest.mark.usefixtures("taught")
def test_a_calibration_that_cannot_be_read_gives_no_note_and_is_told_once(store, notes, caplog):
    spoil(store)
    quick = replace(notes, turns=CpuBudget(share=SHARE, work_clock=lambda: 0.0))
    uids = [submitted(store, quick, f"job_{count}") for count in range(2)]
    quick.write()
    assert not any(plan_notes(store, uid) for uid in uids)
    assert caplog.text.count("cannot read calibration") == 1


def test_a_project_that_was_taught_nothing_needs_no_planner(store, notes):
    nobody = replace(notes, make=pytest.fail)
    submitted(store, nobody, "first")
    nobody.write()
