import math
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from controller.tuning_world import (
    CANCELLED,
    FAILED,
    SUCCEEDED,
    TuningWorld,
    learns,
    run_to_end,
    score,
    script,
    step_all,
    study,
)
from controller.world import nodes
from trainshed.model.attempt import AttemptKey
from trainshed.model.roles import Dialect
from trainshed.model.status import FINAL, JobState
from trainshed.model.study import (
    Algorithm,
    AshaRule,
    EndingRules,
    MedianRule,
    Metric,
    ParameterKind,
    ParameterSpec,
    Selection,
)
from trainshed.model.study_start import KnownResult, StudyStart
from trainshed.model.trials import TrialState
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.families import SUGGEST_SECONDS
from trainshed.testing.fake_engine import Script


@pytest.fixture
def make_world(tmp_path):
    worlds = []

    def make(how=script, **more):
        world = TuningWorld(tmp_path / str(len(worlds)), nodes(4, **more), script=how)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()


def test_a_study_runs_its_trials_and_succeeds(make_world):
    world, counters = make_world(), Counters()
    uid = world.tune(study())
    assert world.state(uid) is JobState.PREPARING
    assert run_to_end(world, world.controller(listener=counters), uid) == [SUCCEEDED]
    assert 1 <= dict(counters.read())[SUGGEST_SECONDS][()].number <= 6
    views = world.trials(uid)
    assert [view.trial.number for view in views] == [1, 2, 3, 4, 5, 6]
    assert {view.trial.state for view in views} == {TrialState.SUCCEEDED}
    assert {view.job_state for view in views} == {SUCCEEDED}
    for view in views:
        lr = dict(view.trial.values)["lr"]
        assert 0.0 <= lr <= 1.0
        assert view.trial.final.step == 4
        assert view.trial.final.value("acc") == pytest.approx(score({"lr": lr}) * 0.875)
        assert [m.step for m in view.trial.measurements] == [1, 2, 3, 4]
        assert view.trial.start_time < view.trial.end_time
    status = world.job(uid).job.status
    first = min(view.trial.start_time for view in views)
    assert first <= status.start_time <= first + timedelta(seconds=1)
    assert status.end_time >= max(view.trial.end_time for view in views)
    assert "the best so far" in world.messages(uid)


def test_first_points_come_first_and_once_also_after_a_restart(make_world):
    points = tuple((("lr", lr),) for lr in (0.9, 0.8, 0.7))
    result = KnownResult(values=(("lr", 0.1),), metrics=(("acc", 0.5),))
    start = StudyStart(results=(result,), points=points)
    whole, broken = make_world(), make_world()
    uids = [world.tune(study(), study_start=start) for world in (whole, broken)]
    run_to_end(whole, whole.controller(), uids[0])
    controller = broken.controller()
    while len(broken.trials(uids[1])) < 2:
        step_all(controller)
    run_to_end(broken, broken.controller(), uids[1])
    assert whole.values(uids[0])[:3] == [*points]
    assert broken.values(uids[1]) == whole.values(uids[0])
    assert result.values not in whole.values(uids[0])
    assert whole.messages(uids[0]).count("as enqueued") == 3
    assert "Trial 2 begins with lr=0.8, as enqueued (point 2)." in whole.messages(uids[0])


def test_never_more_trials_at_once_than_asked_for(make_world):
    world = make_world()
    uid = world.tune(study(trial_count_max=9, trial_count_parallel=3))
    controller, most = world.controller(), 0
    while not world.is_over(uid):
        step_all(controller)
        world.clock.s += 0.5
        alive = [v for v in world.trials(uid) if v.job_state not in FINAL]
        most = max(most, len(alive))
    assert most == 3


def test_a_program_that_reports_nothing_fails_the_study_soon_and_is_told_why(make_world):
    world = make_world(lambda _key, _plan: Script(runs_s=1.0))
    uid = world.tune(study(trial_count_max=50, trial_count_parallel=1))
    assert run_to_end(world, world.controller(), uid) == [FAILED]
    views = world.trials(uid)
    assert len(views) == 3
    assert {view.trial.state for view in views} == {TrialState.INFEASIBLE}
    assert "acc" in views[0].trial.infeasible_reason
    assert world.error(uid).message


def test_failed_jobs_are_infeasible_trials_and_end_the_study_at_the_asked_count(make_world):
    def some_fail(key, plan):
        lr = float(plan.replicas[0].argv[2])
        return script(key, plan, exit_code=int(lr > 0.4))

    world = make_world(some_fail)
    spec = study(trial_count_max=40, trial_count_failed_max=4, algorithm=Algorithm.RANDOM_SEARCH)
    uid = world.tune(spec)
    assert run_to_end(world, world.controller(), uid) == [FAILED]
    reasons = [v.trial.infeasible_reason for v in world.trials(uid) if v.trial.infeasible_reason]
    assert sum("job failed" in reason for reason in reasons) >= 4
    assert all(v.job_state in FINAL for v in world.trials(uid))


