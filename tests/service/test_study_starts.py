"""What a new study has before its first trial, by a call or by its label."""

import json
from dataclasses import replace

import pytest

from service.submitting import PLACE, PROJECT, custom_job, fields, ml_job, pool, refusal
from store.builders import advance, trial_job, vertex_trial_job
from trainshed.model.status import JobState
from trainshed.model.study_start import PointRow, ResultRow, StartCall
from trainshed.model.trials import Measurement, TrialOrigin, TrialRecord, TrialState
from trainshed.service.jobs.job_service import CreateCall
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.study_reads import StudyReader
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.studies import NewTrial
from trainshed.wire.native_v1 import FirstPointPlace, document

LABEL = "trainshed-warm-start"


def study(trials=4, labels=None, low=0.0):
    lr = {"parameterId": "lr", "doubleValueSpec": {"minValue": low, "maxValue": 1.0}}
    opt = {"parameterId": "opt", "categoricalValueSpec": {"values": ["adam", "sgd"]}}
    return {
        "displayName": "digits",
        "maxTrialCount": trials,
        "labels": labels or {},
        "studySpec": {
            "metrics": [{"metricId": "acc", "goal": "MAXIMIZE"}],
            "parameters": [lr, opt],
        },
        "trialJobSpec": {"workerPoolSpecs": [pool()]},
    }


def create(desk, document=None, kind=JobKind.TUNING_JOB, **start):
    call = CreateCall(kind, PROJECT, PLACE, document or study(), StartCall(**start))
    return desk.jobs.create_study(call, creator="ann")


def row(number, acc=0.5, opt="adam", **more):
    parameters = {"lr": number / 10, "opt": opt, **more}
    return ResultRow(name=f"line {number}", parameters=parameters, metrics={"acc": acc})


def messages(desk, record, kind):
    return [e.message for e in desk.store.events(record.uid) if e.kind == kind]


def test_results_and_points_are_stored_with_the_study_and_reported(desk):
    record, report = create(
        desk,
        results=(row(1), row(2, opt="lion"), row(3, opt="lamb"), row(30), row(4, seed=1)),
        sources=("results.csv",),
        points=(PointRow(name="lr=0.5", parameters={"lr": "0.5", "opt": "sgd"}),),
    )
    start = desk.store.study_start(record.uid)
    assert [dict(result.values)["lr"] for result in start.results] == [0.1, 0.4]
    assert start.points == ((("lr", 0.5), ("opt", "sgd")),)
    assert (report.results, report.ignored, report.first_points) == (2, 3, 1)
    assert list(report.left_out) == ["seed"]
    assert [(one.reason, one.count) for one in report.reasons] == [
        ("opt is not one of adam, sgd", 2),
        ("lr is not between 0 and 1", 1),
    ]
    assert [(one.name, one.value) for one in report.reasons[0].examples] == [
        ("line 2", "lion"),
        ("line 3", "lamb"),
    ]
    assert messages(desk, record, "KNOWN_RESULTS") == [report.message]
    assert report.message == (
        "2 of 5 known results of results.csv are used; ignored: opt is not one of adam, sgd (2); "
        "lr is not between 0 and 1 (1)."
    )
    assert [(one.name, one.used, one.ignored) for one in report.sources] == [("results.csv", 2, 3)]
    assert messages(desk, record, "FIRST_POINTS") == ["1 first point is tried before the search."]
    assert "lr=0.5" not in json.dumps(record.job.spec.request), "no trial's job carries it"


def test_a_first_point_with_a_known_result_is_told_apart(desk):
    points = [PointRow(name=lr, parameters={"lr": lr, "opt": "sgd"}) for lr in ("0.1", "0.5")]
    record, report = create(
        desk, results=(row(1, opt="sgd"),), sources=("results.csv",), points=tuple(points)
    )
    assert (report.first_points, report.first_points_known) == (1, 1)
    [message] = messages(desk, record, "FIRST_POINTS")
    assert message == (
        "1 first point is tried before the search. "
        "1 more is not tried again: known results have the same values."
    )


def test_a_study_without_them_has_no_events_of_them(desk):
    record, report = create(desk)
    assert report is None
    assert [event.kind for event in desk.store.events(record.uid)] == ["ACCEPTED"]
    assert desk.store.count_start(record.uid) == (0, 0)


def ml_study(job_id, **more):
    """A study of ml v1 with the same parameters."""
    search = {
        "goal": "MAXIMIZE",
        "hyperparameterMetricTag": "acc",
        "params": [
            {"parameterName": "lr", "type": "DOUBLE", "minValue": 0, "maxValue": 1},
            {"parameterName": "opt", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]},
        ],
    }
    package = {"packageUris": ["gs://stage/p.tar.gz"], "scaleTier": "BASIC"}
    return {**ml_job(job_id, hyperparameters=search, **package), **more}


