"""Submitting: every recorded request, and every way in which a job is refused."""

import json
from pathlib import Path

import pytest

from service.submitting import (
    PLACE,
    PROJECT,
    Desk,
    custom_job,
    fields,
    images,
    ml_job,
    pool,
    refusal,
)
from store.builders import advance, ended, trial, trial_job
from trainshed.model.refusals import Code
from trainshed.model.resources import FleetPolicy, Node
from trainshed.model.roles import Role
from trainshed.model.status import JobState
from trainshed.model.study import SEARCH_RULE, AshaRule, ParameterPrior, PriorWidth
from trainshed.model.trials import Measurement, TrialState
from trainshed.placement.jobs import QuotaRule
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.study_reads import StudyReader
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.studies import NewTrial, StudyStep
from trainshed.wire import detect
from trainshed.wire.aiplatform_v1 import render as vertex
from trainshed.wire.ml_v1 import render as ml_v1

REQUESTS = sorted((Path(__file__).parents[1] / "wire/requests").glob("*.json"))
KINDS = {
    detect.DocumentKind.ML_JOB: JobKind.ML_JOB,
    detect.DocumentKind.CUSTOM_JOB: JobKind.CUSTOM_JOB,
}
KINDS[detect.DocumentKind.TUNING_JOB] = JobKind.TUNING_JOB

#: The recorded calls that are refused, and the field that is named for it.
REFUSED = {
    "gcloud-3.2-hyperparameters": "trainingInput.runtimeVersion",  # it is not in the recording
    "gcloud-3.2-hyperparameters-misspelled": "trainingInput.hyperparameters.goal",
    "gcloud-5.3-config-misspelled": "jobSpec.workerPoolSpecs[0].replicaCountX",
    "gcloud-6.1-tuning": "studySpec.parameters[0].doubleValueSpec",  # GRID_SEARCH over a DOUBLE
    "shape-ml-lower-case-words": "trainingInput.runtimeVersion",  # neither it nor an image
    "shape-ml-prediction": "predictionInput",
    "shape-vertex-many-faults": "displayName",
    "vertex-4.3-local-script-own-image": "jobSpec.workerPoolSpecs[0].containerSpec.imageUri",
}
SHOWN = {
    JobKind.ML_JOB: ml_v1.job,
    JobKind.CUSTOM_JOB: vertex.custom_job,
    JobKind.TUNING_JOB: vertex.tuning_job,
}


def calls():
    for path in REQUESTS:
        document = json.loads(path.read_text())
        kind = detect.kind_of(document)
        if kind in KINDS:
            yield pytest.param(path.stem, KINDS[kind], document, id=path.stem)


@pytest.mark.parametrize(("name", "kind", "document"), list(calls()))
def test_a_recorded_call_is_stored_as_it_was_sent_or_refused_by_field(desk, name, kind, document):
    location = "" if kind is JobKind.ML_JOB else PLACE

    def create():
        return desk.jobs.create(kind, PROJECT, location, document, creator="ann")

    if name in REFUSED:
        error = refusal(create)
        assert error.code is Code.INVALID_ARGUMENT
        assert fields(error)[0] == REFUSED[name]
        assert REFUSED[name] in error.message
    else:
        record = create()
        is_study = record.job.spec.is_study  # its trials are queued, not the study itself
        assert record.job.status.state is (JobState.PREPARING if is_study else JobState.QUEUED)
        answer = SHOWN[kind](record.job)
        spec = detect.parse(document).spec
        assert detect.parse(answer).spec.request == spec.request
        assert desk.store.expanded(record.uid).groups


def test_the_refused_requests_are_recorded_ones():
    names = {call.id for call in calls()}
    assert names.issuperset(REFUSED)


def test_a_job_is_durable_before_the_controller_is_woken(store):
    counts = []

    class Watching(Desk):
        def wake(self):
            counts.append(store.waiting_count())

    Watching(store).ml(ml_job())
    assert counts == [1]