def test_a_cancelled_study_ends_its_trials(make_world):
    world = make_world(partial(script, runs_s=None))
    uid = world.tune(study())
    controller = world.controller()
    for _ in range(8):
        step_all(controller)
        world.clock.s += 0.5
    assert world.state(uid) is JobState.RUNNING
    assert world.cancel(uid)
    assert world.state(uid) is JobState.CANCELLING
    assert run_to_end(world, controller, uid) == [CANCELLED]
    views = world.trials(uid)
    assert [view.job_state for view in views] == [CANCELLED, CANCELLED]
    assert {view.trial.state for view in views} == {TrialState.INFEASIBLE}
    assert world.engine.running == ()


def test_a_study_s_own_count_is_kept_with_trials_in_parallel(make_world):
    world = make_world()
    rules = EndingRules(trial_count_max=3)
    uid = world.tune(study(trial_count_max=9, trial_count_parallel=2, ending=rules))
    assert run_to_end(world, world.controller(), uid) == [SUCCEEDED]
    assert len(world.trials(uid)) == 3


def test_a_study_that_is_cancelled_before_its_first_trial_is_over_at_once(make_world):
    world = make_world()
    uid = world.tune(study())
    world.cancel(uid)
    controller = world.controller()
    controller.studies_once()
    assert world.state(uid) is CANCELLED
    assert world.trials(uid) == ()


def test_bad_trials_are_stopped_early(make_world):
    world = make_world(partial(script, runs_s=20.0))
    spec = study(trial_count_max=16, stopping=MedianRule(), algorithm=Algorithm.RANDOM_SEARCH)
    uid = world.tune(spec)
    assert run_to_end(world, world.controller(), uid) == [SUCCEEDED]
    views = world.trials(uid)
    early = [view for view in views if view.trial.stopped_early]
    assert early
    for view in early:
        assert view.trial.state is TrialState.SUCCEEDED
        assert view.job_state is CANCELLED
        assert view.trial.final is not None
    best = max(views, key=lambda view: view.trial.final.value("acc"))
    assert not best.trial.stopped_early


def test_trials_are_stopped_at_rungs_and_the_story_says_why(make_world):
    world = make_world(partial(script, runs_s=20.0))
    spec = study(trial_count_max=16, stopping=AshaRule(), algorithm=Algorithm.RANDOM_SEARCH)
    uid = world.tune(spec)
    assert run_to_end(world, world.controller(), uid) == [SUCCEEDED]
    views = world.trials(uid)
    early = [view for view in views if view.trial.stopped_early]
    assert early
    assert {view.job_state for view in early} == {CANCELLED}
    assert ", rung 1 of 2, is " in world.messages(uid)
    best = max(views, key=lambda view: view.trial.final.value("acc"))
    assert not best.trial.stopped_early


def test_a_grid_ends_with_its_last_point(make_world):
    world = make_world(lambda _key, plan: script(_key, plan, curve=lambda _v, _s: 0.5))
    colours = ParameterSpec(
        parameter_id="lr", kind=ParameterKind.CATEGORICAL, values=("0.1", "0.2", "0.3")
    )
    spec = study(parameters=(colours,), algorithm=Algorithm.GRID_SEARCH, trial_count_max=10)
    uid = world.tune(spec)
    assert run_to_end(world, world.controller(), uid) == [SUCCEEDED]
    assert sorted(dict(values)["lr"] for values in world.values(uid)) == ["0.1", "0.2", "0.3"]


def test_values_that_are_no_numbers_are_told_and_not_counted(make_world):
    def diverges(_values, step):
        return math.nan if step == 4 else 0.5 + step / 100

    world = make_world(partial(script, curve=diverges))
    last = world.tune(study(trial_count_max=1, trial_count_parallel=1))
    best = world.tune(study(trial_count_max=1, trial_count_parallel=1, selection=Selection.BEST))
    assert run_to_end(world, world.controller(), last, best) == [FAILED, SUCCEEDED]
    assert "nan" in world.trials(last)[0].trial.infeasible_reason
    assert world.trials(best)[0].trial.final.value("acc") == pytest.approx(0.53)
    assert "only finite values are measurements" in world.messages(last)