def ended_study(desk, **trials):
    """A study of ml v1 with the trials of these numbers: a value, or None for no result."""
    record = desk.ml(ml_study("older"))
    values = (("lr", 0.25), ("opt", "sgd"))
    new = [
        NewTrial(
            trial=TrialRecord(number=int(name[1:]), values=values),
            job=replace(trial_job(int(name[1:]), "older"), project=PROJECT),
        )
        for name in trials
    ]
    advance(desk.store, record.uid, new_trials=tuple(new))
    ended = [
        replace(
            one.trial,
            state=TrialState.INFEASIBLE if value is None else TrialState.SUCCEEDED,
            final=None if value is None else Measurement(metrics=(("acc", value),)),
        )
        for one, value in zip(new, trials.values(), strict=True)
        if value != "runs"
    ]
    advance(desk.store, record.uid, trials=tuple(ended))
    return record


def test_the_results_of_another_study_are_used_also_while_it_runs(desk):
    ended_study(desk, t1=0.5, t2=None, t3="runs")
    record, report = create(desk, studies=("older",))
    assert report.message == (
        "1 of 2 known results of study older is used; ignored: the trial has no result (1)."
    )
    [result] = desk.store.study_start(record.uid).results
    assert result.values == (("lr", 0.25), ("opt", "sgd"))
    assert result.metrics == (("acc", 0.5),)


def test_each_source_is_described_with_how_much_of_it_is_used(desk):
    ended_study(desk, t1=0.5, t2=None)
    rows = (row(1), row(2, opt="lion"))
    results = tuple(replace(one, source=f"{n}.csv") for n, one in enumerate(rows))
    record, report = create(
        desk, results=results, sources=("0.csv", "1.csv", "empty.csv"), studies=("older",)
    )
    expected = [("0.csv", 1, 0), ("1.csv", 0, 1), ("study older", 1, 1), ("empty.csv", 0, 0)]
    assert [(one.name, one.used, one.ignored) for one in report.sources] == expected
    description = StudyReader(Stories(desk.store)).describe(PROJECT, record.job.job_id)
    assert list(description.known_sources) == list(report.sources)
    assert description.known_results == 2


def test_a_repeated_request_gets_the_first_study_and_its_report(desk):
    older = ended_study(desk, t1=0.5, t2="runs")
    rows = (row(1), row(30))
    call = CreateCall(
        JobKind.TUNING_JOB, PROJECT, PLACE, study(), StartCall(results=rows, studies=("older",))
    )
    first = desk.jobs.create_study(call, creator="ann", retry_key="k")
    running = desk.store.trials(older.uid)[1].trial
    final = Measurement(metrics=(("acc", 0.75),))
    ended = replace(running, state=TrialState.SUCCEEDED, final=final)
    advance(desk.store, older.uid, trials=(ended,))
    again = desk.jobs.create_study(call, creator="ann", retry_key="k")
    assert again[0].uid == first[0].uid
    assert document(again[1]) == document(first[1]), "not what it would be now"
    other, report = desk.jobs.create_study(call, creator="ann", retry_key="other")
    assert (other.uid == first[0].uid, report.results) == (False, 3)
    advance(desk.store, older.uid, state=JobState.SUCCEEDED)
    desk.store.delete_job(older.uid)
    assert desk.jobs.create_study(call, creator="ann", retry_key="k")[0].uid == first[0].uid


def test_a_first_point_that_the_continued_study_has_tried_is_known(desk):
    older = ended_study(desk, t1=0.5, t2=None)
    advance(desk.store, older.uid, state=JobState.SUCCEEDED)
    document = ml_study("newer")
    document["trainingInput"]["hyperparameters"] |= {"resumePreviousJobId": "older", "maxTrials": 2}
    points = tuple(PointRow(name=lr, parameters={"lr": lr, "opt": "sgd"}) for lr in ("0.25", "0.5"))
    record, report = create(desk, document, JobKind.ML_JOB, points=points)
    assert (report.first_points, report.first_points_known) == (1, 1)
    [message] = messages(desk, record, "FIRST_POINTS")
    assert "1 more is not tried again: known results have the same values." in message
    [source] = StudyReader(Stories(desk.store)).describe(PROJECT, "newer").known_sources
    assert (source.name, source.used, source.ignored) == ("study older", 1, 1)


def test_trials_say_which_first_point_they_have_and_which_has_the_defaults(desk):
    lr = {"lr": "0.1", "opt": "sgd"}
    points = (
        PointRow(name="line 3 of p.csv", parameters=lr, source="line 3 of p.csv"),
        PointRow(name="lr=0.2", parameters={**lr, "lr": "0.2"}),
    )
    record, _ = create(desk, points=points)
    values = [(("lr", number / 10), ("opt", "sgd")) for number in (1, 2, 3)]
    assert begin(desk, record, values) == [
        (TrialOrigin.FIRST_POINT, FirstPointPlace(position=1, source="line 3 of p.csv")),
        (TrialOrigin.FIRST_POINT, FirstPointPlace(position=2)),
        (None, None),
    ]
    content = study()
    content["studySpec"]["parameters"][0]["doubleValueSpec"]["defaultValue"] = 0.1
    plain, _ = create(desk, content)
    assert begin(desk, plain, [values[0], values[1], values[0]]) == [
        (TrialOrigin.DEFAULTS, None),
        (None, None),
        (None, None),
    ]


