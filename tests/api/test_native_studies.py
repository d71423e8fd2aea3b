"""The native routes of a study: its description, pages of trials, curves and importances."""

from dataclasses import replace
from random import Random

import pytest

from api.support import application, build_native, client, project
from databases import new_database
from store.builders import (
    add,
    add_study,
    advance,
    go,
    read,
    reported,
    trial,
    trial_job,
    vertex_trial_job,
)
from trainshed.api.native.app import native_app
from trainshed.model.refusals import Refusal
from trainshed.model.status import JobState
from trainshed.model.study import (
    AshaRule,
    Condition,
    ConvexRule,
    Goal,
    Metric,
    ParameterKind,
    ParameterSpec,
    Safety,
    Scale,
    StudySpec,
)
from trainshed.model.trials import TRIAL_PAUSED, TRIAL_STOPPED_EARLY, Measurement, TrialState
from trainshed.service.jobs import rung_curves
from trainshed.service.jobs.job_lookup import find_job
from trainshed.service.jobs.rung_curves import RungCurves
from trainshed.service.jobs.story import Stories
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.studies import NewTrial
from trainshed.tuning.measuring import measured

JOBS = "/trainshed/v1/projects/demo/jobs"
SPEC = StudySpec(
    metrics=(
        Metric(metric_id="accuracy"),
        Metric(metric_id="size", goal=Goal.MINIMIZE, safety=Safety(threshold=2.0)),
    ),
    parameters=(
        ParameterSpec(
            parameter_id="lr", kind=ParameterKind.DOUBLE, bounds=(1e-5, 1.0), scale=Scale.LOG
        ),
        ParameterSpec(
            parameter_id="model",
            kind=ParameterKind.CATEGORICAL,
            values=("linear", "deep"),
            conditions=(
                Condition(
                    parent_values=("deep",),
                    parameter=ParameterSpec(
                        parameter_id="layers", kind=ParameterKind.DISCRETE, values=(2.0, 4.0)
                    ),
                ),
            ),
        ),
    ),
    stopping=ConvexRule(),
    trial_count_max=50,
    trial_count_parallel=2,
)
EVIDENCE = {
    "rule": "convex",
    "metric": "accuracy",
    "value": 0.4,
    "bar": 0.5,
    "at": 3.0,
    "by_time": False,
    "reason": "Its accuracy would be 0.4 at best",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = open_store(new_database(tmp_path_factory.mktemp("studies")))
    yield store
    store.close()


@pytest.fixture(scope="module")
def edge(store):
    native = build_native(stories=Stories(store))
    native.store.project = project
    with client(application([], native=native_app(native, "1"))) as edge:
        yield edge


def get(edge, path, status=200):
    answer = edge.get(f"{JOBS}/{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


def final(accuracy, size=1.0):
    return Measurement(step=4, metrics=(("accuracy", accuracy), ("size", size)))


def succeeded(number, accuracy, size=1.0, **changes):
    state = TrialState.SUCCEEDED
    return trial(number, state=state, final=final(accuracy, size), **changes)


def add_trials(store, uid, *numbers):
    study_id = read(store, uid).job.job_id
    jobs = [
        NewTrial(trial=trial(n), job=trial_job(n, study_id=study_id, project="demo"))
        for n in numbers
    ]
    advance(store, uid, new_trials=tuple(jobs))


@pytest.fixture(scope="module")
def study(store):
    """Two trials that succeeded, the better one beyond a limit, one stopped early, one active."""
    record = add_study(store, project="demo", study=SPEC)
    add_trials(store, record.uid, 1, 2, 3, 4)
    early = NewEvent(
        kind=TRIAL_STOPPED_EARLY, message="Trial 3 is stopped.", data={"trial": 3, **EVIDENCE}
    )
    old = NewEvent(kind=TRIAL_STOPPED_EARLY, message="Trial 1 is stopped early. Why: unknown")
    trials = (succeeded(1, 0.5), succeeded(2, 0.9, 3.0), succeeded(3, 0.4, stopped_early=True))
    reports = (reported(1, 0.1, 0.5), reported(4, *[0.25] * 9))
    advance(store, record.uid, trials=trials, reports=reports, events=(early, old))
    return record


@pytest.mark.usefixtures("study")
def test_a_study_is_described_with_its_conditions_limits_and_leader(edge):
    body = get(edge, "tune/study")
    assert body["metrics"] == [
        {"id": "accuracy", "goal": "MAXIMIZE"},
        {"id": "size", "goal": "MINIMIZE", "threshold": 2.0},
    ]
    lr, model, layers = body["parameters"]
    assert lr == {"id": "lr", "kind": "DOUBLE", "scale": "LOG", "bounds": [1e-5, 1.0]}
    assert model["values"] == ["linear", "deep"]
    assert (layers["parent"], layers["parentValues"]) == ("model", ["deep"])
    assert (body["stopping"], body["trialCountMax"], body["leaders"]) == ("convex", 50, [1])
    counts = {"made": 4, "running": 0, "waiting": 1, "paused": 0, "succeeded": 3, "infeasible": 0}
    assert body["counts"] == {**counts, "stoppedEarly": 1, "safe": 2}
    assert body["safety"] == "size at most 2: 2 of 3 ended trials are safe (67%)"
    assert "frontSize" not in body
    assert body["frontHistory"] == []
    assert "trials were made" not in body["message"], "the counts say it"


@pytest.mark.usefixtures("study")
def test_a_trial_beyond_a_limit_names_it(edge):
    breaks = {
        trial["number"]: trial.get("brokenLimits") for trial in get(edge, "tune/trials")["trials"]
    }
    limit = {"metric": "size", "value": 3.0, "threshold": 2.0, "reason": "size 3 > 2"}
    assert breaks == {1: None, 2: [limit], 3: None, 4: None}


def test_a_study_with_two_objectives_has_a_front_and_its_growth(edge, store):
    goals = (Metric(metric_id="accuracy"), Metric(metric_id="size", goal=Goal.MINIMIZE))
    record = add_study(
        store, project="demo", job_id="front", study=replace(SPEC, metrics=goals, stopping=None)
    )
    add_trials(store, record.uid, 1, 2, 3)
    trials = (succeeded(1, 0.5, 2.0), succeeded(2, 0.9, 3.0), succeeded(3, 0.4, 2.5))
    advance(store, record.uid, trials=trials)
    body = get(edge, "front/study")
    assert (body["leaders"], body["frontSize"], body["safety"]) == ([1, 2], 2, "")
    assert [(step["trial"], step["size"]) for step in body["frontHistory"]] == [(1, 1), (2, 2)]
    message = Stories(store).explain_state(find_job(store, "demo", "front").record)
    assert "Pareto front of 2 trials: 1, 2." in message


@pytest.mark.usefixtures("study")
def test_an_explanation_says_how_many_trials_are_safe(store):
    message = Stories(store).explain_state(find_job(store, "demo", "tune").record)
    assert "size at most 2: 2 of 3 ended trials are safe (67%). The best so far" in message


def test_an_explanation_of_a_study_that_has_ended_names_its_best_trial(store):
    record = add_study(store, project="demo", job_id="over", study=SPEC)
    add_trials(store, record.uid, 1, 2)
    advance(store, record.uid, trials=(succeeded(1, 0.5), succeeded(2, 0.9)))
    go(store, record.uid, JobState.SUCCEEDED)
    message = Stories(store).explain("demo", "over").message
    assert message.startswith(
        "It completed successfully. 2 of 50 trials were made: 2 succeeded. size at most 2: "
    )
    assert "The best is trial 2 with accuracy 0.9, size 1 (" in message
    failed = add_study(store, project="demo", job_id="empty", study=SPEC)
    go(store, failed.uid, JobState.CANCELLED)
    assert "trials" not in Stories(store).explain("demo", "empty").message


def test_a_young_study_has_no_leader(edge, store):
    add_study(store, project="demo", job_id="young", study=SPEC)
    body = get(edge, "young/study")
    assert (body["leaders"], body["counts"]["made"]) == ([], 0)
    assert get(edge, "young/trials") == {"trials": []}
    assert get(edge, "young/trials:curves")["curves"] == []


def test_rungs_have_their_trials_and_their_bar(edge, store):
    halving = replace(SPEC, stopping=AshaRule(), metrics=SPEC.metrics[:1])
    record = add_study(store, project="demo", job_id="halving", study=halving)
    assert get(edge, "halving/study")["rungs"] == []
    add_trials(store, record.uid, 1, 2, 3)
    reports = (reported(1, *[0.5] * 28), reported(2, *[0.25] * 4), reported(3, *[0.75] * 4))
    last = Measurement(step=27, metrics=(("accuracy", 0.5),))
    ended = trial(1, state=TrialState.SUCCEEDED, final=last)
    advance(store, record.uid, trials=(ended,), reports=reports)
    body = get(edge, "halving/study")
    assert (body["stopping"], body["rungsByTime"]) == ("asha", False)
    assert body["rungs"] == [
        {"at": 1.0, "trials": 3, "bar": 0.75},
        {"at": 3.0, "trials": 3, "bar": 0.75},
        {"at": 9.0, "trials": 1},
    ]


def test_a_paused_trial_is_counted_apart_and_says_why(edge, store):
    halving = replace(SPEC, stopping=AshaRule(pauses=True), metrics=SPEC.metrics[:1])
    record = add_study(store, project="demo", job_id="pauses", study=halving)
    add_trials(store, record.uid, 1, 2, 3)
    asha = {**EVIDENCE, "rule": "asha", "rung": 1}
    events = [
        NewEvent(kind=TRIAL_PAUSED, message="Paused.", data={"trial": number, **asha, "at": at})
        for number, at in ((2, 3.0), (3, 3.0), (2, 9.0))
    ]
    over = NewEvent(kind=TRIAL_STOPPED_EARLY, message="It ends.", data={"trial": 3})
    advance(
        store,
        record.uid,
        trials=(
            trial(2, state=TrialState.PAUSED, paused_at=9),
            succeeded(3, 0.4, stopped_early=True),
        ),
        events=(*events, over),
    )
    counts = get(edge, "pauses/study")["counts"]
    assert [counts[name] for name in ("waiting", "paused", "stoppedEarly")] == [1, 1, 1]
    first, second, third = get(edge, "pauses/trials")["trials"]
    assert "earlyStop" not in first
    assert (second["state"], second["earlyStop"]["at"]) == ("PAUSED", 9.0)
    assert (third["state"], third["earlyStop"]["rung"]) == ("SUCCEEDED", 1)
    text = Stories(store).explain("demo", "pauses").message
    assert "1 waiting or starting, 1 paused, 1 succeeded" in text


def test_the_curves_of_rungs_are_computed_once(store, monkeypatch):
    measured_numbers = []

    def count(study, trial, reports):
        measured_numbers.append(trial.number)
        return measured(study, trial, reports)

    monkeypatch.setattr(rung_curves, "measured", count)
    halving = replace(SPEC, stopping=AshaRule(), metrics=SPEC.metrics[:1])
    record = add_study(store, project="demo", job_id="often", study=halving)
    add_trials(store, record.uid, 1, 2)
    advance(store, record.uid, reports=(reported(1, *[0.5] * 4), reported(2, *[0.25] * 2)))
    curves = RungCurves()
    for _ in range(2):
        rungs = curves.rungs(record.uid, halving, store.trials(record.uid))
    assert [(rung.at, len(rung.values)) for rung in rungs] == [(2.0, 1)]
    assert measured_numbers == [1, 2]
    advance(store, record.uid, reports=(reported(2, 0.1, 0.2, 0.3, mark=2),))
    rungs = curves.rungs(record.uid, halving, store.trials(record.uid))
    assert [(rung.at, len(rung.values)) for rung in rungs] == [(2.0, 2)]
    assert measured_numbers == [1, 2, 2]
    few = RungCurves(points_max=3)
    for _ in range(2):
        assert few.rungs(record.uid, halving, store.trials(record.uid)) == rungs
    assert len(measured_numbers) > 5, "a full cache is emptied"


@pytest.mark.usefixtures("study")
def test_a_study_with_another_rule_has_no_rungs(edge):
    assert "rungs" not in get(edge, "tune/study")


@pytest.mark.usefixtures("study")
def test_an_early_stop_has_its_rule_its_bar_and_its_value(edge):
    first, _, third, fourth = get(edge, "tune/trials")["trials"]
    camel = {("byTime" if name == "by_time" else name): value for name, value in EVIDENCE.items()}
    assert third["earlyStop"] == camel
    assert "earlyStop" not in first
    assert (fourth["parameters"], fourth["metrics"]) == ({"lr": 0.5}, {"accuracy": 0.25})


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("after=0&limit=2", [1, 2]),
        ("after=2&limit=2", [3, 4]),
        ("after=99", []),
        ("", [1, 2, 3, 4]),
    ],
)
def test_trials_come_page_by_page(edge, query, numbers):
    assert [one["number"] for one in get(edge, f"tune/trials?{query}")["trials"]] == numbers


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    "path",
    [
        "trials?after=-1",
        "trials?limit=0",
        "trials?limit=5001",
        "trials:curves?trialCount=1001",
        "trials:curves?pointCount=2",
        "trials:curves?metric=loss",
        "study:importances?metric=loss",
    ],
)
def test_numbers_and_metrics_that_do_not_exist_are_refused(edge, path):
    error = get(edge, f"tune/{path}", status=400)["error"]
    assert error["status"] == "INVALID_ARGUMENT"
    if "metric=" in path:
        assert error["message"] == "metric must be one of accuracy, size, got 'loss'"