def test_a_job_id_is_taken_once_and_a_repetition_of_the_same_call_gets_its_job(desk):
    first = desk.ml(ml_job(), retry_key="k")
    assert desk.ml(ml_job(), retry_key="k").uid == first.uid
    error = refusal(desk.ml, ml_job(), retry_key="other")
    assert (error.code, error.code.http) == (Code.ALREADY_EXISTS, 409)
    assert error.message == "projects/demo/jobs/job_1 already exists"
    assert desk.ml(ml_job(), project="other").uid != first.uid
    assert (
        desk.custom(custom_job(), retry_key="c").uid == desk.custom(custom_job(), retry_key="c").uid
    )


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, ["trainingInput.runtimeVersion", "jobId", "trainingInput.region"]),
        (ml_job("a/b"), ["jobId"]),
        (ml_job("1st"), ["jobId"]),
        (ml_job(""), ["jobId"]),
        (ml_job(region=None), ["trainingInput.region"]),
        (ml_job(region="mars"), ["trainingInput.region"]),
        (ml_job(packageUris=["/etc/passwd"]), ["trainingInput.packageUris"]),
        (ml_job(packageUris=["gs://b/../x"]), ["trainingInput.packageUris"]),
        (ml_job(jobDir="gs://"), ["trainingInput.jobDir"]),
        (ml_job(scaleTier="CUSTOM"), ["trainingInput.masterType"]),
        (
            {"jobId": "j", "trainingInput": {"region": PLACE, "masterConfig": {"imageUri": "x:1"}}},
            ["trainingInput.masterConfig.imageUri"],
        ),
    ],
)
def test_an_ml_job_is_refused_by_the_caller_s_own_field_names(desk, document, named):
    error = refusal(desk.ml, document)
    assert error.code is Code.INVALID_ARGUMENT
    assert fields(error) == named
    assert all(name in error.message for name in named)
    assert not desk.store.waiting_count()


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, ["jobSpec.workerPoolSpecs", "displayName"]),
        (custom_job(name=""), ["displayName"]),
        (custom_job(pool(image="me/own:1")), ["jobSpec.workerPoolSpecs[0].containerSpec.imageUri"]),
        (
            custom_job(pool(image="me/own:1"), pool(image="me/own:1")),
            [f"jobSpec.workerPoolSpecs[{i}].containerSpec.imageUri" for i in (0, 1)],
        ),
        (
            custom_job(pool((), "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-12.py310:latest")),
            ["jobSpec.workerPoolSpecs[0].containerSpec.command"],
        ),
        (
            custom_job(baseOutputDirectory={"outputUriPrefix": "gs://B!/x"}),
            ["jobSpec.baseOutputDirectory.outputUriPrefix"],
        ),
        (
            custom_job(pool(count=2), pool(machineType="n9-huge"), name=""),
            [
                "jobSpec.workerPoolSpecs[0].replicaCount",
                "jobSpec.workerPoolSpecs[1].machineSpec.machineType",
                "displayName",
            ],
        ),
    ],
)
def test_a_custom_job_is_refused_by_the_caller_s_own_field_names(desk, document, named):
    error = refusal(desk.custom, document)
    assert error.code is Code.INVALID_ARGUMENT
    assert fields(error) == named


@pytest.mark.parametrize("kind", KINDS.values())
def test_a_network_label_of_another_value_is_refused_by_name_in_every_dialect(desk, kind):
    document = {
        JobKind.ML_JOB: ml_job(),
        JobKind.CUSTOM_JOB: custom_job(),
        JobKind.TUNING_JOB: study_document(JobKind.TUNING_JOB),
    }[kind]
    place = "" if kind is JobKind.ML_JOB else PLACE
    labelled = {**document, "labels": {"trainshed-network": "host"}}
    error = refusal(desk.jobs.create, kind, PROJECT, place, labelled, creator="ann")
    assert fields(error) == ["labels"]
    assert "trainshed-network must be job or replica, got 'host'" in error.message
    labelled["labels"] = {"trainshed-network": "replica"}
    desk.jobs.create(kind, PROJECT, place, labelled, creator="ann")


def test_a_message_alone_tells_the_first_faults_and_how_many_there_are(desk):
    many = custom_job(*[pool(image="me/own:1", machineType="n9-huge")] * 4, name="")
    error = refusal(desk.custom, many)
    assert len(error.violations) == 9
    assert error.message.endswith("; and 6 more")
    assert "there is no machine type n9-huge" in error.message


@pytest.mark.parametrize("document", [None, [], "{}", 3])
def test_a_body_that_is_no_object_is_refused(desk, document):
    error = refusal(desk.ml, document)
    assert error.code is Code.INVALID_ARGUMENT
    assert "must be a JSON object" in error.message