def begin(desk, record, values):
    """Begin trials with these values; return why they say they have them."""
    new = [
        NewTrial(
            trial=TrialRecord(number=n, values=one),
            job=replace(vertex_trial_job(n), project=PROJECT),
        )
        for n, one in enumerate(values, 1)
    ]
    advance(desk.store, record.uid, new_trials=tuple(new))
    reader = StudyReader(Stories(desk.store))
    trials = reader.trials(PROJECT, record.job.job_id, after=0, limit=9).trials
    later = reader.trials(PROJECT, record.job.job_id, after=1, limit=9).trials
    assert later == trials[1:]
    return [(one.origin, one.first_point) for one in trials]


def test_the_label_names_a_study_as_gcloud_and_the_sdks_can(desk):
    ended_study(desk, t1=0.5)
    record = desk.jobs.create(
        JobKind.TUNING_JOB, PROJECT, PLACE, study(labels={LABEL: "older"}), creator="ann"
    )
    assert messages(desk, record, "KNOWN_RESULTS") == ["1 known result of study older is used."]
    assert len(desk.store.study_start(record.uid).results) == 1
    of_ml = desk.ml(ml_study("newer", labels={LABEL: "older"}))
    assert len(desk.store.study_start(of_ml.uid).results) == 1
    again = create(desk, study(labels={LABEL: "older"}), studies=("older",))[0]
    assert len(desk.store.study_start(again.uid).results) == 1, "it is the same study"
    text = json.dumps(study(labels={LABEL: str(record.job.job_id)}))
    submitted = desk.texts.submit(PROJECT, text, PLACE, creator="ann")
    uid = int(submitted.name.split("/")[-1])
    [event] = [one for one in desk.store.events(uid) if one.kind == "KNOWN_RESULTS"]
    assert f"of study digits ({record.job.job_id}) are used" in event.message


def test_a_study_that_has_no_result_yet_is_no_fault(desk):
    ended_study(desk, t1="runs")
    record, report = create(desk, studies=("older",))
    assert report.message == "0 known results of study older are used."
    [event] = [e for e in desk.store.events(record.uid) if e.kind == "KNOWN_RESULTS"]
    assert event.data["severity"] == "WARNING"


def test_a_study_that_does_not_exist_is_named(desk):
    error = refusal(create, desk, studies=("nobody",))
    assert fields(error) == ["start.studies[0]"]
    assert "project demo has no job nobody" in error.message
    label = refusal(create, desk, study(labels={LABEL: "nobody"}))
    assert fields(label) == [f"labels.{LABEL}"]
    plain = desk.custom(custom_job())
    error = refusal(create, desk, studies=(plain.job.job_id,))
    assert "is not a tuning job" in error.message


@pytest.mark.parametrize(
    ("start", "field"),
    [
        ({"results": (row(1),)}, "start.results"),
        ({"studies": ("older",)}, "start.studies"),
        ({"points": (PointRow(name="p", parameters={"lr": 1}),)}, "start.points"),
    ],
)
def test_only_tuning_jobs_have_them(desk, start, field):
    error = refusal(create, desk, custom_job(), JobKind.CUSTOM_JOB, **start)
    assert fields(error) == [field]
    assert "not a tuning job" in error.message
    labelled = {**custom_job(), "labels": {LABEL: "older"}}
    assert fields(refusal(desk.custom, labelled)) == [f"labels.{LABEL}"]


def test_results_of_which_none_can_be_used_are_refused(desk):
    error = refusal(create, desk, results=(row(1, opt="lion"),), sources=("r.csv",))
    assert fields(error) == ["start.results"]
    assert "0 of 1 known result of r.csv are used; ignored: opt is not one of" in error.message
    assert list(desk.store.open_studies()) == []


def test_first_points_at_fault_are_named_with_their_parameter(desk):
    points = tuple(
        PointRow(name=name, parameters=values)
        for name, values in (("a", {"lr": 7, "opt": "sgd"}), ("b", {"lr": 1}), ("c", {"x": 1}))
    )
    error = refusal(create, desk, points=points)
    assert fields(error) == [
        "start.points[0].lr",
        "start.points[1].opt",
        "start.points[2].x",
        "start.points[2].lr",
    ]
    assert "start.points[0].lr: lr is not between 0 and 1, got 7" in error.message


def test_first_points_are_at_most_as_many_as_trials_and_100(desk):
    points = tuple(
        PointRow(name=str(n), parameters={"lr": n / 200, "opt": "sgd"}) for n in range(101)
    )
    error = refusal(create, desk, points=points[:5])
    assert "there are 5 first points, and the study has 4 trials" in error.message
    error = refusal(create, desk, study(trials=1), points=points[:2])
    assert "there are 2 first points, and the study has 1 trial " in error.message
    many = refusal(create, desk, study(trials=200), points=points)
    assert "there are 101 first points (accepted: at most 100)" in many.message
