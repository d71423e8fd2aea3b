"""Killed between any two steps, a server takes a study to the same end."""

import functools
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.tuning_world import SUCCEEDED, TuningWorld, script, study
from controller.world import nodes
from trainshed.model.status import FINAL
from trainshed.model.study import MedianRule
from trainshed.model.trials import TrialState

STEPS = ("lease", "deadlines", "studies", "schedule", "perform", "observe")


#: The same study each time: what it suggests follows from its number.
UID = 4711


def ends(spec, kills, seed=0):
    """How a study ends under a controller that is killed as often as ``kills`` says."""
    drawn = random.Random(seed)  # noqa: S311
    with TemporaryDirectory() as folder:
        world = TuningWorld(Path(folder), nodes(4), script=script)
        uid = world.tune(spec, uid=UID)
        controller = world.controller()
        while not world.is_over(uid):
            assert world.clock.s < 2000, world.messages(uid)
            for step in STEPS:
                if drawn.random() < kills:
                    controller = world.controller()
                getattr(controller, f"{step}_once")()
            world.clock.s += 0.5
        outcome = summary(world, uid)
        world.close()
        return outcome


def summary(world, uid):
    views = world.trials(uid)
    jobs = [row.job_uid for row in world.store.trials(uid)]
    assert len(set(jobs)) == len(jobs)
    launched = Counter(key.uid for key in world.engine.launches)
    assert {uid: launched[uid] for uid in jobs} == dict.fromkeys(jobs, 1), "attempts of trials"
    assert all(world.state(job) in FINAL for job in jobs)
    return {
        "state": world.state(uid),
        "trials": [(v.trial.number, v.trial.state, v.trial.values, v.trial.final) for v in views],
    }


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_a_sequential_study_is_the_same_however_often_its_server_is_killed(seed):
    spec = study(trial_count_max=5, trial_count_parallel=1)
    assert ends(spec, 0.4, seed=seed) == undisturbed(spec)


@functools.cache
def undisturbed(spec):
    outcome = ends(spec, 0.0)
    assert outcome["state"] is SUCCEEDED
    assert {state for _, state, *_ in outcome["trials"]} == {TrialState.SUCCEEDED}
    return outcome


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_fifty_trials_in_parallel_run_once_each(seed):
    spec = study(trial_count_max=50, trial_count_parallel=8, stopping=MedianRule())
    outcome = ends(spec, 0.3, seed=seed)
    assert outcome["state"] is SUCCEEDED
    assert [number for number, *_ in outcome["trials"]] == list(range(1, 51))
    values = [values for _, _, values, _ in outcome["trials"]]
    assert len(set(values)) == 50
