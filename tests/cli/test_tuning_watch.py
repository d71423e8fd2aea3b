"""``watch`` of a tuning job: its trials on one screen, its changes as lines, its parts as JSON."""

import json
import os
import signal
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import ELSEWHERE
from cli.standin import StandIn
from cli.terminal_process import Terminal
from server_process import TRAINSHED
from trainshed.cli.jobs import tuning_watch
from trainshed.cli.jobs.tuning_watch import TuningView, best_table, changes, groups
from trainshed.cli.terminal import mark_own
from trainshed.workbench.study_view import add_native_trials, rank_trials, read_view
from workbench.study_documents import ACCURACY, NAME, SECONDS, many, ml, ml_trial, trial, vertex

NOW = datetime(2026, 11, 20, 20, 12, 41, tzinfo=UTC)
DONE = {"state": "JOB_STATE_SUCCEEDED", "endTime": "2026-11-20T20:10:10Z"}


def screen(document, *, lines=24, columns=100, colour=False):
    size = os.terminal_size((columns, lines))
    return TuningView(colour=colour).lines(read_view(document), size, NOW)


def story():
    """A study from its first look to its end."""
    first = trial(1, "ACTIVE", lr=0.1, opt="sgd")
    good = trial(1, final=(5, {"accuracy": 0.5}), lr=0.1, opt="sgd")
    better = trial(2, final=(5, {"accuracy": 0.75}), lr=0.01, opt="adam")
    bad = trial(3, "INFEASIBLE", reason="accuracy was not reported", lr=1.0)
    yield vertex(state="JOB_STATE_PENDING")
    yield vertex([first, trial(2, "ACTIVE", lr=0.01, opt="adam")])
    yield vertex([good, better, trial(3, "ACTIVE", lr=1.0)])
    yield vertex([good, better, bad], **DONE)


@pytest.fixture
def serving(monkeypatch, home):
    """Serves documents one after the other, and the last one for ever."""
    monkeypatch.setattr(tuning_watch, "POLL_S", 0.01)
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    servers = []

    def serve(*documents, trials=None, study=None, status=200):
        left = list(documents)

        def answer(_verb, path, _document):
            if path.endswith("/trials"):
                refusal = {"error": {"code": status, "message": "no"}}
                return status, (trials or {}) if status == 200 else refusal
            if path.endswith("/study") and study:
                return 200, study
            if path.startswith("/trainshed/"):
                return 200, {"name": documents[0].get("name", "projects/local/jobs/census_1")}
            return 200, left.pop(0) if len(left) > 1 else left[0]

        server = StandIn(answer)
        server.__enter__()
        servers.append(server)
        server.note(home / "data")
        return server

    yield serve
    for server in servers:
        server.__exit__()


def test_elsewhere_every_change_is_a_line_and_the_best_are_the_end(trainshed, serving):
    serving(*story())
    run = trainshed("ai", "hp-tuning-jobs", "watch", "77", "--project", "p")
    assert run.code == 0, run.err
    lines = run.out.splitlines()
    assert lines[:10] == [
        "tuned: PENDING; 0 of 24",
        "tuned: RUNNING; 2 of 24: 2 running",
        "trial 1: ACTIVE: lr=0.1 opt=sgd",
        "trial 2: ACTIVE: lr=0.01 opt=adam",
        "trial 1: SUCCEEDED: accuracy 0.5 at step 5",
        "trial 2: SUCCEEDED: accuracy 0.75 at step 5, the best so far",
        "trial 3: ACTIVE: lr=1",
        "trial 3: INFEASIBLE: accuracy was not reported",
        "tuned: SUCCEEDED; 3 of 24: 2 succeeded, 1 infeasible",
        "",
    ]
    assert lines[10].split() == ["TRIAL", "STATE", "STEP", "ACCURACY", "PARAMETERS"]
    assert lines[12].split() == ["*", "2", "SUCCEEDED", "5", "0.75", "lr=0.01", "opt=adam"]
    assert lines[-3:] == [
        "and 1 more trials; `report` lists all",
        "the arguments of trial 2: --lr 0.01 --opt adam",
        "state: SUCCEEDED",
    ]
    assert "\x1b" not in run.out


