"""``jobs study``: what the page of a study shows, as text and as JSON."""

from cli.standin import StandIn

PATH = "/trainshed/v1/projects/p/jobs/tune"
STUDY = {
    "name": "projects/p/jobs/tune", "displayName": "digits", "state": "RUNNING",
    "message": "It will be over in about 3 min.", "leaders": [1], "trialCountMax": 9,
    "counts": {
        "made": 3, "running": 1, "waiting": 0, "succeeded": 2, "infeasible": 0, "stoppedEarly": 1,
    },
}  # fmt: skip
STOP = {
    "rule": "median", "metric": "acc", "value": 0.1, "bar": 0.4, "at": 3, "byTime": False,
    "reason": "Its best acc is 0.1",
}  # fmt: skip
TRIALS = [
    {
        "number": 1,
        "state": "SUCCEEDED",
        "metrics": {"acc": 0.93794761405},
        "parameters": {"lr": 0.125678901, "units": 32.0},
    },
    {
        "number": 2,
        "state": "SUCCEEDED",
        "metrics": {"acc": 0.1},
        "parameters": {},
        "earlyStop": STOP,
    },
    {"number": 3, "state": "PAUSED", "metrics": {"acc": 0.1}, "parameters": {}, "earlyStop": STOP},
]
ANSWERS = {
    f"{PATH}": {"name": "projects/p/jobs/tune"},
    f"{PATH}/study": STUDY,
    f"{PATH}/trials": {"trials": TRIALS},
    f"{PATH}/study:importances": {
        "metric": "acc", "trials": 60, "message": "How much a parameter decides.",
        "importances": [{"parameter": "lr", "share": 0.75}],
    },
    f"{PATH}/trials:curves": {"curves": [{"trial": 1, "at": [1, 2], "values": [0.5, 0.9]}]},
}  # fmt: skip


def answer(_verb, path, _document):
    return 200, ANSWERS[path.partition("?")[0]]


def test_a_study_is_printed_with_its_best_trial_stops_and_importances(trainshed):
    with StandIn(answer) as server:
        shown = trainshed(
            "jobs", "study", "tune", "--project", "p", "--url", server.url, "--curves"
        )
    assert shown.code == 0, shown.err
    assert shown.out.splitlines() == [
        "digits: RUNNING",
        "3 of 9 trials were made, 1 running, 2 succeeded, 1 of these stopped early",
        STUDY["message"],
        "best: trial 1: acc=0.937948",
        "  with lr=0.125679, units=32",
        "How much a parameter decides.",
        "PARAMETER  IMPORTANCE",
        "─────────  ──────────",
        "lr         75.0%",
        "trial 2 was stopped early. Its best acc is 0.1",
        "trial 3 is paused. Its best acc is 0.1",
        "trial 1: 2 points, the last 0.9",
    ]


def test_json_has_everything(trainshed):
    with StandIn(answer) as server:
        words = ("--project", "p", "--url", server.url, "--format", "json", "--metric", "acc")
        document = trainshed("jobs", "study", "tune", *words).json
    assert document["trials"] == TRIALS
    assert document["importances"]["importances"][0]["share"] == 0.75
    assert "curves" not in document


LIMIT = {"metric": "size", "value": 0.71, "threshold": 0.6, "reason": "size 0.71 > 0.6"}


def answer_front(_verb, path, _document):
    name = path.partition("?")[0]
    if name == f"{PATH}/study":
        safety = "size at most 0.6: 2 of 3 ended trials are safe (67%)"
        return 200, {**STUDY, "leaders": [1, 3], "frontSize": 2, "safety": safety}
    if name == f"{PATH}/trials":
        other = {**TRIALS[0], "number": 3, "metrics": {"acc": 0.5}}
        return 200, {
            "trials": [TRIALS[0], {**TRIALS[0], "number": 2, "brokenLimits": [LIMIT]}, other]
        }
    return answer(_verb, path, _document)


def test_a_front_and_broken_limits_are_printed(trainshed):
    with StandIn(answer_front) as server:
        shown = trainshed("jobs", "study", "tune", "--project", "p", "--url", server.url)
        document = trainshed(
            "jobs", "study", "tune", "--project", "p", "--url", server.url, "--format", "json"
        ).json
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[3:9] == [
        "size at most 0.6: 2 of 3 ended trials are safe (67%)",
        "Pareto front of 2 trials: 1, 3",
        "trial 1: acc=0.937948",
        "  with lr=0.125679, units=32",
        "trial 3: acc=0.5",
        "  with lr=0.125679, units=32",
    ]
    assert lines[-1] == "trial 2 breaks a limit: size 0.71 > 0.6"
    assert document["study"]["frontSize"] == 2
    assert document["trials"][1]["brokenLimits"] == [LIMIT]


START = {
    "knownResults": 4,
    "knownSources": [
        {"name": "r.csv", "used": 3, "ignored": 2},
        {"name": "study s1", "used": 1, "ignored": 0},
    ],
}


def answer_rungs(_verb, path, _document):
    name = path.partition("?")[0]
    if name == f"{PATH}/study":
        rungs = [{"at": 3.0, "trials": 9, "bar": 0.5}, {"at": 9.0, "trials": 2}]
        return 200, {**STUDY, "rungs": rungs, "rungsByTime": False, **START}
    if name == f"{PATH}/trials":
        places = ({"position": 1, "source": "line 2 of p.csv"}, {"position": 2})
        enqueued = [
            {**TRIALS[0], "number": n, "origin": "FIRST_POINT", "firstPoint": place}
            for n, place in enumerate(places, 2)
        ]
        return 200, {"trials": [{**TRIALS[0], "origin": "DEFAULTS"}, *enqueued]}
    return answer(_verb, path, _document)


def test_rungs_and_the_start_are_printed(trainshed):
    with StandIn(answer_rungs) as server:
        shown = trainshed("jobs", "study", "tune", "--project", "p", "--url", server.url)
    assert shown.out.splitlines()[3:8] == [
        "known results used: 3 of r.csv (2 ignored), 1 of study s1",
        "enqueued: trial 2 (line 2 of p.csv), trial 3 (point 2)",
        "the default values: trial 1",
        "rung 1 at step 3: 9 trials, continue from 0.5",
        "rung 2 at step 9: 2 trials",
    ]
