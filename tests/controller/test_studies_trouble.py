"""Studies in trouble: what cannot be thought about, what is said once, what is not forgotten."""

import math
from unittest.mock import patch

import pytest

from controller.tuning_world import SUCCEEDED, TuningWorld, run_to_end, script, step_all, study
from controller.world import nodes
from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.study import Algorithm, MedianRule
from trainshed.model.trials import TrialState
from trainshed.testing.fake_engine import Script

SUGGEST = "trainshed.tuning.advance.suggest"


@pytest.fixture
def make_world(tmp_path):
    worlds = []

    def make(how=script):
        world = TuningWorld(tmp_path / str(len(worlds)), nodes(4), script=how)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()


def let_pass(world, controller, seconds):
    for _ in range(seconds):
        step_all(controller)
        world.clock.s += 1.0


def kinds(world, uid):
    return [event.kind for event in world.store.events(uid)]


def test_a_mistake_in_thinking_is_told_once_and_the_study_goes_on_when_it_is_mended(
    make_world, caplog
):
    world = make_world()
    uid = world.tune(study())
    controller = world.controller()
    with patch(SUGGEST, side_effect=ArithmeticError("no such root")):
        let_pass(world, controller, 5)
    assert world.state(uid) is JobState.PREPARING
    assert kinds(world, uid).count("STUDY_HELD_UP") == 1
    assert "ArithmeticError: no such root" in world.messages(uid)
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    assert run_to_end(world, controller, uid) == [SUCCEEDED]


def test_a_study_that_is_held_up_can_be_cancelled(make_world):
    world = make_world()
    uid = world.tune(study())
    controller = world.controller()
    with patch(SUGGEST, side_effect=ArithmeticError("no such root")):
        let_pass(world, controller, 2)
        world.cancel(uid)
        let_pass(world, controller, 2)
    assert world.state(uid) is JobState.CANCELLED


def test_a_study_that_is_held_up_is_no_other_ones_fault(make_world):
    world = make_world()
    grid, other = world.tune(study(algorithm=Algorithm.GRID_SEARCH)), world.tune(study())
    assert run_to_end(world, world.controller(), other) == [SUCCEEDED]
    assert "STUDY_HELD_UP" in kinds(world, grid), "a grid over a range has no points"


def test_a_trial_that_reports_no_numbers_again_and_again_is_told_of_once(make_world):
    def diverges(_key, _plan):
        values = [0.5, *[math.nan] * 20]
        reports = (
            (step, Report(tag="acc", value=value, step=step, elapsed_s=step))
            for step, value in enumerate(values)
        )
        return Script(runs_s=30.0, reports=tuple(reports))

    world = make_world(diverges)
    uid = world.tune(study(trial_count_max=2))
    run_to_end(world, world.controller(), uid)
    assert kinds(world, uid).count("METRIC_IGNORED") == 2


def test_news_that_could_not_be_written_are_still_news_the_next_time(make_world):
    """Early stopping looks only at news: those of a step that did not fit must not be lost."""

    def one_is_bad(key, _plan):
        place = places.setdefault(key.uid, len(places))
        value = 0.1 if place == 3 else 0.9
        reports = (
            (1.0, Report(tag="acc", value=value, step=step, elapsed_s=step)) for step in (1, 2, 3)
        )
        return Script(runs_s=None if place == 3 else 2.0, reports=tuple(reports))

    places = {}
    world = make_world(one_is_bad)
    uid = world.tune(study(trial_count_max=4, trial_count_parallel=1, stopping=MedianRule()))
    controller = world.controller()
    real = world.store.apply_study

    def not_those_of_the_last(step):
        return False if any(report.number == 4 for report in step.reports) else real(step)

    with patch.object(world.store, "apply_study", not_those_of_the_last):
        let_pass(world, controller, 20)
    assert len(world.trials(uid)) == 4
    let_pass(world, controller, 3)
    assert world.trials(uid)[3].trial.stopped_early
    assert run_to_end(world, controller, uid) == [SUCCEEDED]
    assert world.trials(uid)[3].trial.state is TrialState.SUCCEEDED