def test_a_study_that_fails_ends_the_command_with_1(trainshed, serving):
    error = {"code": 9, "message": "the first 3 trials failed"}
    serving(vertex([trial(1, "INFEASIBLE", reason="r")], state="JOB_STATE_FAILED", error=error))
    run = trainshed("ai", "hp-tuning-jobs", "watch", NAME)
    assert run.code == 1
    assert run.out.splitlines()[1:3] == [
        "error: the first 3 trials failed",
        "tuned: FAILED; 1 of 24: 1 infeasible",
    ]
    assert "no trial has succeeded" in run.out


def test_json_is_a_line_for_the_study_and_each_trial_that_has_changed(trainshed, serving):
    serving(*story())
    run = trainshed("ai", "hp-tuning-jobs", "watch", NAME, "--format", "json")
    lines = [json.loads(line) for line in run.out.splitlines()]
    assert [next(iter(line)) for line in lines] == [
        "job", "job", "trial", "trial", "trial", "trial", "trial", "job", "trial",
    ]  # fmt: skip
    assert all("trials" not in line["job"] for line in lines if "job" in line)
    assert lines[-2]["job"]["state"] == "JOB_STATE_SUCCEEDED"
    assert lines[-1]["trial"]["infeasibleReason"] == "accuracy was not reported"


@pytest.mark.parametrize(
    "words", [("jobs", "watch", "census_1"), ("ai-platform", "jobs", "watch", "census_1")]
)
def test_an_ml_v1_study_is_watched_by_either_name(trainshed, serving, words):
    running = [ml_trial(1, value=0.5, step=3, lr=0.1), ml_trial(2, "RUNNING", lr=0.2)]
    ended = [running[0], ml_trial(2, value=0.25, step=4, lr=0.2)]
    serving(ml(running), ml(running), ml(ended, state="SUCCEEDED"))
    run = trainshed(*words)
    assert run.code == 0, run.err
    assert "trial 1: SUCCEEDED: loss 0.5 at step 3, the best so far" in run.out
    assert "trial 2: SUCCEEDED: loss 0.25 at step 4, the best so far" in run.out
    again = trainshed(*words, "--format", "json")
    lines = [json.loads(line) for line in again.out.splitlines()]
    assert "trials" not in lines[0]["job"]["trainingOutput"]
    assert [line["trial"]["trialId"] for line in lines[1:]] == ["1", "2"]


def early(number, **more):
    fields = {"number": number, "state": "SUCCEEDED", "jobState": "CANCELLED", "metrics": {}}
    return {"trials": [{**fields, "stoppedEarly": True, **more}]}


def test_what_only_the_native_route_says_is_told(trainshed, serving):
    server = serving(*story(), trials=early(1))
    run = trainshed("ai", "hp-tuning-jobs", "watch", "77", "--project", "p")
    assert "trial 1: SUCCEEDED, stopped early: accuracy 0.5 at step 5" in run.out.splitlines()
    paths = [path for _, path, *_ in server.requests if path.startswith("/trainshed/")]
    assert set(paths) == {
        "/trainshed/v1/projects/p/jobs/77/trials",
        "/trainshed/v1/projects/p/jobs/77/study",
    }


def test_enqueued_trials_and_rungs_are_told(trainshed, serving):
    stop = {"rule": "asha", "rung": 2}
    place = {"position": 2, "source": "line 3 of p.csv"}
    enqueued = {"number": 2, "origin": "FIRST_POINT", "firstPoint": place}
    trials = [*early(1, earlyStop=stop)["trials"], enqueued]
    source = {"name": "r.csv", "used": 3, "ignored": 2}
    study = {"knownSources": [source], "priors": "lr near 1e-2"}
    serving(*story(), trials={"trials": trials}, study=study)
    lines = trainshed("ai", "hp-tuning-jobs", "watch", "77", "--project", "p").out.splitlines()
    assert "trial 1: SUCCEEDED, stopped early at rung 2: accuracy 0.5 at step 5" in lines
    assert lines[:2] == ["known results used: 3 of r.csv (2 ignored)", "expected: lr near 1e-2"]
    assert "trial 2: ACTIVE, enqueued (line 3 of p.csv): lr=0.01 opt=adam" in lines
    assert any(line.endswith("lr=0.01 opt=adam; enqueued (line 3 of p.csv)") for line in lines)
    assert any(line.endswith("lr=0.1 opt=sgd; stopped early at rung 2") for line in lines)