@pytest.mark.usefixtures("study")
def test_curves_are_those_of_the_newest_trials_thinned_out(edge):
    body = get(edge, "tune/trials:curves?pointCount=4")
    assert (body["metric"], body["byTime"], body["trials"]) == ("accuracy", False, 4)
    first, third, fourth = body["curves"]
    assert third == {"trial": 3, "at": [4.0], "values": [0.4]}, "what its rule predicted"
    assert first == {"trial": 1, "at": [0.0, 1.0], "values": [0.1, 0.5]}
    assert (fourth["trial"], fourth["at"][0], fourth["at"][-1]) == (4, 0.0, 8.0)
    assert len(fourth["at"]) <= 4
    newest = get(edge, "tune/trials:curves?trialCount=1")
    assert [curve["trial"] for curve in newest["curves"]] == [4]


def test_curves_of_a_metric_to_be_minimised_have_its_own_values(edge, store):
    down = StudySpec(
        metrics=(Metric(metric_id="accuracy", goal=Goal.MINIMIZE),), parameters=SPEC.parameters
    )
    uid = add_study(store, project="demo", job_id="down", study=down).uid
    add_trials(store, uid, 1)
    advance(store, uid, reports=(reported(1, 0.75, 0.5, float("nan")),))
    [curve] = get(edge, "down/trials:curves")["curves"]
    assert curve["values"] == [0.75, 0.5]