def test_an_unknown_location_is_refused_as_the_catalog_says(desk):
    error = refusal(desk.custom, custom_job(), location="mars")
    assert fields(error) == ["location"]
    assert "there is no region mars" in error.message


def test_a_custom_image_is_told_both_ways_out(desk):
    error = refusal(desk.custom, custom_job(pool(image="me/own:1")))
    assert "me/own:1" in error.message
    assert "[[image]]" in error.message
    assert "container runtime" in error.message


def test_a_reduction_server_s_image_needs_no_mapping_and_has_a_place_like_others(desk):
    t4 = {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
    reducers = pool((), "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest")
    record = desk.custom(custom_job(pool(**t4), pool(**t4), reducers))
    (waiting,) = desk.store.waiting(limit=9)
    roles = [Role.PRIMARY, Role.WORKER, Role.REDUCER]
    assert [group.role for group in waiting.demand.groups] == roles
    assert waiting.demand.groups[-1].each.vcpus == 4
    assert waiting.demand.gpus == {"NVIDIA_TESLA_T4": 2}
    assert not any("image" in note for note in desk.store.notes(record.uid))


def test_what_is_only_advice_here_is_a_note_of_the_job(desk):
    p100 = pool(acceleratorType="NVIDIA_TESLA_P100", acceleratorCount=1)
    record = desk.custom(custom_job(p100))
    notes = desk.store.notes(record.uid)
    assert any("NVIDIA_TESLA_P100" in note and "acceleratorType" in note for note in notes)


def test_a_python_version_that_is_not_given_is_a_note_of_the_job(desk):
    document = ml_job(runtimeVersion="1.14")
    del document["trainingInput"]["pythonVersion"]
    record = desk.ml(document)
    notes = desk.store.notes(record.uid)
    assert any(
        note.startswith("trainingInput.pythonVersion: not given;") and "Python 2.7" in note
        for note in notes
    )
    assert any("TensorFlow 1.14.0 on Python 2.7" in note for note in notes)
    assert "pythonVersion" not in ml_v1.job(desk.get(record).job)["trainingInput"]


def test_the_demand_is_that_of_the_catalog_s_machines(desk):
    desk.ml(
        ml_job(
            scaleTier="CUSTOM",
            masterType="n1-highmem-8",
            workerType="n1-standard-4",
            workerCount="3",
        )
    )
    (waiting,) = desk.store.waiting(limit=9)
    shape = [(g.role, g.count, g.each.vcpus, g.each.memory_gb) for g in waiting.demand.groups]
    assert shape == [(Role.PRIMARY, 1, 8, 52.0), (Role.WORKER, 3, 4, 15.0)]
    assert waiting.demand.region == PLACE


NODE = Node(name="n", gpus={"NVIDIA_TESLA_T4": 2}, policy=FleetPolicy.BEST_EFFORT)
T4 = {"acceleratorType": "NVIDIA_TESLA_T4"}


def test_a_job_that_no_node_can_ever_hold_is_refused_with_what_would_do(store):
    store.see_nodes("local", [NODE])
    desk = Desk(store)
    error = refusal(desk.custom, custom_job(pool(**T4, acceleratorCount=4)))
    assert (error.code, error.code.http) == (Code.FAILED_PRECONDITION, 400)
    assert "4" in error.message
    assert "2" in error.message
    desk.custom(custom_job(pool(**T4, acceleratorCount=2)))


def test_a_job_beyond_its_project_s_quota_is_refused_at_once(store):
    store.see_nodes("local", [NODE])
    desk = Desk(store, quotas=(QuotaRule(accelerator="NVIDIA_TESLA_T4", limit=1),))
    error = refusal(desk.custom, custom_job(pool(**T4, acceleratorCount=2)))
    assert (error.code, error.code.http) == (Code.RESOURCE_EXHAUSTED, 429)
    assert "NVIDIA_TESLA_T4" in error.message
    desk.custom(custom_job(pool(**T4, acceleratorCount=1)))


def study_document(kind):
    path = "vertex-4.5-tuning" if kind is JobKind.TUNING_JOB else "vertex-7-ml-answer"
    return next(json.loads(p.read_text()) for p in REQUESTS if p.stem == path)


@pytest.mark.parametrize("kind", [JobKind.TUNING_JOB, JobKind.ML_JOB])
def test_a_study_is_stored_and_does_not_wait_in_the_queue(desk, kind):
    record = desk.jobs.create(kind, PROJECT, PLACE, study_document(kind), creator="ann")
    assert record.job.spec.is_study
    assert not desk.store.waiting_count()
    assert [study.uid for study in desk.store.open_studies()] == [record.uid]
    assert desk.jobs.trials(record) == ()
    assert record.job.spec.study.search_rule == SEARCH_RULE
    assert desk.store.to_launch(record.uid)[0].study.search_rule == SEARCH_RULE


@pytest.mark.parametrize("kind", [JobKind.TUNING_JOB, JobKind.ML_JOB])
def test_a_label_chooses_the_rule_of_early_stopping(desk, kind):
    document = {**study_document(kind), "labels": {"trainshed-early-stopping": "asha-4"}}
    record = desk.jobs.create(kind, PROJECT, PLACE, document, creator="ann")
    assert record.job.spec.study.stopping == AshaRule(reduction=4, pauses=True)
    assert desk.store.to_launch(record.uid)[0].study.stopping == AshaRule(reduction=4, pauses=True)


@pytest.mark.parametrize("kind", [JobKind.TUNING_JOB, JobKind.ML_JOB])
def test_an_unknown_label_of_early_stopping_is_refused_by_its_field(desk, kind):
    document = {**study_document(kind), "labels": {"trainshed-early-stopping": "hyperband"}}
    error = refusal(desk.jobs.create, kind, PROJECT, PLACE, document, creator="ann")
    assert [one.field for one in error.violations] == ["labels"]
    assert "decay-curve" in error.violations[0].accepted


def with_prior(kind, name, text):
    document = {**study_document(kind), "labels": {f"trainshed-prior-{name}": text}}
    document.get("studySpec", {}).pop("algorithm", None)
    return document


@pytest.mark.parametrize("kind", [JobKind.TUNING_JOB, JobKind.ML_JOB])
def test_labels_say_where_the_best_values_are_expected(desk, kind):
    document = with_prior(kind, "lr", "1e-3_wide")
    record = desk.jobs.create(kind, PROJECT, PLACE, document, creator="ann")
    expected = (ParameterPrior(parameter_id="lr", value="1e-3", width=PriorWidth.WIDE),)
    assert record.job.spec.study.priors == expected
    assert desk.store.to_launch(record.uid)[0].study.priors == expected
    answer = StudyReader(Stories(desk.store)).describe(PROJECT, str(record.job.job_id))
    assert answer.priors == "lr near 1e-3 (wide)"


@pytest.mark.parametrize("kind", [JobKind.TUNING_JOB, JobKind.ML_JOB])
def test_a_label_of_an_unknown_parameter_is_refused_by_its_field(desk, kind):
    document = with_prior(kind, "momentum", "1")
    error = refusal(desk.jobs.create, kind, PROJECT, PLACE, document, creator="ann")
    assert [one.field for one in error.violations] == ["labels"]
    assert "trainshed-prior-" in error.violations[0].accepted


def gcloud_document(stem, **labels):
    document = next(json.loads(p.read_text()) for p in REQUESTS if p.stem == stem)
    return {**document, "labels": {**document.get("labels", {}), **labels}}


def test_of_gclouds_early_stopping_the_label_says_which_rule(desk):
    label = {"trainshed-early-stopping": "asha-2-10"}
    document = gcloud_document("gcloud-3.2-hyperparameters", **label)
    assert document["trainingInput"]["hyperparameters"]["enableTrialEarlyStopping"]
    document["trainingInput"] |= {"runtimeVersion": "2.11", "pythonVersion": "3.7"}
    del document["trainingInput"]["hyperparameters"]["resumePreviousJobId"]
    record = desk.jobs.create(JobKind.ML_JOB, PROJECT, PLACE, document, creator="ann")
    assert record.job.spec.study.stopping == AshaRule(reduction=2, first_rung=10, pauses=True)


def test_a_label_beside_another_rule_of_gclouds_file_is_refused(desk):
    label = {"trainshed-early-stopping": "asha"}
    document = gcloud_document("gcloud-6.1-tuning", **label)
    error = refusal(desk.jobs.create, JobKind.TUNING_JOB, PROJECT, PLACE, document, creator="ann")
    messages = [one.message for one in error.violations if one.field == "labels"]
    assert messages == [
        "the label trainshed-early-stopping is asha, and the study has the rule median"
    ]


def make_two_trials(store, uid):
    """Give the study ``first`` a trial with a result and one without."""
    jobs = [trial_job(number, study_id="first", project=PROJECT) for number in (1, 2)]
    new_trials = [NewTrial(trial=trial(n), job=job) for n, job in enumerate(jobs, 1)]
    advance(store, uid, new_trials=tuple(new_trials))
    won = trial(1, state=TrialState.SUCCEEDED, final=Measurement(metrics=(("acc", 0.5),)))
    advance(store, uid, trials=(won, ended(2)))


def test_a_study_goes_on_only_from_one_that_is_over_and_alike(desk):
    document = study_document(JobKind.ML_JOB)

    def create(job_id, **more):
        training = {**document["trainingInput"]}
        training["hyperparameters"] = {**training["hyperparameters"], **more}
        changed = {"jobId": job_id, "trainingInput": training}
        return desk.jobs.create(JobKind.ML_JOB, PROJECT, "", changed, creator="ann")

    first = create("first")
    make_two_trials(desk.store, first.uid)
    for job_id, word in (("nobody", "there is no"), ("first", "not over")):
        error = refusal(create, "second", resumePreviousJobId=job_id)
        assert fields(error) == ["trainingInput.hyperparameters.resumePreviousJobId"]
        assert word in error.message
    desk.jobs.cancel(JobKind.ML_JOB, PROJECT, "", "first")
    end(desk.store, first.uid)
    other = [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]
    error = refusal(create, "second", resumePreviousJobId="first", params=other)
    assert "other parameters" in error.message
    second = create("second", resumePreviousJobId="first")
    assert second.job.spec.study.resume_previous_uid == first.uid
    events = [e.message for e in desk.store.events(second.uid) if e.kind == "KNOWN_RESULTS"]
    assert events == ["1 of 2 trials of study first is used."]


def test_a_study_that_goes_on_and_names_no_parameters_has_those_of_the_earlier_one(desk):
    document = study_document(JobKind.ML_JOB)
    training = document["trainingInput"]
    search = {**training["hyperparameters"], "hyperparameterMetricTag": "auc", "goal": "MINIMIZE"}

    def create(job_id, hyperparameters):
        changed = {"jobId": job_id, "training_input": {**training, "hyperparameters": None}}
        changed["training_input"]["hyperparameters"] = hyperparameters
        return desk.jobs.create(JobKind.ML_JOB, PROJECT, "", changed, creator="ann")

    first = create("first", search)
    only = {"resume_previous_job_id": "first", "max_trials": 3}
    assert "not over" in refusal(create, "second", only).message
    end(desk.store, first.uid)
    second = create("second", only)
    end(desk.store, second.uid)
    third = create("third", {**only, "resume_previous_job_id": "second"})
    earlier = first.job.spec.study
    for record in (second, third):
        study = record.job.spec.study
        assert (study.parameters, study.metrics) == (earlier.parameters, earlier.metrics)
        assert study.trial_count_max == 3
        tuning = ml_v1.job(record.job)["trainingInput"]["hyperparameters"]
        assert (
            tuning["params"] == ml_v1.job(first.job)["trainingInput"]["hyperparameters"]["params"]
        )
    assert third.job.spec.study.resume_previous_uid == second.uid
    for job_id in ("nobody", "third"):
        error = refusal(create, "fourth", {**only, "resume_previous_job_id": job_id})
        assert fields(error) == ["trainingInput.hyperparameters.resumePreviousJobId"]


def end(store, uid):
    record = store.job_by_uid(uid)
    step = StudyStep(uid=uid, version=record.version, state=JobState.CANCELLED, server=None)
    assert store.apply_study(step)


def test_without_a_table_only_google_s_own_images_run(store):
    desk = Desk(store, images())
    prebuilt = "europe-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest"
    record = desk.custom(custom_job(pool(image=prebuilt)))
    assert desk.store.notes(record.uid)[0].startswith("Asked for PyTorch 1.13 on Python 3.10 (")
    assert refusal(desk.custom, custom_job()).violations[0].rule == "image-unmapped"