@pytest.mark.parametrize("status", [404, 501])
def test_a_server_without_the_native_route_is_asked_for_it_once(trainshed, serving, status):
    server = serving(*story(), status=status)
    run = trainshed("ai", "hp-tuning-jobs", "watch", "77", "--project", "p")
    assert run.code == 0, run.err
    assert "stopped early" not in run.out
    assert [path for _, path, *_ in server.requests].count(
        "/trainshed/v1/projects/p/jobs/77/trials"
    ) == 1


def test_another_refusal_of_the_native_route_is_told(trainshed, serving):
    serving(*story(), status=403)
    run = trainshed("ai", "hp-tuning-jobs", "watch", "77", "--project", "p")
    assert (run.code, "no" in run.err) == (1, True)


def test_a_vertex_study_is_watched_as_any_job(trainshed, serving):
    serving(*story())
    assert trainshed("jobs", "watch", NAME).out.splitlines()[-1] == "state: SUCCEEDED"


def test_a_terminal_shows_the_study_in_place_and_ctrl_c_leaves_it(serving, home):
    server = serving(vertex([trial(1, final=(5, {"accuracy": 0.5}), lr=0.1)]))
    environ = {k: v for k, v in os.environ.items() if k not in ELSEWHERE}
    environ["TRAINSHED_DATA_DIR"] = str(home / "data")
    argv = [TRAINSHED, "ai", "hp-tuning-jobs", "watch", NAME]
    with Terminal(argv, env=environ, lines=20, columns=90) as terminal:
        rows = terminal.wait_until(lambda lines: any("lr=0.1" in line for line in lines))
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait() == 130
    assert rows[0].startswith("tuned: RUNNING for ")
    assert rows[1] == "trials 1 of 24: 1 succeeded"
    assert rows[2] == "best: trial 1, accuracy 0.5 at step 5: lr=0.1"
    assert rows[6].split() == ["*", "1", "SUCCEEDED", "5", "0.5", "lr=0.1"]
    assert f"trainshed ai hp-tuning-jobs cancel {NAME}" in terminal.text
    assert "\x1b[?7h\x1b[?25h" in terminal.text
    assert {verb for verb, *_ in server.requests} == {"GET"}


def test_the_view_tells_state_counts_best_and_time():
    running = trial(3, "ACTIVE", measured=[(4, {"accuracy": 0.25})], lr=0.5)
    rows = screen(vertex([*many(2), running]))
    assert rows[0] == "tuned: RUNNING for 0:12:31"
    assert rows[1] == "trials 3 of 24: 2 succeeded, 1 running"
    assert rows[2].startswith("best: trial 2, accuracy 0.790818 at step 5: lr=0.0191817 ")
    assert rows[-1].split() == ["3", "ACTIVE", "4", "0.25", "lr=0.5"]
    assert screen(vertex(many(2), **DONE))[0] == "tuned: SUCCEEDED after 0:10:00"


def test_the_best_trials_parameters_are_read_whole_on_a_narrow_screen():
    values = {f"parameter_{n}": n / 3 for n in range(1, 9)}
    rows = screen(vertex([trial(1, final=(5, {"accuracy": 0.98879551824}), **values)]), columns=80)
    text = " ".join(line.strip() for line in rows[2 : rows.index("")])
    assert text.startswith("best: trial 1, accuracy 0.988796 at step 5: parameter_1=0.333333 ")
    assert text.endswith("parameter_8=2.66667")
    assert all(len(line) <= 80 for line in rows)
    assert "0.988796" in rows[-1].split(), "the table has as many digits"


def test_the_best_trials_parameters_leave_room_for_the_trials():
    values = {f"parameter_{n}": n for n in range(99)}
    rows = screen(vertex([trial(1, final=(5, {"accuracy": 0.5}), **values)]), columns=80)
    assert rows[rows.index("") - 1].endswith("…")
    assert rows[-1].lstrip("* ").startswith("1  SUCCEEDED")