@pytest.mark.usefixtures("study")
def test_importances_say_what_they_need(edge):
    body = get(edge, "tune/study:importances")
    assert body["importances"] == []
    assert body["message"] == "Importances need 5 finished trials; there are 3."


def test_importances_name_the_parameter_that_decides(edge, store):
    uid = add_study(store, project="demo", job_id="long", study=SPEC).uid
    add_trials(store, uid, *range(1, 31))
    chance = Random(1)  # noqa: S311 - a test draws
    rates = [chance.random() for _ in range(30)]
    values = [(("lr", rate), ("model", chance.choice(["linear", "deep"]))) for rate in rates]
    done = [succeeded(n, pair[0][1], values=pair) for n, pair in enumerate(values, 1)]
    advance(store, uid, trials=tuple(done))
    body = get(edge, "long/study:importances")
    assert body["importances"][0]["parameter"] == "lr"
    assert (body["trials"], body["message"].endswith("rough guess.")) == (30, True)


@pytest.mark.usefixtures("study")
def test_a_vertex_trial_names_its_job(edge, store):
    record = add_study(store, project="demo", kind=JobKind.TUNING_JOB, job_id="", study=SPEC)
    [row] = advance(
        store, record.uid, new_trials=(NewTrial(trial=trial(1), job=vertex_trial_job(1)),)
    )
    [one] = get(edge, f"{record.job.job_id}/trials")["trials"]
    assert one["job"] == row.job_name
    [ml, *_] = get(edge, "tune/trials")["trials"]
    assert get(edge, ml["job"])["name"] == "projects/demo/jobs/tune/trials/1"
    assert get(edge, f"{ml['job']}/explain")["state"] == "QUEUED"