def test_a_trial_whose_machine_is_lost_goes_on_and_is_one_trial(make_world):
    world = make_world()
    uid = world.tune(study(trial_count_max=1, trial_count_parallel=1))
    controller = world.controller()
    while not world.engine.running:
        step_all(controller)
    world.clock.s += 2.5
    step_all(controller)
    (key,) = world.engine.running
    world.engine.lose(key)
    assert run_to_end(world, controller, uid) == [SUCCEEDED]
    (view,) = world.trials(uid)
    assert world.job(key.uid).attempt == 2
    assert [m.step for m in view.trial.measurements] == [1, 2, 3, 4]
    assert AttemptKey(key.uid, 2) in world.engine.launches


def test_a_study_of_ai_platform_is_cancelled_when_its_time_is_over(make_world):
    world = make_world(partial(script, runs_s=None))
    uid = world.tune(study(), dialect=Dialect.ML_V1, job_id="census", running_s_max=30.0)
    assert run_to_end(world, world.controller(), uid) == [CANCELLED]
    assert {view.job_state for view in world.trials(uid)} == {CANCELLED}


def test_a_study_goes_on_from_an_earlier_one(make_world):
    world = make_world()
    spec = study(metrics=(Metric(metric_id="acc"),))
    first = world.tune(spec, dialect=Dialect.ML_V1, job_id="one")
    controller = world.controller()
    run_to_end(world, controller, first)
    second = world.tune(study(resume_previous_uid=first), dialect=Dialect.ML_V1, job_id="two")
    run_to_end(world, controller, second)
    assert [view.trial.number for view in world.trials(second)] == [7, 8, 9, 10, 11, 12]
    assert not {*world.values(first)} & {*world.values(second)}
    best = [max(v.trial.final.value("acc") for v in world.trials(uid)) for uid in (first, second)]
    assert best[1] >= best[0] - 0.02, "what was learnt was forgotten"


def test_a_study_that_goes_on_has_the_known_results_of_the_earlier_one(make_world):
    world = make_world()
    lr = ParameterSpec(parameter_id="lr", kind=ParameterKind.DISCRETE, values=(0.1, 0.2, 0.3, 0.4))
    result = KnownResult(values=(("lr", 0.2),), metrics=(("acc", 0.5),))
    spec = study(parameters=(lr,), trial_count_max=1, trial_count_parallel=1)
    start, ml = StudyStart(results=(result,)), {"dialect": Dialect.ML_V1}
    first = world.tune(spec, **ml, job_id="one", study_start=start)
    controller = world.controller()
    run_to_end(world, controller, first)
    more = replace(spec, trial_count_max=9, resume_previous_uid=first)
    second = world.tune(more, **ml, job_id="two")
    run_to_end(world, controller, second)
    assert [view.trial.number for view in world.trials(second)] == [2, 3]
    tried = [dict(point)["lr"] for uid in (first, second) for point in world.values(uid)]
    assert sorted(tried) == [0.1, 0.3, 0.4]


def test_nothing_is_concluded_while_reports_cannot_be_read(make_world, monkeypatch):
    world = make_world()
    uid = world.tune(study(trial_count_max=1, trial_count_parallel=1))
    controller = world.controller()
    with monkeypatch.context() as patched:

        def fails(_key, _after):
            raise ConnectionError("gone")

        patched.setattr(world.engine, "measured", fails)
        for _ in range(30):
            step_all(controller)
            world.clock.s += 0.5
        (view,) = world.trials(uid)
        assert (view.job_state, view.trial.state) == (SUCCEEDED, TrialState.ACTIVE)
    assert run_to_end(world, controller, uid) == [SUCCEEDED]
    assert len(world.trials(uid)[0].trial.measurements) == 4


def test_only_the_leading_server_makes_trials(make_world):
    world = make_world()
    uid = world.tune(study(trial_count_parallel=1))
    leader, other = world.controller("server-a"), world.controller("server-b")
    assert other.studies_once() == 0
    assert leader.studies_once() == 1
    assert other.studies_once() == 0
    assert len(world.trials(uid)) == 1


def test_trials_know_their_number_and_their_study(make_world):
    world = make_world()
    uid = world.tune(study(), dialect=Dialect.ML_V1, job_id="census")
    world.controller().studies_once()
    stored = world.store.trials(uid)
    specs = [world.store.expanded(row.job_uid) for row in stored]
    assert [spec.trial.trial_id for spec in specs] == ["1", "2"]
    assert {spec.trial.study_job_id for spec in specs} == {"census"}
    assert [row.job_name for row in stored] == ["census/trials/1", "census/trials/2"]


def test_a_learning_curve_is_what_the_program_reported():
    assert learns({"lr": "0.3"}, 1) == 0.5