def test_a_terminal_keeps_the_arguments_in_full_at_the_end(serving, home):
    exact = 0.012345678901234567
    serving(vertex([trial(1, final=(5, {"accuracy": 0.5}), lr=exact, opt="a b")], **DONE))
    environ = {k: v for k, v in os.environ.items() if k not in ELSEWHERE}
    environ["TRAINSHED_DATA_DIR"] = str(home / "data")
    argv = [TRAINSHED, "ai", "hp-tuning-jobs", "watch", NAME]
    with Terminal(argv, env=environ, lines=20, columns=90) as terminal:
        assert terminal.wait() == 0
    end = terminal.text.rpartition("\x1b[?25h")[2]
    assert f"the arguments of trial 1: --lr {exact!r} --opt 'a b'" in end


def test_a_table_of_all_trials_counts_no_others():
    assert "more" not in best_table(read_view(vertex(many(6))))[-1]
    assert best_table(read_view(vertex(many(24))))[-1] == "and 14 more trials; `report` lists all"


def test_the_view_shows_errors_and_reasons():
    document = vertex([trial(1, "INFEASIBLE", reason="it was nan", lr=1)], error={"message": "e!"})
    rows = screen(document)
    assert "e!" in rows
    assert rows[-1].endswith("lr=1; it was nan")


def test_the_view_of_several_objectives_names_the_front():
    trials = [trial(n, final=(1, {"accuracy": n, "seconds": n})) for n in range(1, 16)]
    rows = screen(vertex(trials, metrics=[ACCURACY, SECONDS]), columns=200)
    listed = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 3 more"
    assert rows[2] == f"Pareto front of 15 trials: {listed}"


LIMIT = {**SECONDS, "safetyConfig": {"safetyThreshold": 20, "desiredMinSafeTrialsFraction": 0.75}}


def limited(*seconds):
    """Trials with one more second each, the best ones beyond the limit."""
    trials = [
        trial(number, final=(1, {"accuracy": 0.1 * number, "seconds": value}), lr=0.1)
        for number, value in enumerate(seconds, 1)
    ]
    return vertex(trials, metrics=[ACCURACY, LIMIT])


def test_the_view_counts_safe_trials_and_names_broken_limits():
    rows = screen(limited(10.0, 20.0, 20.5))
    assert rows[3] == (
        "seconds at most 20: 2 of 3 ended trials are safe (67%); the study aims at 75%"
    )
    assert rows[2].startswith("best: trial 2,")
    assert rows[-1].endswith("lr=0.1; seconds 20.5 > 20")
    assert "seconds 10" not in rows[-3]


def test_changes_name_a_broken_limit_and_the_size_of_the_front():
    lines = list(changes(None, read_view(limited(10.0, 20.5))))
    assert lines[1:] == [
        "trial 1: SUCCEEDED: accuracy 0.1, seconds 10 at step 1, the best so far",
        "trial 2: SUCCEEDED: accuracy 0.2, seconds 20.5 at step 1; seconds 20.5 > 20",
    ]
    trials = [trial(n, final=(1, {"accuracy": n, "seconds": n})) for n in (1, 2)]
    lines = list(changes(None, read_view(vertex(trials, metrics=[ACCURACY, SECONDS]))))
    assert lines[-1].endswith("seconds 2 at step 1, in the Pareto front of 2")


@pytest.mark.parametrize(
    ("google_state", "state", "line"),
    [
        ("ACTIVE", "PAUSED", "trial 2: PAUSED at rung 1: accuracy 0.5 at step 9"),
        (
            "STOPPING",
            "STOPPING",
            "trial 2: STOPPING, stopped early at rung 1: accuracy 0.5 at step 9",
        ),
    ],
)
def test_a_change_names_the_rung_of_a_trial_that_does_not_go_on(google_state, state, line):
    view = read_view(vertex([trial(2, google_state, measured=[(9, {"accuracy": 0.5})], lr=0.1)]))
    native = {"number": 2, "state": state, "jobState": "RUNNING"}
    native |= {"stoppedEarly": state == "STOPPING", "step": 9, "metrics": {"accuracy": 0.5}}
    view = add_native_trials(view, {"trials": [{**native, "earlyStop": {"rung": 1}}]})
    assert list(changes(None, view))[1:] == [line]


def test_the_summary_at_the_end_names_the_front_and_the_safe_trials(trainshed, serving):
    serving({**limited(10.0, 20.5), **DONE})
    lines = trainshed("ai", "hp-tuning-jobs", "watch", NAME).out.splitlines()
    assert "seconds at most 20: 1 of 2 ended trials are safe (50%); the study aims at 75%" in lines
    trials = [trial(n, final=(1, {"accuracy": n, "seconds": n})) for n in (1, 2)]
    serving(vertex(trials, metrics=[ACCURACY, SECONDS], **DONE))
    lines = trainshed("ai", "hp-tuning-jobs", "watch", NAME).out.splitlines()
    assert "Pareto front of 2 trials: 1, 2" in lines