def test_a_trial_of_ml_v1_is_a_job_of_its_project_until_it_is_deleted(edge, store):
    study = add_study(store, project="demo", job_id="short", study=SPEC)
    jobs = (NewTrial(trial=trial(1), job=trial_job(1, study_id="short", project="demo")),)
    [row] = advance(store, study.uid, new_trials=jobs)
    assert find_job(store, "demo", str(row.job_uid)).record.uid == row.job_uid
    for project_id, job_id in (("other", row.job_uid), ("demo", study.uid)):
        with pytest.raises(Refusal, match="has no job"):
            find_job(store, project_id, str(job_id))
    go(store, row.job_uid, JobState.CANCELLED)
    store.delete_job(row.job_uid)
    get(edge, str(row.job_uid), 404)


@pytest.fixture(scope="module")
def plain(store):
    return add(store, project="demo", kind=JobKind.ML_JOB, job_id="plain")


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("route", ["study", "study:importances", "trials:curves"])
def test_other_jobs_have_no_study(edge, route):
    error = get(edge, f"plain/{route}", status=404)["error"]
    assert error["message"] == "job plain is not a tuning job; it has no study"
    error = get(edge, f"absent/{route}", status=404)["error"]
    assert error["message"] == "project demo has no job absent"


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize("route", ["study", "study:importances", "trials:curves", "trials"])
def test_another_projects_study_is_closed(edge, route):
    headers = {"Authorization": "Bearer other"}
    assert edge.get(f"{JOBS}/tune/{route}", headers=headers).status_code == 403