def test_a_thousand_trials_are_one_screen():
    going = [trial(n, "ACTIVE", lr=0.1) for n in range(1001, 1051)]
    document = vertex([*many(1000), *going], maxTrialCount=2000)
    rows = screen(document, lines=40, columns=120)
    assert len(rows) == 39
    assert all(len(line) <= 120 for line in rows)
    places = [rows.index(title) for title in ("running", "best", "newest")]
    assert places == sorted(places)
    numbers = [line.lstrip("* ").split()[0] for line in rows[places[1] + 1 : places[2]]]
    best = [str(t.number) for t in rank_trials(read_view(document))]
    assert numbers == best[: len(numbers)]
    assert len(numbers) >= 8
    assert rows[places[2] + 1].split()[0] == "1000"
    count = sum(line.lstrip("* ")[:1].isdigit() for line in rows[6:])
    assert rows[-1] == f"and {1050 - count} more"


def test_the_best_trial_is_painted():
    rows = screen(vertex(many(3)), colour=True)
    assert [line for line in rows if line.startswith(mark_own("\x1b[1;32m*"))]


def test_what_others_named_is_harmless_on_a_terminal():
    evil = "a\x1b[2Jb\nc"
    done = trial(1, final=(1, {evil: 1.0}), **{evil: evil})
    document = vertex(
        [done, trial(2, "INFEASIBLE", reason=evil)], displayName=evil,
        metrics=[{"metricId": evil}], parameters=[], error={"message": evil},
    )  # fmt: skip
    for line in (*screen(document), *changes(None, read_view(document))):
        assert "\x1b" not in line
        assert "\n" not in line


@given(
    count=st.integers(0, 60),
    going=st.integers(0, 30),
    lines=st.integers(1, 50),
    columns=st.integers(10, 140),
)
def test_the_view_fits_every_screen(count, going, lines, columns):
    trials = [*many(count), *(trial(count + n, "ACTIVE", lr=0.1) for n in range(1, going + 1))]
    rows = screen(vertex(trials), lines=lines, columns=columns)
    assert len(rows) <= max(lines - 1, 0)
    assert all(len(line) <= max(columns, 35) for line in rows)


@given(count=st.integers(0, 60), going=st.integers(0, 30), room=st.integers(-5, 60))
def test_groups_show_no_trial_twice_and_count_the_rest(count, going, room):
    trials = [*many(count), *(trial(count + n, "ACTIVE", lr=0.1) for n in range(1, going + 1))]
    view = read_view(vertex(trials))
    sections = groups(view, room)
    numbers = [t.number for _, members in sections for t in members]
    assert len(numbers) == len(set(numbers))
    rest = len(trials) - len(numbers)
    assert (sections[-1][0] == f"and {rest} more") is (rest > 0)
    if view.leaders and len(trials) > 0:
        assert view.leaders[0].number in numbers, "the best trial is always seen"


def test_changes_of_a_study_that_stands_still_are_none():
    view = read_view(vertex(many(5)))
    assert list(changes(view, view)) == []
    later = read_view(vertex(many(6)))
    assert len(list(changes(view, later))) == 1


@pytest.mark.parametrize(
    ("reads_s", "pauses_s"),
    [
        pytest.param((2.0, 0.01, 0.01), (10.0, 1.0), id="a large document"),
        pytest.param((2.0, 3.0, 0.01), (10.0, 10.0), id="a large document twice"),
        pytest.param((0.01, 12.0, 0.01), (1.0, 1.0), id="a server that starts again meanwhile"),
    ],
)
def test_a_large_study_is_read_less_often(monkeypatch, reads_s, pauses_s):
    paused = []
    states = iter(["JOB_STATE_RUNNING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"])

    class FollowedJob:
        pause = paused.append

        def job(self):
            return {"state": next(states)}

    clock = iter([time for read_s in reads_s for time in (0.0, read_s)])
    monkeypatch.setattr(tuning_watch, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    list(tuning_watch._documents(FollowedJob()))
    assert tuple(paused) == pauses_s
